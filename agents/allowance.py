"""What a sample and a run may cost: dollars, tokens, seconds; asked before every call and action."""

import threading
import time
from typing import Any

from .. import HoldfastError, in_range
from .costs import Prices, tokens_of, usd_of


class Allowance:
    """Limits, None for none, and what is spent of them; threads may share one.

    What is under way when a limit is met is finished, so it is exceeded by one request per thread at
    most. Dollars are the provider's, or by `prices` (per million input and output tokens).
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

    def spend(self, call: dict[str, Any]) -> None:
        """Add a call, an event of kind `lm`.

        Raises:
            HoldfastError: if dollars are limited and the price of the call is not known.
        """
        usd = usd_of([call], self.prices)
        if usd is None and self.limits["USD"] is not None and "reply" in call:
            raise HoldfastError(
                "dollars are limited, and the provider names no price: give --usd-per-million IN OUT, "
                "or limit tokens."
            )
        with self._mutex:
            self._spent["USD"] += usd or 0.0
            self._spent["tokens"] += sum(tokens_of([call]).values())

    def used_up(self) -> str:
        """Which limit is met, as in "2.03 of 2 USD"; "" if none is."""
        with self._mutex:
            spent = {**self._spent, "seconds": time.monotonic() - self._start}
        for unit, limit in self.limits.items():
            if limit is not None and spent[unit] >= limit:
                return f"{spent[unit]:.4g} of {limit:g} {unit}"
        return ""
