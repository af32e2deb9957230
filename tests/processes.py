"""Processes that a test starts: the command, and waiting for what one of them does."""

import contextlib
import functools
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ONE_THREAD = {"OMP_NUM_THREADS": "1"}


@functools.cache
def forkserver() -> socket.socket:
    """A process that starts commands, one for all tests of this process; it ends when this one does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    script = Path(__file__).with_name("forkserver.py")
    subprocess.Popen(
        [sys.executable, str(script), str(theirs.fileno())],
        env={**os.environ, **ONE_THREAD},
        cwd="/",
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
    )
    theirs.close()
    return ours


class Command:
    """`holdfast WORDS` in a process of its own, with what tests need of a `subprocess.Popen`.

    Args:
        words: of the command line.
        folder: where it is run.
        session: whether it leads a process group and session of its own.
        environment: changes of this process'.
        program: what is run, `python PROGRAM WORDS`.
        spares: how many Python processes it starts that are not to import anything anew.
    """

    def __init__(
        self,
        *words: str | Path,
        folder: Path | None = None,
        session: bool = False,
        environment: Mapping[str, str] = ONE_THREAD,
        program: Sequence[str] = ("-m", "holdfast.benchmarks.cli"),
        spares: int = 0,
    ) -> None:
        self.output = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.returncode: int | None = None
        self._status, theirs = os.pipe()
        wanted = {
            "words": [*program, *map(str, words)],
            "folder": str(folder or Path.cwd()),
            "session": session,
            "environment": {**os.environ, **environment},
            "spares": spares,
        }
        message = [json.dumps(wanted).encode()]
        socket.send_fds(forkserver(), message, [self.output.fileno(), theirs])
        os.close(theirs)
        self.pid = self._told()

    def _told(self) -> int:
        return struct.unpack("i", os.read(self._status, 4))[0]

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, seconds: float | None = None) -> int:
        """Its exit status, as soon as it has ended."""
        if self.returncode is None:
            if not select.select([self._status], [], [], seconds)[0]:
                raise subprocess.TimeoutExpired("holdfast", seconds or 0)
            self.returncode = self._told()
            os.close(self._status)
        return self.returncode

    def told(self, seconds: float) -> str:
        """What it, and those that it started, have printed when it ends."""
        self.wait(seconds)
        self.output.seek(0)
        return self.output.read()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@contextlib.contextmanager
def started(*words: str | Path, **kwargs: Any) -> Iterator[Command]:
    """`holdfast WORDS` in a process of its own; neither it nor its group outlives the test."""
    process = Command(*words, **kwargs)
    try:
        yield process
    finally:
        if kwargs.get("session"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()


def until(
    condition: Callable[[], Any],
    seconds: float = 400,
    alive: Callable[[], bool] | None = None,
    pause: float = 0.01,
) -> Any:
    """What `condition` returns once that is true; fails after so many seconds.

    Returns also as soon as the process that is waited for is no longer `alive`.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if alive is not None and not alive():
            return condition()
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(pause)
    return found


def saved(folder: Path) -> bool:
    """Whether a run has written a checkpoint."""
    return any((folder / "checkpoints").glob("*.ckpt"))
