"""Options shared by several commands."""

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ... import HoldfastError

CACHE = "HOLDFAST_CACHE"  # environment variable with --cache for the child processes of a command
CACHE_SIZE = 10 * 10**9  # bytes
CACHE_FORM = re.compile(r"(.+?)(?::(\d+(?:\.\d+)?)([KMGT]?)B?)?", re.IGNORECASE)
LONG = 3600  # seconds of work beyond which a command asks for confirmation


def share(text: str) -> tuple[int, int]:
    """Parse '2/8' as (2, 8): every eighth part of the work, starting with the third."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 0 <= int(match[1]) < int(match[2]):
        raise argparse.ArgumentTypeError(
            f"{text} is not of the form I/N with I < N, as in 0/4 or 3/4"
        )
    return int(match[1]), int(match[2])


def cache_place(text: str) -> tuple[Path, int]:
    """Parse 'FOLDER:SIZE' as the folder and the size in bytes (default: 10 GB).

    Raises:
        HoldfastError: if the text does not have this form.

    >>> cache_place("/fast/cache:1.5GB")[1], cache_place("/fast/cache")[1]
    (1500000000, 10000000000)
    """
    match = CACHE_FORM.fullmatch(text)
    if not match:
        raise HoldfastError(
            f"--cache {text!r} is invalid. Pass FOLDER or FOLDER:SIZE, as in cache:20GB."
        )
    folder, number, unit = match.groups()
    size = int(float(number) * 1000 ** " KMGT".index(unit.upper() or " ")) if number else CACHE_SIZE
    return Path(folder).absolute(), size


@contextlib.contextmanager
def caching(place: tuple[Path, int] | None) -> Iterator[None]:
    """Let the runs of this process and its child processes cache their batches in this folder."""
    before = os.environ.get(CACHE)
    if place:
        os.environ[CACHE] = "{}:{}".format(*place)
    try:
        yield
    finally:
        if place and before is None:
            del os.environ[CACHE]
        elif place:
            os.environ[CACHE] = before or ""


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
