"""Processes that a test starts: the command, and waiting for what one of them does."""

import contextlib
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from holdfast.run_folder import owner

# Commands are forked from a process that has imported what most of them need, and computes with one thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")
FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(
    ["holdfast.benchmarks.test", "sklearn.datasets", "torch.utils.tensorboard"]
)


class Command:
    """`holdfast WORDS` in a process of its own, with what tests need of a `subprocess.Popen`.

    Args:
        words: of the command line.
        folder: where it is run.
        session: whether it leads a process group and session of its own.
        environment: additions to this process's.
        main: what is called with the words, in place of the command.
    """

    def __init__(
        self,
        *words: str | Path,
        folder: Path | None = None,
        session: bool = False,
        environment: Mapping[str, str] | None = None,
        main: Callable[[list[str]], int | None] | None = None,
    ) -> None:
        self.output = tempfile.NamedTemporaryFile("w+")  # noqa: SIM115
        given = ([*map(str, words)], str(folder or Path.cwd()), session, self.output.name)
        variables = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
        self.process = FORK.Process(target=command, args=(main, *given, variables))
        self.process.start()
        self.pid: int = self.process.pid  # type: ignore[assignment]

    @property
    def returncode(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return self.process.exitcode

    def alive(self) -> bool:
        return self.process.exitcode is None

    def wait(self, seconds: float | None = None) -> int:
        """Its exit status, as soon as it has ended."""
        self.process.join(seconds)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("holdfast", seconds or 0)
        return self.returncode

    def told(self, seconds: float) -> str:
        """What it, and those that it started, have printed when it ends."""
        self.wait(seconds)
        return self.printed()

    def printed(self) -> str:
        return Path(self.output.name).read_text()

    def send_signal(self, number: int) -> None:
        if self.alive():
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def command(
    main: Callable[[list[str]], int | None] | None,
    words: list[str],
    folder: str,
    session: bool,
    output: str,
    environment: Mapping[str, str],
) -> None:
    """What the process of a `Command` does."""
    if session:
        os.setsid()
    for number in (1, 2):
        os.dup2(os.open(output, os.O_WRONLY | os.O_APPEND), number)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    multiprocessing.set_start_method("fork", force=True)  # of data loaders, as in a command
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = [str(Path(sys.executable).with_name("holdfast")), *words]  # for a further device
    from holdfast.benchmarks import cli

    sys.exit((main or cli.main)(words))


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


def rows(run: Path) -> int:
    """The number of rows that a run has written."""
    path = run / "record.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def members(pid: int) -> dict[int, str]:
    """The living processes of the session that this one leads, in whatever group, and their commands."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (path / "stat").read_text().rpartition(") ")[2].split()
            if fields[3] == str(pid) and fields[0] != "Z":
                found[int(path.name)] = (path / "cmdline").read_text()
    return found


def process_of(folder: Path) -> int:
    """The process that executes a run."""
    return int(until(lambda: re.search(r"process (\d+)$", owner(folder) or ""))[1])
