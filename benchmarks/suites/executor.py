"""Where cells are run: the protocol that a schedule uses, and the simplest executor."""

from typing import Protocol

from .attempt import Outcome, attempt
from .cell import Cell

STOPPING = "stopping: the runs save their state (a second Ctrl-C ends them at once)"


class Executor(Protocol):
    """Where cells are run: in this process, in several of this machine, or on a cluster."""

    def free(self) -> bool:
        """Whether one more cell can be started now."""

    def start(self, cell: Cell) -> None:
        """Begin or go on with a cell."""

    def wait(self, seconds: float) -> list[Outcome]:
        """What has ended, after at most so long."""

    def stop(self) -> None:
        """Have what is running save its state, wait for that, and let go of all processes."""


class SerialExecutor:
    """One cell after the other, in this process."""

    def __init__(self) -> None:
        self._ended: list[Outcome] = []

    def free(self) -> bool:
        return not self._ended

    def start(self, cell: Cell) -> None:
        self._ended.append(attempt(cell))

    def wait(self, seconds: float) -> list[Outcome]:
        ended, self._ended = self._ended, []
        return ended

    def stop(self) -> None:
        pass
