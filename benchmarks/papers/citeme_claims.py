"""CiteME (arXiv 2407.12861): can a language model find the paper behind a citation?

Result files of `holdfast cite run` give the numbers; without any, the paper's own cells are shown and no
claim is judged.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from ...agents import citeme_tables
from ...agents.citeme_tables import RUNS, setting_name
from ..results.run_statistics import above_zero
from .claims import among, besides
from .experiment import experiment
from .table import tidy

GPT_4O = "GPT-4o"
FIRST = (GPT_4O, "Claude 3 Opus", "LLaMA-3-70B")
LATER = ("o1-preview", "o1-mini", "Claude 3.5 Sonnet", "LLaMA-3.1-70B")
COMMANDS = ("none", "search", "search+read")  # in order of their number
Paths = Iterable[Path]


def tabulated(
    paths: Paths,
    rows: Callable[..., pd.DataFrame],
    unit: str = "accuracy, %",
    facts: dict[str, Any] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """The rows that a function of holdfast.agents computes from result files; by default the paper's."""
    found = citeme_tables.results(paths)
    notes = ["The paper's own numbers; --runs adds result files of `holdfast cite run`."]
    notes = list(found.notes) if RUNS in set(found.cells.panel) else notes
    return tidy(rows(found, **options).to_numpy(), unit=unit, notes=notes, **(facts or {}))


experiment("citeme/T3")(tabulated, rows=citeme_tables.best)
by_setting = experiment("citeme/T4")(tabulated, rows=citeme_tables.by_setting, table=4)
experiment("citeme/T5")(tabulated, rows=citeme_tables.by_setting, table=5)
by_year = experiment("citeme/T8")(tabulated, rows=citeme_tables.by_year)
by_year.says("older-easier").rises(None, RUNS, start="2024", to="before 2024")


helps = by_setting.says("demonstration-helps")
for commands in COMMANDS:
    start, to = (setting_name(commands, shown) for shown in (False, True))
    helps.rises(GPT_4O, RUNS, start=start, to=to)
fewer, more = (among(setting_name(commands, True)) for commands in COMMANDS[1:])
by_setting.says("commands-help").rises(GPT_4O, RUNS, start=fewer, to=more)
by_setting.says("commands-only").falls(besides(GPT_4O), RUNS, start=fewer, to=more)


@experiment("citeme/Fig5")
def actions(paths: Paths) -> pd.DataFrame:
    """which action correct runs take at which step"""
    shares: dict[str, dict[str, float]] = {}
    for row in citeme_tables.few_steps(citeme_tables.results(paths)).itertuples():
        shares.setdefault(row.curve, {})[row.run] = row.value
    gaps = {"few-steps": [above_zero(values) for values in shares.values()]} if shares else {}
    facts: dict[str, Any] = {"axis": "step", "intervals": gaps}
    return tabulated(paths, citeme_tables.actions, "correct samples", facts)


# "Usually" is read as more than half.
actions.says("few-steps").computed("few-steps", least=50)


for number, (models, commands, shown) in enumerate(
    ((m, c, d) for m in (FIRST, LATER) for c in COMMANDS[:0:-1] for d in (True, False)), 6
):
    experiment(f"citeme/Fig{number}")(
        tabulated,
        rows=citeme_tables.outcomes,
        unit="samples, %",
        commands=commands,
        demonstration=shown,
        models=models,
    )

for number, model in enumerate((*FIRST[:2], *LATER[:3]), 14):
    experiment(f"citeme/Fig{number}")(
        tabulated, rows=citeme_tables.costs, unit="of a sample", model=model
    )
