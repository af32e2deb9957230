"""The numbers of CiteME's tables 3 to 5 and 8 and figures 5 to 18: the printed ones and those of runs."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from .... import HoldfastError
from ....agents.data import Dataset, load
from ....agents.paper_settings import differences
from ....agents.records import Header, read
from ....agents.score import Records, judged, rate, score
from ..engine.experiment import PAPERS
from ..engine.table import COLUMNS

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
YEARS = {"before_2024": "before 2024", "in_2024": "2024"}
COSTS = {
    f"{key} {at}": f"{unit}, {name}"
    for key, unit in (("usd_per_sample", "USD"), ("seconds", "seconds"))
    for at, name in (("mean", "mean"), ("p50", "median"), ("p90", "p90"))
}


class Results(NamedTuple):
    """The cells of the paper, unless they are not comparable, and of runs; and remarks on the runs.

    A cell is a model in a setting: a repeat of a run, or a printed one; `table` is the paper's.
    """

    cells: pd.DataFrame
    notes: Sequence[str]

    def within(self, commands: str, demonstration: bool) -> pd.DataFrame:
        """The cells in a setting."""
        cells = self.cells
        return cells[(cells.commands == commands) & (cells.demonstration == demonstration)]


def read_results(paths: Iterable[Path]) -> Results:
    """Read result files as runs; a CSV or TSV among the paths is their dataset (default: mini-cite).

    Raises:
        HoldfastError: if a file cannot be read, is a run on other data, or has no finished sample.
    """
    files = list(paths)
    tables = [path for path in files if path.suffix in (".csv", ".tsv")]
    whole = load(tables[0] if tables else "mini-cite")
    cells: list[dict[str, Any]] = []
    notes: list[str] = []
    for path in (path for path in files if path not in tables):
        header, records = read(path)
        if header.dataset.sha256 != whole.sha256:
            raise HoldfastError(
                f"{path} is a run on {header.dataset.name}, not on {whole.name}. Pass the CSV of its "
                "dataset among --runs."
            )
        dataset = whole.select(header.dataset.split)
        for repeat in range(header.repeats):
            of_repeat = {key: record for key, record in records.items() if key[1] == repeat}
            cells += [_cell_of(header, of_repeat, dataset)] if of_repeat else []
        if differing := differences(header, dataset):
            notes.append(f"{path.name} differs from the paper: {'; '.join(differing)}.")
    if not cells:
        return Results(_printed(), notes)
    runs = pd.DataFrame(cells)
    number = runs.groupby(["curve", "commands", "demonstration"]).cumcount()
    runs["run"] = "repeat " + number.astype(str)
    if whole.is_published:
        return Results(pd.concat([_printed(), runs], ignore_index=True), notes)
    warning = f"{whole.name} is not CiteME's data: its scores are not CiteME scores."
    return Results(runs, [warning, *notes])


def published() -> dict[str, Any]:
    """CiteME's printed figures, from published.json."""
    return json.loads((PAPERS / "citeme" / "published.json").read_text(encoding="utf-8"))


def _printed() -> pd.DataFrame:
    """The paper's cells."""
    rows = pd.DataFrame(published()["rows"]).rename(columns={"model": "curve"})
    rows = rows.assign(panel=PAPER, run="printed", accuracy=rows.printed_percent.astype(float))
    for key in YEARS:
        rows[key] = rows[key].map(lambda part: float(part["printed_percent"]), na_action="ignore")
    means = {"usd_per_sample": "usd_per_sample mean", "seconds_per_sample": "seconds mean"}
    return rows.rename(columns=means)


def _cell_of(header: Header, records: Records, dataset: Dataset) -> dict[str, Any]:
    """One repeat of a run as a cell; raises `HoldfastError` without a finished sample."""
    agent, scores, rows = header.agent, score(records, dataset), judged(records, dataset)
    name = _model_name(agent.model_or_name)
    if scores["accuracy"].rate is None:
        raise HoldfastError(f"A run of {name} has no finished sample. Finish it first.")
    done = rows[rows.outcome.isin(scores["outcomes"])]
    old, new = done[done.year < CUTOFF], done[done.year >= CUTOFF]
    rates = {"accuracy": scores["accuracy"], "before_2024": rate(old), "in_2024": rate(new)}
    return {
        "panel": RUNS,
        "curve": name,
        "commands": agent.commands or "search+read",
        "demonstration": agent.demonstration,
        "outcomes": scores["outcomes"],
        "steps": scores["actions_by_step_correct"],
        **{key: 100 * part.rate if part.n else None for key, part in rates.items()},
        **{key: scores[key.split()[0]][key.split()[1]] for key in COSTS},
    }


