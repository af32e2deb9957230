"""Holdfast: how long a model that adapts at test time stays accurate, and if it can detect its collapse."""

import re
from collections.abc import Sequence

# Control characters, which a terminal would obey, and characters that it cannot encode; line ends stay.
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class HoldfastError(Exception):
    """A problem the user can solve; its message is one sentence that says what to change."""

    def __str__(self) -> str:
        return printable(super().__str__())


def printable(text: str) -> str:
    """The text with "?" in place of characters that a terminal would obey."""
    return CONTROL.sub("?", text)


def in_range(least: float, most: float | None = None, **values: float | None) -> None:
    """Raise HoldfastError if an argument is outside [`least`, `most`]; None passes.

    >>> in_range(1, every=0)
    Traceback (most recent call last):
    holdfast.HoldfastError: every=0: pass at least 1.
    """
    for name, value in values.items():
        if value is None or (value >= least and (most is None or value <= most)):
            continue
        wanted = f"at least {least}" if most is None else f"{least} to {most}"
        raise HoldfastError(f"{name}={value}: pass {wanted}.")


def step_times(times: float | Sequence[float] | None) -> list[float]:
    """The argument `times` of what has a clock as a list; empty if it is None, for measured ones.

    Raises HoldfastError if a time is negative, or a list of them is empty.
    """
    steps = [times] if isinstance(times, (int, float)) else list(times or ())
    for seconds in steps:
        in_range(0, times=seconds)
    if times is not None and not steps:
        raise HoldfastError("times is empty. Pass a number, a list of numbers, or None.")
    return steps


def one_of(*allowed: str, **values: str) -> None:
    """Raise HoldfastError if an argument is none of the allowed ones.

    >>> one_of("cosine", "l2", distance="l1")
    Traceback (most recent call last):
    holdfast.HoldfastError: distance='l1' is unknown. Choose cosine or l2.
    """
    for name, value in values.items():
        if value not in allowed:
            choices = " or ".join(filter(None, [", ".join(allowed[:-1]), allowed[-1]]))
            raise HoldfastError(f"{name}={value!r} is unknown. Choose {choices}.")
