"""CiteME's tables 3 to 5 and 8 and figures 5 to 18 as tidy rows: the printed values and those of runs."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ... import HoldfastError
from ..data import Dataset, load
from ..results import Key, read
from ..schema import Record
from ..score import Scores, score
from .beside import differences, published

PAPER, RUNS = "CiteME's paper", "these runs"
BEST = ("search+read", True)  # the setting of table 8 and figures 5, 6, 10 and 14 to 18
CUTOFF = 2024
FEW_STEPS = 5  # CiteME, section 5.2
# The names of the paper's models in result files, in lower case.
MODELS = {
    "GPT-4o": r"gpt-4o(-20\d\d-\d\d-\d\d)?",
    "LLaMA-3-70B": r"(meta-)?llama-?3-70b.*",
    "Claude 3 Opus": r"claude-3-opus.*",
    "Claude 3.5 Sonnet": r"claude-3[.-]5-sonnet.*",
    "LLaMA-3.1-70B": r"(meta-)?llama-?3[.-]1-70b.*",
    "o1-mini": r"o1-mini.*",
    "o1-preview": r"o1-preview.*",
}
OUTCOMES = ("correct", "wrong", "bad_format", "context", "action_limit", "policy")


class Row(NamedTuple):
    """One value of a table or figure."""

    panel: str
    curve: str
    x: str | float
    run: str
    value: float


@dataclass(frozen=True)
class Given:
    """One repeat of a run; `number` counts the repeats of one model in one setting, from 0."""

    model: str
    commands: str
    demonstration: bool
    number: int
    records: Mapping[Key, Record]
    dataset: Dataset

    @property
    def name(self) -> str:
        return f"repeat {self.number}"

    @cached_property
    def scores(self) -> Scores:
        return score(self.records, self.dataset, cutoff=CUTOFF)


@dataclass(frozen=True)
class Results:
    """The runs in result files, and remarks about them."""

    given: Sequence[Given]
    notes: Sequence[str]
    beside: bool  # whether the numbers of the paper are comparable

    def within(self, commands: str, demonstration: bool) -> Iterator[Given]:
        """The repeats in a setting."""
        setting = commands, demonstration
        return (one for one in self.given if (one.commands, one.demonstration) == setting)


def results(paths: Iterable[Path]) -> Results:
    """Read result files as runs; a CSV or TSV among the paths is their dataset (default: mini-cite).

    Raises:
        HoldfastError: if a file cannot be read, is a run on other data, or has no finished sample.
    """
    files = list(paths)
    tables = [path for path in files if path.suffix in (".csv", ".tsv")]
    if len(tables) > 1:
        raise HoldfastError(
            f"There are several datasets: {', '.join(map(str, tables))}. Pass only one."
        )
    whole = load(tables[0] if tables else "mini-cite")
    given: list[Given] = []
    notes: list[str] = []
    for path in (path for path in files if path not in tables):
        header, records = read(path)
        if header.dataset.sha256 != whole.sha256:
            raise HoldfastError(
                f"{path} is a run on {header.dataset.name}, not on {whole.name}. Pass the CSV of its "
                "dataset among --runs."
            )
        dataset, agent = whole.select(header.dataset.split), header.agent
        model = model_name(agent.model_or_name)
        setting = agent.commands or "search+read", agent.demonstration
        for repeat in range(header.repeats):
            own = {key: record for key, record in records.items() if key[1] == repeat}
            same = [g for g in given if (g.model, g.commands, g.demonstration) == (model, *setting)]
            if own:
                given.append(Given(model, *setting, len(same), own, dataset))
        if differing := differences(header, dataset):
            notes.append(f"{path.name} differs from the paper: {'; '.join(differing)}.")
    if not whole.is_published and given:
        notes.insert(0, f"{whole.name} is not CiteME's data: its scores are not CiteME scores.")
    return Results(given, notes, beside=whole.is_published or not given)


def model_name(name: str) -> str:
    """The paper's name for a model, or the last part of the given name."""
    last = name.rpartition("/")[2]
    fits = (theirs for theirs, form in MODELS.items() if re.fullmatch(form, last.lower()))
    return next(fits, last)


def setting_name(commands: str, demonstration: bool) -> str:
    """The name of a setting, such as "search+read, demonstration"."""
    name = "no commands" if commands == "none" else commands
    return f"{name}, demonstration" if demonstration else name


def printed(found: Results, **wanted: Any) -> list[dict[str, Any]]:
    """The paper's cells with these values; none if they are not comparable with the runs."""
    cells = published()["rows"] if found.beside else []
    return [cell for cell in cells if all(cell[k] == v for k, v in wanted.items())]


def by_setting(found: Results, table: int) -> list[Row]:
    """Tables 4 and 5: accuracy in percent of each model in each setting."""
    cells = printed(found, table=table)
    named = [(c, setting_name(c["commands"], c["demonstration"])) for c in cells]
    rows = [Row(PAPER, c["model"], setting, "printed", percent(c)) for c, setting in named]
    return rows + [
        Row(RUNS, g.model, setting_name(g.commands, g.demonstration), g.name, accuracy(g))
        for g in found.given
    ]


