"""How processes end: on a signal or with their parent, and the message about it."""

import contextlib
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator


def how_it_ended(code: int) -> str:
    """A process's exit code in words; SIGKILL usually means that memory ran out."""
    if code < 0:
        name = signal.Signals(-code).name
        hint = " (out of memory?)" if name == "SIGKILL" else ""
        return f"was killed by {name}{hint}"
    return f"ended with exit code {code}"


def when_parent_ends(act: Callable[[], None]) -> None:
    """Call `act` in a thread as soon as the parent process has ended, even by SIGKILL."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        act()

    threading.Thread(target=wait, daemon=True).start()


@contextlib.contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Make SIGTERM, which schedulers send before SIGKILL, raise KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def delayed(*numbers: int) -> Iterator[None]:
    """Delay signals until the block ends; processes started in it get them once they unblock them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
