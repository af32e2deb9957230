"""Limits on requests to services: a shared rate limiter per provider, and backoff with jitter."""

import random
import threading
import time
from dataclasses import dataclass


class RateLimiter:
    """Spaces the requests of all threads evenly; `per_second` None: no limit."""

    def __init__(self, per_second: float | None = None) -> None:
        self._interval = 1 / per_second if per_second else 0.0
        self._next = 0.0
        self._mutex = threading.Lock()

    def wait(self) -> None:
        """Sleep until this thread's turn."""
        with self._mutex:
            now = time.monotonic()
            turn = max(self._next, now)
            self._next = turn + self._interval
        if turn > now:
            time.sleep(turn - now)

    def pause(self, seconds: float) -> None:
        """Delay the requests of all threads by `seconds`, as the limit of a service applies to all."""
        with self._mutex:
            self._next = max(self._next, time.monotonic() + seconds)


@dataclass(frozen=True)
class Retry:
    """The number of tries, and the seconds to wait after try k = 1, 2, ..."""

    attempts: int = 6
    base: float = 1.0
    cap: float = 60.0

    def delay(self, k: int, asked: float | None = None) -> float:
        """The exponential wait with jitter, or the wait that the server requests (at most 600 s)."""
        wait = min(self.cap, self.base * 2 ** (k - 1)) * random.uniform(0.5, 1.0)
        return max(wait, min(asked, 600.0)) if asked else wait
