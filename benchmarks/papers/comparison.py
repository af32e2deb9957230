"""Differences between the settings of runs and those of a paper's full-scale suite."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ...files import read_json
from ...run_folder import CELL
from ..results.groups import groups
from ..results.runs import Run, grouped
from ..suites.cell import Cell
from ..suites.cell import parts as parts_of
from ..suites.settings import Setting, only_watches, settings
from .experiment import EXPERIMENTS, FULL
from .page import printed, text_of

MANY = 6  # maximum number of values listed in a sentence
PLACES = {"data": "stream", "model": "method"}


class Difference(NamedTuple):
    """A setting that differs from the paper's, in all methods or in those listed.

    `ours` or `theirs` is empty if the classes of that side have no such argument.
    """

    name: str
    ours: tuple[Any, ...]
    theirs: tuple[Any, ...]
    methods: tuple[str, ...] = ()

    def __str__(self) -> str:
        of = f" ({', '.join(self.methods)})" if self.methods else ""
        if not self.theirs:
            return f"{self.name}: {listed(self.ours)}; the paper's setup has no such setting{of}"
        if not self.ours:
            return f"{self.name}: not set here; {listed(self.theirs)} in the paper's setup{of}"
        return f"{self.name}: {listed(self.ours)}, not {listed(self.theirs)}{of}"


class Kind:
    """A group of cells that differ only in the seed.

    levels: the levels of each factor that the suite varies, in order.
    """

    def __init__(self, cell: Cell, levels: dict[str, list[Any]]) -> None:
        self.cell, self.method = cell, cell.names["method"]
        self.place = cell.names["stream"], cell.names["override"]
        self.setting = cell.names["setting"]
        self.factors = frozenset(cell.factors)
        self.levels = frozenset((name, str(level)) for name, level in cell.factors.items())
        self.positions = frozenset(
            (name, levels[name].index(level)) for name, level in cell.factors.items()
        )

    @cached_property
    def settings(self) -> dict[str, Setting]:
        return settings(self.cell)

    def nearness(self, other: "Kind") -> tuple[Any, ...]:
        """A sort key for the similarity of two groups, by names and factors."""
        return (
            self.place == other.place,
            self.setting == other.setting,
            self.factors == other.factors,
            len(self.levels & other.levels),
            len(self.positions & other.positions),
            self.place[1] == other.place[1],
        )


def differences(
    ours: Sequence[Cell], theirs: Sequence[Cell], parts: Sequence[str] = ()
) -> list[Difference]:
    """The differences of our runs from the paper's; [] if there are none.

    Each run is compared with the paper's run of the same method that is most similar in factors and names.

    Args:
        ours: the cells of our runs.
        theirs: the cells of the paper's suite.
        parts: compare only these parts of the configurations, such as "data", and not the set of methods.
    """
    if not theirs:
        return []
    own, wanted = kinds(ours), kinds(theirs)
    found = of_settings(paired(own, wanted), wanted, parts)
    known = {difference.name.rpartition(".")[2] for difference in found}
    levels, other = levels_in(ours), levels_in(theirs)
    for name in (name for name in levels if name in other and name not in known):
        if set(map(str, levels[name])) != set(map(str, other[name])):
            found.append(Difference(name, tuple(levels[name]), tuple(other[name])))
    for name in ("setting",) if parts else ("method", "setting"):
        sides = [
            list(dict.fromkeys(cell.names[name] for cell in cells)) for cells in (ours, theirs)
        ]
        one, two = (tuple(n for n in sides[k] if n not in sides[1 - k]) for k in (0, 1))
        if one or two:
            found.append(Difference(f"{name}s", one, two))
    for name, count in (("seeds", seeds), ("runs", len)):
        if not parts and count(ours) != count(theirs):
            found.append(Difference(f"number of {name}", (count(ours),), (count(theirs),)))
    return found


def seeds(cells: Sequence[Cell]) -> int:
    return len({cell.names["seed"] for cell in cells})


def kinds(cells: Iterable[Cell]) -> list[Kind]:
    """The groups of cells that differ only in the seed."""
    found: dict[tuple[str, ...], Cell] = {}
    for cell in cells:
        names = (cell.names[key] for key in ("method", "override", "stream"))
        found.setdefault((*names, *parts_of(cell)), cell)
    levels = levels_in(found.values())
    return [Kind(cell, levels) for cell in found.values()]


def levels_in(cells: Iterable[Cell]) -> dict[str, list[Any]]:
    """The levels of each factor, in the order of the suite."""
    found: dict[str, list[Any]] = {}
    for cell in cells:
        for name, level in cell.factors.items():
            levels = found.setdefault(name, [])
            if level not in levels:
                levels.append(level)
    return found


def paired(own: list[Kind], wanted: list[Kind]) -> list[tuple[Kind, Kind]]:
    """Each group with the paper's most similar one of the same method, if there is one."""
    methods: dict[str, list[Kind]] = {}
    for other in wanted:
        methods.setdefault(other.method, []).append(other)
    return [
        (kind, max(methods[kind.method], key=kind.nearness))
        for kind in own
        if kind.method in methods
    ]


