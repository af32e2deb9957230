"""What processes tell of each other: how one ended, and that the one that started them is gone."""

import multiprocessing
import signal
import threading
from collections.abc import Callable


def how_it_ended(code: int) -> str:
    """A process' exit code in words; the kernel sends SIGKILL when memory runs out."""
    if code < 0:
        name = signal.Signals(-code).name
        hint = " (out of memory?)" if name == "SIGKILL" else ""
        return f"was killed by {name}{hint}"
    return f"ended with exit code {code}"


def when_parent_ends(act: Callable[[], None]) -> None:
    """Call `act` in a thread as soon as the process that started this one is gone, even by SIGKILL."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        act()

    threading.Thread(target=wait, daemon=True).start()
