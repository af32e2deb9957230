"""Rules for alarms: pure functions of a state and of one batch, used both online and in reports.

They are in core/ so that reports can apply them without loading torch.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from . import in_range

Array = np.ndarray
State = tuple[Any, ...]  # of plain values; () at the beginning
WINDOW = 20  # batches that are averaged, and for which a collapse must last
# AETTA's rule for a reset counts 2 points as a drop (Lee et al. 2024). Where the source model itself is
# right on less than 20 %, as on CCC-Hard, that would hide a collapse, so a tenth of its accuracy counts.
_MARGIN, _SHARE = 0.02, 0.1


class Seen(NamedTuple):
    """The input of a rule for one batch."""

    value: float | None  # accuracy in [0,1], estimated before the step; None: no estimate
    source: float | None = None  # the source model's accuracy on these images
    fresh: bool = False  # whether the model was reset just before this batch
    not_finite: bool = False  # images or logits are not finite, so there could be no estimate


class Rule(ABC):
    """Turns a state and a batch into the next state, and whether there is an alarm after the batch."""

    needs_source: ClassVar[bool] = False  # whether it needs `Seen.source`

    def __post_init__(self) -> None:
        settings = vars(self)
        in_range(1, window=settings.get("window"))
        in_range(0, 1, margin=settings.get("margin"), floor=settings.get("floor"))

    @abstractmethod
    def __call__(self, state: State, seen: Seen) -> tuple[State, bool]: ...

    def reason(self, state: State, seen: Seen) -> str:
        """The evidence for an alarm after a batch that led to this state, in one sentence."""
        return f"{self} is true"


@dataclass(frozen=True)
class Drop(Rule):
    """AETTA's rule for a reset (Lee et al. 2024, section 5), as in the official code.

    Alarm if the last estimate is below `floor`, or if the mean of the last `window` estimates is
    more than `margin` below that of the `window` before. Estimates from before a reset do not
    count, and batches without an estimate are skipped; a batch that is not finite raises the alarm
    as well. The paper has no margin, the official code 2 points. With `each`, all of the last
    estimates must be below all of those before, as the paper's sentence can be read.

    >>> Drop(window=1)((60.0,), Seen(0.57))
    ((60.0, 57.0), True)
    """

    window: int = 5
    margin: float = _MARGIN
    floor: float = 0.2
    each: bool = False

    def __call__(self, state: State, seen: Seen) -> tuple[State, bool]:
        estimates = () if seen.fresh else state
        if seen.value is not None:
            # Percent, as in the official code, so that a drop of exactly the margin counts alike.
            estimates = (*estimates, round(100 * seen.value, 10))[-2 * self.window :]
        if seen.not_finite or not estimates:
            return estimates, seen.not_finite
        before, last = estimates[: -self.window], estimates[-self.window :]
        dropped = False
        if len(before) == self.window:
            means = sum(last) / self.window, sum(before) / self.window
            high, low = (max(last), min(before)) if self.each else means
            dropped = high + 100 * self.margin < low
        return estimates, last[-1] < 100 * self.floor or dropped

    def reason(self, state: State, seen: Seen) -> str:
        if seen.not_finite:
            return "the images or the logits of the last batch are not finite"
        if state[-1] < 100 * self.floor:
            return f"the last estimate, {state[-1]:.1f} %, is below {100 * self.floor:g} %"
        means = (sum(part) / self.window for part in (state[-self.window :], state[: self.window]))
        text = (
            "the mean of the last {0} estimates is {1:.1f} %, that of the {0} before was {2:.1f} %"
        )
        return text.format(self.window, *means)


@dataclass(frozen=True)
class BelowSource(Rule):
    """Alarm if the mean of the last `window` values is below the source model's by a `margin`.

    Batches without either value, or before a reset, are ignored; there is no alarm before `window` count.

    >>> BelowSource(window=2)(((0.5, 0.6),), Seen(0.5, 0.6))
    (((0.5, 0.6), (0.5, 0.6)), True)
    """

    needs_source = True
    window: int = WINDOW
    margin: float | None = None  # None: `margin` of the source model's mean

    def __call__(self, state: State, seen: Seen) -> tuple[State, bool]:
        pairs = () if seen.fresh else state
        if seen.value is not None and seen.source is not None:
            pairs = (*pairs, (seen.value, seen.source))[-self.window :]
        if len(pairs) < self.window:
            return pairs, False
        accuracy, source = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
        return pairs, bool(is_below(accuracy, source, self.margin))

    def reason(self, state: State, seen: Seen) -> str:
        accuracy, source = (100 * sum(values) / len(state) for values in zip(*state, strict=True))
        text = f"over the last {len(state)} batches the estimate is {accuracy:.1f} %"
        return f"{text}, the source model's {source:.1f} %"


@dataclass(frozen=True)
class Collapse(BelowSource):
    """Alarm when `BelowSource` has been true for `window` consecutive batches: a collapse persists."""

    def __call__(self, state: State, seen: Seen) -> tuple[State, bool]:
        count, pairs = (0, ()) if seen.fresh or not state else state
        pairs, alarm = super().__call__(pairs, seen)
        count = min(count + 1, self.window) if alarm else 0
        return (count, pairs), count == self.window

    def reason(self, state: State, seen: Seen) -> str:
        return f"{super().reason(state[1], seen)}, and was below it {state[0]} times in a row"


RULES: dict[str, type[Rule]] = {"drop": Drop, "below source": BelowSource, "collapse": Collapse}


def margin(source: Array | float) -> Any:
    """The margin below a source model of this accuracy in [0,1] that counts as a collapse."""
    return np.minimum(_MARGIN, _SHARE * np.asarray(source))


def is_below(accuracy: Any, source: Any, by: float | None = None) -> Any:
    """Whether mean accuracies are below the source model's by more than `by`; None: by `margin`."""
    return np.asarray(accuracy) < source - (margin(source) if by is None else by)


def raised(
    rule: Rule,
    values: Array,
    source: Array | None = None,
    fresh: Sequence[bool] | Array | None = None,
    not_finite: Sequence[bool] | Array | None = None,
) -> Array:
    """Whether the rule raises an alarm after each batch [n], from values [n], NaN where missing.

    >>> raised(Drop(), np.array([0.6, np.nan, 0.1])).tolist()
    [False, False, True]
    """
    n, state = len(values), ()
    columns = [values, np.full(n, np.nan) if source is None else source]
    numbers = [[None if np.isnan(v) else float(v) for v in column] for column in columns]
    flags = [[False] * n if f is None else list(map(bool, f)) for f in (fresh, not_finite)]
    alarms = np.zeros(n, dtype=bool)
    for i, seen in enumerate(zip(*numbers, *flags, strict=True)):
        state, alarms[i] = rule(state, Seen(*seen))
    return alarms