def of_settings(
    pairs: list[tuple[Kind, Kind]], wanted: list[Kind], parts: Sequence[str]
) -> list[Difference]:
    """The settings in which pairs differ, without duplicates, with all their values."""
    differing: dict[str, dict[str, list[tuple[Kind, Kind]]]] = {}  # by place and method
    for kind, other in pairs:
        for place in {**kind.settings, **other.settings}:
            if parts and place.partition(".")[0] not in parts:
                continue
            sides = kind.settings.get(place), other.settings.get(place)
            if unequal(*sides) and not added(place, other):
                differing.setdefault(place, {}).setdefault(kind.method, []).append((kind, other))
    beside = {other.setting for _, other in pairs}
    theirs = [other for other in wanted if other.setting in beside]
    found = []
    for place, methods in differing.items():
        groups: dict[tuple[Any, ...], list[str]] = {}
        for method, unlike in methods.items():
            columns = [[k for k, _ in pairs], theirs]
            both = [values(place, (k for k in side if k.method == method)) for side in columns]
            if both[0] == both[1]:  # the same values in different runs
                both = [values(place, column) for column in zip(*unlike, strict=True)]
            groups.setdefault(tuple(both), []).append(method)
        having = {k.method for k, o in pairs if place in k.settings or place in o.settings}
        for (left, right), named in groups.items():
            some = () if having == set(named) else tuple(named)
            found.append(Difference(called(place), left, right, some))
    return found


def unequal(one: Setting | None, other: Setting | None) -> bool:
    """Whether a setting differs; a setting of only one class counts unless it is the default."""
    if one is not None and other is not None:
        return one.value != other.value
    return any(side is not None and not side.default for side in (one, other))


def added(place: str, other: Kind) -> bool:
    """Whether a setting belongs to an additional callback that does not affect results."""
    first = place.partition(".")[0]
    return first not in PLACES and first not in other.settings and only_watches(first)


def values(place: str, several: Iterable[Kind]) -> tuple[str, ...]:
    """The distinct values of a setting in these cells, as text."""
    known = (kind.settings[place].value for kind in several if place in kind.settings)
    return tuple(dict.fromkeys(map(text, known)))


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


def listed(values: Sequence[Any]) -> str:
    """Values as text; a long list is abbreviated to the first and last ones."""
    words = [str(value) for value in values]
    if len(words) > MANY:
        words = [*words[:2], f"... ({len(words)} values)", words[-1]]
    return ", ".join(words)


def of_training(runs: Iterable[Run]) -> list[str]:
    """The deviations of source models from their training recipes, if recorded in their files."""
    from ..train.source_models import EMBEDDED, EPOCHS

    steps = {recipe.source.__name__: recipe.steps for recipe in EMBEDDED.values()}
    found = []
    for facts in (run.provenance.get("weights_from") or {} for run in runs):
        usual = {"epochs": EPOCHS, "steps": steps.get(facts.get("data", "").partition("(")[0])}
        name = facts.get("name", "")
        for key in (key for key in usual if key in facts):
            if usual[key] is not None and str(facts[key]) != str(usual[key]):
                found.append(f"training of {name}: {facts[key]} {key}, not {usual[key]}")
        if "-seed" in name and "seed" in facts and f"-seed{facts['seed']}" not in name:
            found.append(f"training of {name}: seed {facts['seed']}")
    return list(dict.fromkeys(found))


def unfinished(cells: list[Cell]) -> list[str]:
    """Unfinished runs, as sentences."""
    found = []
    for cell in cells:
        run = Run.load(cell.folder) if cell.folder.exists() else None
        state = run.state if run is not None else None
        if state is None or state.name != "finished":
            why = f": {state.note}" if state is not None and state.name == "failed" else ""
            names = cell.names
            found.append(f"{names['stream']}, seed {names['seed']}, {cell.label}{why}")
    return found


def cell_of(run: Run) -> Cell | None:
    """The cell of a suite that this run belongs to; None for a run without a suite."""
    facts = read_json(run.folder / CELL)
    if not {"data", "model"} <= facts.get("config", {}).keys():
        return None
    return Cell(facts["names"], Path(run.folder), facts["config"], facts.get("factors", {}))


def published_beside(everything: list[Run]) -> dict[tuple[str, str], str]:
    """Published numbers for the same runs, by setting and method.

    They are of the same runs if all settings are equal and all runs exist and are finished.
    """
    found: dict[tuple[str, str], str] = {}
    known = {(group.setting, group.label): group.runs for group in groups(everything)}
    for own in (own for own in EXPERIMENTS.values() if own.published and FULL in own.suites):
        rows = printed(own.paper, own.published)
        numbers = {pair: rows.get(("", pair[1]), {}).get(pair[0]) for pair in known}
        wanted = [pair for pair, value in numbers.items() if isinstance(value, float | list)]
        theirs = grouped(own.cells(FULL) if wanted else [], lambda c: (c.names["setting"], c.label))
        for pair in (pair for pair in wanted if pair in theirs and known[pair]):
            runs = known[pair]
            cells = [cell for run in runs if run.finished and (cell := cell_of(run))]
            known_all = len(cells) == len(runs)
            if known_all and not differences(cells, theirs[pair]) and not of_training(runs):
                found.setdefault(pair, f"{text_of(numbers[pair])} ({own.name})")
    return found
