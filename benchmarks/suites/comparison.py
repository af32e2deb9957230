"""Differences between the settings of runs and those of a paper's full-scale suite."""

from collections.abc import Iterable, Sequence
from typing import Any

from ..results.runs import grouped
from .cell import Cell
from .cell import parts as parts_of
from .settings import Setting, only_watches, settings

MANY = 6  # maximum number of values listed in a sentence
PLACES = {"data": "stream", "model": "method"}
Settings = dict[str, Setting]  # by path, such as "data.severity"


def differences(
    ours: Sequence[Cell], theirs: Sequence[Cell], parts: Sequence[str] = ()
) -> list[str]:
    """The settings in which our runs differ from the paper's, as sentences; [] if in none.

    For each method, all values of a setting are compared with those in the paper's runs of this method.
    parts: compare only these parts of the configurations, such as "data", and not the set of methods.
    """
    if not theirs:
        return []
    # The paper's runs on our data sets; all of its runs if it has not each of these.
    known, there = ({cell.names["setting"] for cell in cells} for cells in (ours, theirs))
    alike = [c for c in theirs if c.names["setting"] in known or not known <= there]
    own, wanted = by_method(ours), by_method(alike)
    common = [method for method in own if method in wanted]
    differing: dict[tuple[str, str, str], list[str]] = {}
    having: dict[str, set[str]] = {}
    for method in common:
        both = own[method], wanted[method]
        for place in dict.fromkeys(p for side in both for kind in side for p in kind):
            having.setdefault(place, set()).add(method)
            if not parts or place.partition(".")[0] in parts:
                for pair in unequal(place, *both):
                    differing.setdefault((place, *pair), []).append(method)
    found = []
    for (place, left, right), methods in differing.items():
        some = () if having[place] == set(methods) else methods
        found.append(sentence(called(place), left, right, some))
    for name in ("setting",) if parts else ("method", "setting"):
        sides = [dict.fromkeys(c.names[name] for c in cells) for cells in (ours, theirs)]
        one, two = ([n for n in sides[k] if n not in sides[1 - k]] for k in (0, 1))
        if one or two:
            found.append(sentence(f"{name}s", listed(one), listed(two)))
    seeds = (len({cell.names["seed"] for cell in cells}) for cells in (ours, theirs))
    for name, numbers in (("seeds", [*seeds]), ("runs", [len(ours), len(theirs)])):
        if not parts and len({*numbers}) > 1:
            found.append(sentence(f"number of {name}", *map(str, numbers)))
    return found


def by_method(cells: Iterable[Cell]) -> dict[str, list[Settings]]:
    """The settings of the cells of each method, once for cells that differ only in the seed."""
    found = grouped(cells, lambda cell: (cell.names["method"], *parts_of(cell)))
    kinds = grouped(found.items(), lambda entry: str(entry[0][0]))
    return {method: [settings(same[0]) for _, same in own] for method, own in kinds.items()}


def unequal(place: str, ours: list[Settings], theirs: list[Settings]) -> list[tuple[str, str]]:
    """The values of a setting on both sides if they differ, as a list of one pair, else [].

    A setting that only one side has counts unless it has its default everywhere, or belongs to a further
    callback that only observes.
    """
    left, right = ([kind[place] for kind in side if place in kind] for side in (ours, theirs))
    first = place.partition(".")[0]
    if not left or not right:
        added = first not in PLACES and not any(first in kind for kind in theirs)
        if all(own.default for own in left + right) or (added and only_watches(first)):
            return []
    words = [list(dict.fromkeys(text(own.value) for own in side)) for side in (left, right)]
    return [] if set(words[0]) == set(words[1]) else [(listed(words[0]), listed(words[1]))]


def sentence(name: str, ours: str, theirs: str, methods: Sequence[str] = ()) -> str:
    """A difference in words, in these methods; "" stands for no such argument on that side."""
    of = f" ({', '.join(methods)})" if methods else ""
    if not theirs:
        return f"{name}: {ours}; the paper's setup has no such setting{of}"
    if not ours:
        return f"{name}: not set here; {theirs} in the paper's setup{of}"
    return f"{name}: {ours}, not {theirs}{of}"


def text(value: Any) -> str:
    """A value as text; a long list is abbreviated to its ends."""
    if isinstance(value, list):
        words = [text(own) for own in value]
        if len(words) > MANY:
            words = [words[0], "...", f"{words[-1]} ({len(words)})"]
        return "+".join(words) or "none"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def called(place: str) -> str:
    """The displayed name of a setting: "severity" for "data.severity", "stream" for "data"."""
    first, _, rest = place.partition(".")
    return rest or PLACES.get(first, first) if first in PLACES else place


def listed(words: Sequence[str]) -> str:
    """Values in words; a long list is abbreviated to the first and last ones."""
    if len(words) > MANY:
        words = [*words[:2], f"... ({len(words)} values)", words[-1]]
    return ", ".join(words)
