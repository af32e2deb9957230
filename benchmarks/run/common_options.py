"""Options shared by several commands."""

import argparse
import re
import sys

from ... import HoldfastError

LONG = 3600  # seconds of work beyond which a command asks for confirmation


def share(text: str) -> tuple[int, int]:
    """Parse '2/8' as (2, 8): every eighth part of the work, starting with the third."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 0 <= int(match[1]) < int(match[2]):
        raise argparse.ArgumentTypeError(
            f"{text} is not of the form I/N with I < N, as in 0/4 or 3/4"
        )
    return int(match[1]), int(match[2])


def difficulty(text: str) -> float | str:
    """Parse a difficulty: a name such as 'medium', or an accuracy in percent."""
    return float(text) if text.replace(".", "", 1).isdigit() else text


def add_source(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Add the options for the clean images and their size; --source is required without a default."""
    parser.add_argument(
        "--source",
        required=default is None,
        default=default,
        help="glyphs, digits, or a folder with one sub-folder per class",
    )
    parser.add_argument("--size", type=int, help="pixels per side (default: 224; glyphs: 32)")


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Add the option that skips the confirmation of `confirm`."""
    parser.add_argument("--yes", action="store_true", help="start hours of work without asking")


def confirm(work: str, seconds: float, yes: bool, note: str = "", shorter: str = "") -> None:
    """Print the estimated duration to stderr, and ask for confirmation above an hour.

    Raises:
        HoldfastError: if the user declines, or there is no terminal to ask.
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
        raise HoldfastError("Cancelled; nothing was started.")


def roughly(seconds: float) -> str:
    """A duration in a suitable unit.

    >>> roughly(40), roughly(600), roughly(9000), roughly(450_000)
    ('40 seconds', '10 minutes', '2.5 hours', '5.2 days')
    """
    for unit, size, least in (("days", 86400, 2), ("hours", 3600, 1), ("minutes", 60, 2)):
        if seconds >= least * size:
            return f"{seconds / size:.{int(unit != 'minutes')}f} {unit}"
    return f"{max(seconds, 1):.0f} seconds"