def _model_name(name: str) -> str:
    """The paper's name for a model, or the last part of the given name."""
    last = name.rpartition("/")[2]
    fits = (theirs for theirs, form in MODELS.items() if re.fullmatch(form, last.lower()))
    return next(fits, last)


def setting_name(commands: str, demonstration: bool | str) -> str:
    """The name of a setting, such as "search+read, demonstration"."""
    name = "no commands" if commands == "none" else commands
    if isinstance(demonstration, str):
        return f"{name}, demonstration: {demonstration}"
    return f"{name}, demonstration" if demonstration else name


def by_setting(results: Results, table: int) -> pd.DataFrame:
    """Tables 4 and 5: accuracy in percent of each model in each setting."""
    cells = results.cells[(results.cells.panel == RUNS) | (results.cells.get("table") == table)]
    names = map(setting_name, cells.commands, cells.demonstration)
    return cells.assign(x=list(names), value=cells.accuracy)[COLUMNS].reset_index(drop=True)


def best(results: Results) -> pd.DataFrame:
    """Table 3: the best setting of each model of table 4, in percent."""
    every = by_setting(results, 4)
    means = every.groupby(COLUMNS[:3], sort=False).value.mean()
    top = means.groupby(COLUMNS[:2], sort=False).idxmax()
    rows = every[every.set_index(COLUMNS[:3]).index.isin(top)]
    return rows.assign(x="best setting").reset_index(drop=True)


def by_year(results: Results) -> pd.DataFrame:
    """Table 8: accuracy in percent where the source is from before 2024, and from 2024."""
    return _melted(results.within(*BEST), YEARS)


def costs(results: Results, model: str) -> pd.DataFrame:
    """Figures 14 to 18: price and duration per sample; the paper prints means for `model`."""
    cells = results.within(*BEST)
    return _melted(cells[(cells.panel == RUNS) | (cells.curve == model)], COSTS)


def _melted(cells: pd.DataFrame, names: dict[str, str]) -> pd.DataFrame:
    """The columns `names` of cells as rows in which x is the column's name; without missing values."""
    columns = cells.reindex(columns=[*COLUMNS[:2], "run", *names]).rename(columns=names)
    rows = columns.melt(["panel", "curve", "run"], var_name="x", ignore_index=False)
    return rows.dropna().sort_index(kind="stable").reset_index(drop=True)[COLUMNS]


def actions(results: Results) -> pd.DataFrame:
    """Figure 5: the number of correct samples by action and step, one panel per model."""
    # A curve and run, the names of its actions, and their counts by step.
    charts: list[tuple[str, str, Sequence[str], Sequence[dict[str, int]]]] = []
    if PAPER in set(results.cells.panel):
        figure = published()["figure_5"]
        names = figure["actions"]
        for model in ("GPT-4o", "Claude 3 Opus"):
            steps = [dict(zip(names, counts, strict=True)) for counts in figure[model]]
            charts.append((f"{PAPER}: {model}", "chart", names, steps))
    for cell in _runs_within(results):
        names = list(dict.fromkeys(name for counts in cell.steps for name in counts))
        charts.append((f"{RUNS}: {cell.curve}", cell.run, names, cell.steps))
    rows = [
        (panel, action, step, run, counts.get(action, 0))
        for panel, run, names, steps in charts
        for action in names
        for step, counts in enumerate(steps, start=1)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def few_steps(results: Results) -> pd.DataFrame:
    """Figure 5's claim: the share of correct samples with at most 5 actions, in percent."""
    rows = []
    for cell in _runs_within(results):
        counts = [sum(step.values()) for step in cell.steps]
        if counts:  # every sample takes the first step
            share = 100 * (1 - sum(counts[FEW_STEPS : FEW_STEPS + 1]) / counts[0])
            rows.append((RUNS, cell.curve, f"at most {FEW_STEPS}", cell.run, share))
    return pd.DataFrame(rows, columns=COLUMNS)


def _runs_within(results: Results) -> list[Any]:
    """The repeats of runs in the setting of figure 5."""
    cells = results.within(*BEST)
    return list(cells[cells.panel == RUNS].itertuples())


def outcomes(
    results: Results, commands: str, demonstration: bool, models: Sequence[str]
) -> pd.DataFrame:
    """Figures 6 to 13: outcomes in percent, of these models of the paper and of all runs."""
    cells = results.within(commands, demonstration)
    cells = cells[(cells.panel == RUNS) | cells.curve.isin(models)].dropna(subset="outcomes")
    rows = [
        (c.panel, c.curve, name, c.run, 100 * c.outcomes.get(name, 0) / sum(c.outcomes.values()))
        for c in cells.itertuples()
        for name in dict.fromkeys([*OUTCOMES, *c.outcomes])
    ]
    return pd.DataFrame(rows, columns=COLUMNS)
