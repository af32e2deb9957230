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
    data_sets, of_paper = ({cell.names["setting"] for cell in cells} for cells in (ours, theirs))
    alike = [c for c in theirs if c.names["setting"] in data_sets or not data_sets <= of_paper]
    our_settings, their_settings = _by_method(ours), _by_method(alike)
    methods = [method for method in our_settings if method in their_settings]
    differing: dict[tuple[str, str, str], list[str]] = {}
    having: dict[str, set[str]] = {}
    for method in methods:
        both = our_settings[method], their_settings[method]
        for path in dict.fromkeys(p for side in both for kind in side for p in kind):
            having.setdefault(path, set()).add(method)
            if not parts or path.partition(".")[0] in parts:
                for pair in _unequal(path, *both):
                    differing.setdefault((path, *pair), []).append(method)
    sentences = []
    for (path, left, right), some in differing.items():
        everywhere = having[path] == set(some)
        sentences.append(_sentence(_called(path), left, right, () if everywhere else some))
    for name in ("setting",) if parts else ("method", "setting"):
        sides = [dict.fromkeys(c.names[name] for c in cells) for cells in (ours, theirs)]
        only = [[n for n in sides[k] if n not in sides[1 - k]] for k in (0, 1)]
        if any(only):
            sentences.append(_sentence(f"{name}s", *map(_listed, only)))
    seeds = (len({cell.names["seed"] for cell in cells}) for cells in (ours, theirs))
    for name, numbers in (("seeds", [*seeds]), ("runs", [len(ours), len(theirs)])):
        if not parts and len({*numbers}) > 1:
            sentences.append(_sentence(f"number of {name}", *map(str, numbers)))
    return sentences


def _by_method(cells: Iterable[Cell]) -> dict[str, list[Settings]]:
    """The settings of the cells of each method, once for cells that differ only in the seed."""
    by_parts = grouped(cells, lambda cell: (cell.names["method"], *parts_of(cell)))
    by_method = grouped(by_parts.items(), lambda entry: str(entry[0][0]))
    return {
        method: [settings(same[0]) for _, same in entries] for method, entries in by_method.items()
    }


def _unequal(path: str, ours: list[Settings], theirs: list[Settings]) -> list[tuple[str, str]]:
    """The values of a setting on both sides if they differ, as a list of one pair, else [].

    A setting that only one side has counts unless it has its default everywhere, or belongs to a further
    callback that only observes.
    """
    left, right = ([kind[path] for kind in side if path in kind] for side in (ours, theirs))
    first = path.partition(".")[0]
    if not left or not right:
        added = first not in PLACES and not any(first in kind for kind in theirs)
        if all(setting.default for setting in left + right) or (added and only_watches(first)):
            return []
    texts = [list(dict.fromkeys(_text(s.value) for s in side)) for side in (left, right)]
    return [] if set(texts[0]) == set(texts[1]) else [(_listed(texts[0]), _listed(texts[1]))]


def _sentence(name: str, ours: str, theirs: str, methods: Sequence[str] = ()) -> str:
    """A difference in words, in these methods; "" stands for no such argument on that side."""
    of = f" ({', '.join(methods)})" if methods else ""
    if not theirs:
        return f"{name}: {ours}; the paper's setup has no such setting{of}"
    if not ours:
        return f"{name}: not set here; {theirs} in the paper's setup{of}"
    return f"{name}: {ours}, not {theirs}{of}"


def _text(value: Any) -> str:
    """A value as text; a long list is abbreviated to its ends."""
    if isinstance(value, list):
        words = [_text(item) for item in value]
        if len(words) > MANY:
            words = [words[0], "...", f"{words[-1]} ({len(words)})"]
        return "+".join(words) or "none"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _called(path: str) -> str:
    """The displayed name of a setting: "severity" for "data.severity", "stream" for "data"."""
    first, _, rest = path.partition(".")
    return rest or PLACES.get(first, first) if first in PLACES else path


def _listed(words: Sequence[str]) -> str:
    """Values in words; a long list is abbreviated to the first and last ones."""
    if len(words) > MANY:
        words = [*words[:2], f"... ({len(words)} values)", words[-1]]
    return ", ".join(words)
