"""CiteME's tables and figures from the agents package, and the differences that its claims compare."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from ....agents import citeme_tables
from ....agents.citeme_tables import RUNS
from ...results.run_statistics import above_zero
from ..primitives import Part, listed
from ..table import Table

NONE_GIVEN = "The paper's own numbers; --runs adds result files of `holdfast cite run`."
ORDER = ("none", "search", "search+read")  # in order of the number of commands


def of_files(
    paths: Iterable[Path], rows: str, unit: str = "accuracy, %", axis: str = "", **arguments: Any
) -> Table:
    """The rows that a function of holdfast.agents computes from result files; by default the paper's."""
    found = citeme_tables.results(paths)
    make: Callable[..., pd.DataFrame] = getattr(citeme_tables, rows)
    notes = list(found.notes) if RUNS in set(found.cells.panel) else [NONE_GIVEN]
    table = Table(unit=unit, axis=axis, notes=notes)
    for row in make(found, **arguments).itertuples(index=False):
        table.add(*row)
    return table


def actions(paths: Iterable[Path]) -> Table:
    """Figure 5, with the share of correct samples with few steps for each model."""
    table = of_files(paths, "actions", unit="correct samples", axis="step")
    shares: dict[str, dict[str, float]] = {}
    for row in citeme_tables.few_steps(citeme_tables.results(paths)).itertuples():
        shares.setdefault(row.curve, {})[row.run] = row.value
    if shares:
        table.intervals["few-steps"] = [above_zero(values) for values in shares.values()]
    return table


def demonstration(table: Table, only: str | None = None, but: str | None = None) -> list[Part]:
    """Accuracy with minus without a demonstration, for each set of commands.

    The claim is that it is above 0 for the model `only`, otherwise below 0.
    """
    return [
        gain(table, model, (commands, False), (commands, True), but is None)
        for model in models(table, only, but)
        for commands in ORDER
        if comparable(table, model, (commands, False), (commands, True)) or only
    ]


def more_commands(table: Table, only: str | None = None, but: str | None = None) -> list[Part]:
    """Accuracy with minus without reading, with and without a demonstration.

    The claim is that it is above 0 for the model `only`, otherwise below 0.
    """
    return [
        gain(table, model, ("search", shown), ("search+read", shown), but is None)
        for model in models(table, only, but)
        for shown in (False, True)
        if comparable(table, model, ("search", shown), ("search+read", shown)) or only
    ]


Setting = tuple[str, bool]


def models(table: Table, only: str | None, but: str | None) -> list[str]:
    """The model `only`, or all models of the runs except `but`."""
    return listed(only) or [name for name in table.curves(RUNS) if name != but]


def comparable(table: Table, model: str, *settings: Setting) -> bool:
    """Whether a model has runs in all these settings."""
    return all(table.values(RUNS, model, citeme_tables.setting_name(*own)) for own in settings)


def gain(table: Table, model: str, before: Setting, after: Setting, rises: bool) -> Part:
    """A model's accuracy in one setting minus that in another, paired by repeat."""
    names = [citeme_tables.setting_name(*own) for own in (after, before)]
    found = table.difference((RUNS, model), (RUNS, model), names[:1], names[1:])
    part = Part(f"{model}: {names[0]} - {names[1]}", found)
    return part._replace(least=0.0) if rises else part._replace(most=0.0)


def older(table: Table) -> list[Part]:
    """Accuracy on sources from before 2024 minus accuracy on those from 2024, for each model."""
    return [
        Part(model, table.difference((RUNS, model), (RUNS, model), ["before 2024"], ["2024"]), 0)
        for model in table.curves(RUNS)
    ]
