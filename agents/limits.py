"""Limits: on the costs of a sample and of a run, and on the requests per second to a service."""

import threading
import time
from collections.abc import Sequence

from .. import HoldfastError, in_range
from .records import Call

Prices = tuple[float, float]  # US dollars per million input and output tokens


def tokens_of(calls: Sequence[Call]) -> dict[str, int]:
    """Total input and output tokens of calls; each call is charged for its whole prompt."""
    sides = ("input", "output")
    return {s: sum(call.usage.get(f"{s}_tokens") or 0 for call in calls) for s in sides}


def usd_of(calls: Sequence[Call], prices: Prices | None) -> float | None:
    """The price of calls in US dollars, by `prices` or else as reported; None if unknown."""
    if prices:
        return sum(t * p for t, p in zip(tokens_of(calls).values(), prices, strict=True)) / 1e6
    reported = [call.usd for call in calls if call.usd is not None]
    return sum(reported) if reported else None


class Allowance:
    """Limits in US dollars, tokens and seconds (None: no limit), and the amounts spent; thread-safe.

    Requests in progress when a limit is reached are completed, so each thread may exceed it by one request.
    Prices are the provider's, or `prices` (US dollars per million input and output tokens).

    Raises:
        HoldfastError: if a limit is negative.
    """

    def __init__(
        self,
        usd: float | None = None,
        tokens: int | None = None,
        seconds: float | None = None,
        prices: Prices | None = None,
    ) -> None:
        in_range(0, usd=usd, tokens=tokens, seconds=seconds)
        self.limits = {"USD": usd, "tokens": tokens, "seconds": seconds}
        self.prices = prices
        self._spent = {"USD": 0.0, "tokens": 0.0}
        self._has_unknown_price = False
        self._start = time.monotonic()
        self._mutex = threading.Lock()

    def spend(self, call: Call) -> None:
        """Add the price and the tokens of a call."""
        usd = usd_of([call], self.prices)
        with self._mutex:
            self._has_unknown_price |= usd is None and call.reply is not None
            self._spent["USD"] += usd or 0.0
            self._spent["tokens"] += sum(tokens_of([call]).values())

    def used_up(self) -> str:
        """The limit that has been reached, as in "2.03 of 2 USD"; "" if none has.

        Raises:
            HoldfastError: if US dollars are limited and the price of a call is unknown.
        """
        with self._mutex:
            spent = {**self._spent, "seconds": time.monotonic() - self._start}
        if self._has_unknown_price and self.limits["USD"] is not None:
            raise HoldfastError(
                "US dollars are limited, but the provider reports no price. Pass --usd-per-million IN "
                "OUT, or limit tokens instead."
            )
        for unit, limit in self.limits.items():
            if limit is not None and spent[unit] >= limit:
                return f"{spent[unit]:.4g} of {limit:g} {unit}"
        return ""


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
