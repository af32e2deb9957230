"""Costs of samples and runs in US dollars, tokens and seconds, and limits on them."""

import threading
import time
from collections.abc import Sequence

from .. import HoldfastError, in_range
from .schema import Call

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
        self._start = time.monotonic()
        self._mutex = threading.Lock()

    def spend(self, call: Call) -> None:
        """Add the price and the tokens of a call.

        Raises:
            HoldfastError: if US dollars are limited and the price of the call is unknown.
        """
        usd = usd_of([call], self.prices)
        if usd is None and self.limits["USD"] is not None and call.reply is not None:
            raise HoldfastError(
                "US dollars are limited, but the provider reports no price. Pass --usd-per-million IN "
                "OUT, or limit tokens instead."
            )
        with self._mutex:
            self._spent["USD"] += usd or 0.0
            self._spent["tokens"] += sum(tokens_of([call]).values())

    def used_up(self) -> str:
        """The limit that has been reached, as in "2.03 of 2 USD"; "" if none has."""
        with self._mutex:
            spent = {**self._spent, "seconds": time.monotonic() - self._start}
        for unit, limit in self.limits.items():
            if limit is not None and spent[unit] >= limit:
                return f"{spent[unit]:.4g} of {limit:g} {unit}"
        return ""
