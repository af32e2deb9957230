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
                "Another thread is in a step of this method, and steps must follow one another. "
                "Call it from one thread at a time (use a queue or a lock), or create a method "
                "per thread."
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["OneThread"], tuple[()]]:
        return OneThread, ()
