"""Holdfast: does a model that adapts itself at test time keep hold, for how long, and can it tell?"""


class HoldfastError(Exception):
    """A problem the user can solve; its message is one sentence that says what to change."""


def in_range(least: float, most: float | None = None, **values: float | None) -> None:
    """Raise HoldfastError where an argument lies outside `least` to `most`; one that is None passes.

    >>> in_range(1, every=0)
    Traceback (most recent call last):
    holdfast.HoldfastError: every=0: give at least 1.
    """
    for name, value in values.items():
        if value is None or (value >= least and (most is None or value <= most)):
            continue
        wanted = f"at least {least}" if most is None else f"{least} to {most}"
        raise HoldfastError(f"{name}={value}: give {wanted}.")
