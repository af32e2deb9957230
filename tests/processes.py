"""Processes that a test starts: the command, and waiting for what one of them does."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from conftest import interruptible

COMMAND = [sys.executable, "-m", "holdfast.benchmarks.cli"]


@contextlib.contextmanager
def started(*words: str | Path, **kwargs: Any) -> Iterator[subprocess.Popen]:
    """`holdfast WORDS` in a process of its own, which does not outlive the test."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=interruptible,
        **kwargs,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(
    condition: Callable[[], Any], seconds: float = 400, alive: Callable[[], bool] | None = None
) -> Any:
    """What `condition` returns once that is true; fails after so many seconds.

    Returns also as soon as the process that is waited for is no longer `alive`.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if alive is not None and not alive():
            return condition()
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)
    return found


def saved(folder: Path) -> bool:
    """Whether a run has written a checkpoint."""
    return any((folder / "checkpoints").glob("*.ckpt"))
