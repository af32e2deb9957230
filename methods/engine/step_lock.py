"""Refuses simultaneous steps of one method from several threads."""

import threading

from ... import HoldfastError


class OneThread:
    """`with turn:` admits one thread at a time; a copy is independent.

    Raises:
        HoldfastError: when entered while another thread is in it.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise HoldfastError(
                "a step of this method is under way in another thread, and steps follow one another: call "
                "it from one thread at a time (a queue, a lock), or give each thread a method of its own."
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["OneThread"], tuple[()]]:
        return OneThread, ()
