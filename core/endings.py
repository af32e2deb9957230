"""How processes end: on a signal, or when their parent does, and the message about it."""

import contextlib
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator


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


@contextlib.contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """SIGTERM, which schedulers send before they kill, raises KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def held(*numbers: int) -> Iterator[None]:
    """Signals that arrive meanwhile are delivered afterwards; processes started here get them once they
    unblock them.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
