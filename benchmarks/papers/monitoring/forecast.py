"""Whether the first 5 % of a stream foretell a collapse; the hypotheses are ours."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...results.runs import Run, grouped
from ..engine.claims import OURS, bounded
from ..engine.experiment import table
from ..engine.sources import EMBEDDED, Suite
from ..engine.table import Rows, Table, tidy

START = 0.05  # share of the stream that a forecast sees
FALSE_ALARMS = 0.05  # share of the survivors of other seeds beyond the limit
STATISTICS = "PredictionStatistics"
ERROR = "error, with labels"
FORETOLD, WRONGLY = "collapses foretold", "false alarms"


def start_of(run: Run, column: str) -> np.ndarray:
    """A column of the batches that a forecast sees, minus that of BNAdapt, which does not learn, [n]."""
    n, still = round(START * len(run.rows)), run.bnadapt or run
    return run.column(column)[:n] - still.column(column)[:n]


# What grows before a collapse, if anything does.
SIGNALS: Mapping[str, Callable[[Run], float]] = {
    # The entropy is of the classes that were predicted in all n batches.
    "concentration of predictions": lambda run: -start_of(run, f"{STATISTICS}_entropy")[-1],
    "confidence": lambda run: start_of(run, f"{STATISTICS}_confidence").mean(),
    ERROR: lambda run: -start_of(run, "accuracy").mean(),
}


def alarms(runs: Sequence[Run], signal: Callable[[Run], float]) -> dict[Run, bool]:
    """Whether the signal of each run exceeds what it is in 95 % of the survivors of other seeds."""
    value = {run: signal(run) for run in runs}
    raised = {}
    for run in runs:
        others = [value[other] for other in runs if other.seed != run.seed and not other.collapsed]
        if others:
            raised[run] = value[run] > float(np.quantile(others, 1 - FALSE_ALARMS))
    return raised


@table(
    "monitoring/forecast",
    Suite("monitoring/forecast", scales=[EMBEDDED]),
    "collapses of Tent and ETA foretold by the first 5 % of a stream, and false alarms",
)
def forecast(runs: list[Run]) -> Table:
    scored = [run for run in runs if run.finished and run.source and run.adapts]
    rows: Rows = []
    for name, signal in SIGNALS.items() if scored else ():
        raised = alarms(scored, signal)
        for place, same in grouped(scored, lambda run: run.place).items():
            for x, collapsed in ((FORETOLD, True), (WRONGLY, False)):
                if found := [
                    raised[run] for run in same if run in raised and run.collapsed == collapsed
                ]:
                    rows.append(("", name, x, place, 100 * float(np.mean(found))))
    fallen = [run for run in scored if run.collapsed]
    ahead = sum(SIGNALS[ERROR](run) < 0 for run in fallen)
    note = (
        f"{len(fallen)} of {len(scored)} runs collapse; in the first 5 % of the stream {ahead} of them "
        "are above BNAdapt."
    )
    return tidy(rows, unit="runs, %", notes=[note])


for sign in list(SIGNALS)[:2]:
    forecast.claim(
        sign.partition(" ")[0],
        f"the {sign} in the first 5 % of a stream foretells at least half of the collapses",
        bounded(sign, x=[FORETOLD], least=50),
        group=OURS,
    )
