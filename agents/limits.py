"""Tokens and prices of language-model calls, and limits on them for a run."""

import threading
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
    """Limits in US dollars and tokens (None: no limit), and the amounts spent; thread-safe.

    Requests in progress when a limit is reached are completed, so each thread may exceed it by one request.
    `prices` are by default the provider's. A negative limit raises `HoldfastError`.
    """

    def __init__(
        self, usd: float | None = None, tokens: int | None = None, prices: Prices | None = None
    ) -> None:
        in_range(0, usd=usd, tokens=tokens)
        self.usd, self.tokens, self.prices = usd, tokens, prices
        self._spent_usd, self._spent_tokens = 0.0, 0
        self._has_unknown_price = False
        self._mutex = threading.Lock()

    def spend(self, call: Call) -> None:
        """Add the price and the tokens of a call, unless a recorded world answered it."""
        if not call.was_sent:
            return
        usd, tokens = usd_of([call], self.prices), sum(tokens_of([call]).values())
        with self._mutex:
            self._has_unknown_price |= usd is None and call.reply is not None
            self._spent_usd += usd or 0.0
            self._spent_tokens += tokens

    def used_up(self) -> str:
        """The limit that has been reached, as in "2.03 of 2 USD"; "" if none has.

        Raises `HoldfastError` if US dollars are limited and the price of a call is unknown.
        """
        if self.usd is not None and self._has_unknown_price:
            raise HoldfastError(
                "US dollars are limited, but the provider reports no price. Pass --usd-per-million IN "
                "OUT, or limit tokens instead."
            )
        if self.usd is not None and self._spent_usd >= self.usd:
            return f"{self._spent_usd:.4g} of {self.usd:g} USD"
        if self.tokens is not None and self._spent_tokens >= self.tokens:
            return f"{self._spent_tokens:.4g} of {self.tokens:g} tokens"
        return ""
