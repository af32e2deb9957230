"""CiteME (arXiv 2407.12861): can a language model find the paper behind a citation?

Result files of `holdfast cite run` give the numbers; without any, the paper's own cells are shown and no
claim is judged.
"""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from ...results.run_statistics import above_zero
from ..engine.claims import THRESHOLD, computed, falls, rises
from ..engine.experiment import table
from ..engine.sources import Files
from ..engine.table import Except, Present, Table, tidy
from . import numbers
from .numbers import RUNS, Results, setting_name

GPT_4O = "GPT-4o"
FIRST = (GPT_4O, "Claude 3 Opus", "LLaMA-3-70B")
LATER = ("o1-preview", "o1-mini", "Claude 3.5 Sonnet", "LLaMA-3.1-70B")
Paths = Iterable[Path]


def tabulated(
    results: Results, rows: pd.DataFrame, unit: str = "accuracy, %", axis: str = ""
) -> Table:
    """The table of rows that a function of `numbers` computes from results."""
    notes = ["The paper's own numbers; --runs adds result files of `holdfast cite run`."]
    notes = list(results.notes) if RUNS in set(results.cells.panel) else notes
    return tidy(rows.to_numpy(), unit=unit, axis=axis, notes=notes)


@table("citeme/T3", Files(), "the best setting of each model, and retrieval by SPECTER")
def best_settings(paths: Paths) -> Table:
    results = numbers.read_results(paths)
    return tabulated(results, numbers.best(results))


@table("citeme/T4", Files(), "accuracy by commands, with and without a demonstration")
def by_setting(paths: Paths) -> Table:
    results = numbers.read_results(paths)
    return tabulated(results, numbers.by_setting(results, table=4))


@table(
    "citeme/T5", Files(), "accuracy of later models by commands, with and without a demonstration"
)
def later_by_setting(paths: Paths) -> Table:
    results = numbers.read_results(paths)
    return tabulated(results, numbers.by_setting(results, table=5))


@table("citeme/T8", Files(), "accuracy on excerpts from before 2024 and from 2024")
def by_year(paths: Paths) -> Table:
    results = numbers.read_results(paths)
    return tabulated(results, numbers.by_year(results))


by_year.claim(
    "older-easier",
    "every model is more accurate on excerpts from before 2024",
    rises(panel=RUNS, first="2024", last="before 2024"),
    quote="“The results, shown in Table 8, show that this is indeed true for the LMs analyzed "
    "in this paper”, appendix C",
)

NONE, SEARCH, READ = "none", "search", "search+read"
SEARCHING, READING = (Present(setting_name(commands, True)) for commands in (SEARCH, READ))
by_setting.claim(
    "demonstration-helps",
    "a demonstration raises GPT-4o's accuracy with every set of commands",
    rises(GPT_4O, panel=RUNS, first=setting_name(NONE, False), last=setting_name(NONE, True)),
    rises(GPT_4O, panel=RUNS, first=setting_name(SEARCH, False), last=setting_name(SEARCH, True)),
    rises(GPT_4O, panel=RUNS, first=setting_name(READ, False), last=setting_name(READ, True)),
    quote="“GPT-4o effectively utilizes demonstrations, which improves its accuracy”, section 5",
)
by_setting.claim(
    "commands-help",
    "with a demonstration, GPT-4o gains accuracy when it may also read papers",
    rises(GPT_4O, panel=RUNS, first=SEARCHING, last=READING),
    quote="“GPT-4o is the only LM whose accuracy improves with access to more commands, "
    "allowing it to read full papers”, section 5",
)
by_setting.claim(
    "commands-only",
    "with a demonstration, the other models (in Table 4 Claude 3 Opus) lose accuracy when"
    " they may also read papers",
    falls(Except(GPT_4O), panel=RUNS, first=SEARCHING, last=READING),
    quote="“GPT-4o is the only LM whose accuracy improves with access to more commands, "
    "allowing it to read full papers”, section 5",
)


@table("citeme/Fig5", Files(), "which action correct runs take at which step")
def actions(paths: Paths) -> Table:
    results = numbers.read_results(paths)
    shares: dict[str, dict[str, float]] = {}
    for row in numbers.few_steps(results).itertuples():
        shares.setdefault(row.curve, {})[row.run] = row.value
    of_actions = tabulated(results, numbers.actions(results), "correct samples", "step")
    if shares:
        of_actions.intervals = {"few-steps": [above_zero(values) for values in shares.values()]}
    return of_actions


# "Usually" is read as more than half.
actions.claim(
    "few-steps",
    "most correct answers of every model take at most five actions",
    computed("few-steps", least=50),
    group=THRESHOLD,
    quote="“they usually take just 5 steps or fewer to do so”, section 5",
)


def outcomes(name: str, models: Iterable[str], commands: str, demonstration: bool) -> None:
    """Register a figure of how the samples of these models end in a setting."""
    searching = "searching and reading" if commands == READ else "searching only"
    shown = "with" if demonstration else "without"

    @table(f"citeme/{name}", Files(), f"how samples end, {searching}, {shown} a demonstration")
    def ends(paths: Paths) -> Table:
        results = numbers.read_results(paths)
        rows = numbers.outcomes(results, commands, demonstration, list(models))
        return tabulated(results, rows, "samples, %")


outcomes("Fig6", FIRST, READ, demonstration=True)
outcomes("Fig7", FIRST, READ, demonstration=False)
outcomes("Fig8", FIRST, SEARCH, demonstration=True)
outcomes("Fig9", FIRST, SEARCH, demonstration=False)
outcomes("Fig10", LATER, READ, demonstration=True)
outcomes("Fig11", LATER, READ, demonstration=False)
outcomes("Fig12", LATER, SEARCH, demonstration=True)
outcomes("Fig13", LATER, SEARCH, demonstration=False)


def costs(name: str, model: str) -> None:
    """Register a figure of what a sample costs with a model."""

    @table(f"citeme/{name}", Files(), f"price and duration of a sample, {model}")
    def of_a_sample(paths: Paths) -> Table:
        results = numbers.read_results(paths)
        return tabulated(results, numbers.costs(results, model), "of a sample")


costs("Fig14", "GPT-4o")
costs("Fig15", "Claude 3 Opus")
costs("Fig16", "o1-preview")
costs("Fig17", "o1-mini")
costs("Fig18", "Claude 3.5 Sonnet")
