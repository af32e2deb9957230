"""Checks before every write whether the run may continue."""

from collections.abc import Callable
from typing import Any

from lightning.pytorch import Callback


class LeaseGuard(Callback):
    """Calls `check` before each step and before its row is recorded; an exception ends the run.

    Args:
        check: returns if this process may still write in the run's folder.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self.check = check

    def on_test_batch_start(self, *_: Any) -> None:
        self.check()

    def on_test_batch_end(self, *_: Any) -> None:
        self.check()
