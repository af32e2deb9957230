"""Options that several commands have."""

import argparse
import re
import sys

from .. import HoldfastError

LONG = 3600  # seconds of work that a command asks about before it starts


def share(text: str) -> tuple[int, int]:
    """'2/8' as (2, 8): every eighth piece of the work, from the third on."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 0 <= int(match[1]) < int(match[2]):
        raise argparse.ArgumentTypeError(f"{text} is not of the form 0/4, 1/4, 2/4 or 3/4")
    return int(match[1]), int(match[2])


def add_yes(parser: argparse.ArgumentParser) -> None:
    """The option that answers the question of `confirm`."""
    parser.add_argument(
        "--yes", action="store_true", help="start more than an hour of work without asking"
    )


def confirm(work: str, seconds: float, yes: bool, note: str = "", shorter: str = "") -> None:
    """Print how long the work takes, to stderr; ask if that is more than an hour.

    Raises:
        HoldfastError: if the answer is no, or nobody can be asked.
    """
    takes = f"{work}, about {roughly(seconds)}"
    print(f"{takes}{note and f' {note}'}", file=sys.stderr)
    if yes or seconds <= LONG:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise HoldfastError(f"{takes}. Pass --yes to start anyway{shorter and f', or {shorter}'}.")
    print(
        f"Start? [y/N] {shorter and f'(shorter: {shorter}) '}", end="", file=sys.stderr, flush=True
    )
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise HoldfastError("Nothing was started.")


def roughly(seconds: float) -> str:
    """A duration in the unit that suits it.

    >>> roughly(40), roughly(600), roughly(9000), roughly(450_000)
    ('40 seconds', '10 minutes', '2.5 hours', '5.2 days')
    """
    for unit, size, least in (("days", 86400, 2), ("hours", 3600, 1), ("minutes", 60, 2)):
        if seconds >= least * size:
            return f"{seconds / size:.{int(unit != 'minutes')}f} {unit}"
    return f"{max(seconds, 1):.0f} seconds"