def best(found: Results) -> list[Row]:
    """Table 3: the best setting of each model of table 4, in percent."""
    rows = []
    for panel in (PAPER, RUNS):
        every = [row for row in by_setting(found, 4) if row.panel == panel]
        for model in dict.fromkeys(row.curve for row in every):
            cells: dict[Any, list[Row]] = {}
            for row in every:
                if row.curve == model:
                    cells.setdefault(row.x, []).append(row)
            top = max(cells.values(), key=lambda own: sum(r.value for r in own) / len(own))
            rows += [row._replace(x="best setting") for row in top]
    return rows


def by_year(found: Results) -> list[Row]:
    """Table 8: accuracy in percent where the source is from before 2024, and from 2024."""
    names = {"before_2024": "before 2024", "in_2024": "2024"}
    rows = [
        Row(PAPER, cell["model"], x, "printed", percent(cell[key]))
        for cell in printed(found, commands=BEST[0], demonstration=BEST[1])
        for key, x in names.items()
        if key in cell
    ]
    for one in found.within(*BEST):
        parts = one.scores.by_cutoff or {}
        for key, x in zip(("before", "since"), names.values(), strict=True):
            if parts[key].n:
                rows.append(Row(RUNS, one.model, x, one.name, 100 * parts[key].rate))
    return rows


def actions(found: Results) -> list[Row]:
    """Figure 5: the number of correct samples by action and step, one panel per model."""
    chart, rows = published()["figure_5"], []
    for model in ("GPT-4o", "Claude 3 Opus") if found.beside else ():
        for step, counts in enumerate(chart[model], start=1):
            for action, count in zip(chart["actions"], counts, strict=True):
                rows.append(Row(f"{PAPER}: {model}", action, step, "chart", count))
    for one in found.within(*BEST):
        steps = one.scores.actions_by_step_correct
        for action in dict.fromkeys(name for counts in steps for name in counts):
            for step, counts in enumerate(steps, start=1):
                place = f"{RUNS}: {one.model}"
                rows.append(Row(place, action, step, one.name, counts.get(action, 0)))
    return rows


def few_steps(found: Results) -> list[Row]:
    """Figure 5's claim: the share of correct samples with at most 5 actions, in percent."""
    rows = []
    for one in found.within(*BEST):
        counts = [sum(step.values()) for step in one.scores.actions_by_step_correct]
        if counts:  # every sample takes the first step
            share = 100 * (1 - sum(counts[FEW_STEPS : FEW_STEPS + 1]) / counts[0])
            rows.append(Row(RUNS, one.model, f"at most {FEW_STEPS}", one.name, share))
    return rows


def outcomes(
    found: Results, commands: str, demonstration: bool, models: Sequence[str]
) -> list[Row]:
    """Figures 6 to 13: outcomes in percent, of these models of the paper and of all runs."""
    rows = []
    for cell in printed(found, commands=commands, demonstration=demonstration):
        if cell["model"] in models and "outcomes" in cell:
            rows += shares(PAPER, cell["model"], "printed", cell["outcomes"])
    for one in found.within(commands, demonstration):
        rows += shares(RUNS, one.model, one.name, one.scores.outcomes)
    return rows


def shares(panel: str, curve: str, run: str, counts: Mapping[str, int]) -> list[Row]:
    """Counts of outcomes in percent; all of the paper's outcomes, then any others."""
    total = sum(counts.values())
    names = [*OUTCOMES, *(name for name in counts if name not in OUTCOMES)]
    return [
        Row(panel, curve, name, run, 100 * counts.get(name, 0) / total) for name in names if total
    ]


def costs(found: Results, model: str) -> list[Row]:
    """Figures 14 to 18: price and duration per sample; the paper prints means for `model`."""
    rows = []
    for cell in printed(found, commands=BEST[0], demonstration=BEST[1], model=model):
        rows.append(Row(PAPER, model, "USD, mean", "printed", cell["usd_per_sample"]))
        rows.append(Row(PAPER, model, "seconds, mean", "printed", cell["seconds_per_sample"]))
    for one in found.within(*BEST):
        for key, unit in (("usd_per_sample", "USD"), ("seconds", "seconds")):
            for at, name in (("mean", "mean"), ("p50", "median"), ("p90", "p90")):
                if (value := getattr(one.scores, key)[at]) is not None:
                    rows.append(Row(RUNS, one.model, f"{unit}, {name}", one.name, value))
    return rows


def percent(cell: Mapping[str, Any]) -> float:
    """A printed percentage."""
    return float(cell["printed_percent"])


def accuracy(one: Given) -> float:
    """The accuracy in percent by CiteME's matcher; raises `HoldfastError` without a finished sample."""
    rate = one.scores.accuracy.rate
    if rate is None:
        raise HoldfastError(f"A run of {one.model} has no finished sample. Finish it first.")
    return 100 * rate
