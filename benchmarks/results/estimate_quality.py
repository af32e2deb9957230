"""The quality of a run's estimates, and of the alarms that follow from them."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from ...alarms import WINDOW as ALARM_WINDOW
from ...alarms import BelowSource, Drop, raised
from ...run_folder import ALARM
from .collapse import intervals
from .runs import Run

Array = np.ndarray
WINDOW = 5  # batches averaged for R2 and rho
ONLINE = "online"  # the rule name of alarms raised during the run


# ---- estimates ---------------------------------------------------------------------------------------


class Quality(NamedTuple):
    """Measures of how well estimates match the true accuracy; NaN if they cannot be computed."""

    r2: float  # squared correlation over windows
    rho: float  # Spearman's, over windows
    error: float  # mean |estimate - accuracy| over batches
    coverage: float  # share of batches whose accuracy lies within the band
    bands: int  # number of batches with a band
    width: float  # mean width of the bands


def quality(estimates: Array, truth: Array, low: Array, high: Array) -> Quality:
    """Compare estimates [n] and bands from `low` [n] to `high` [n], NaN where missing, with `truth` [n]."""
    table = pd.DataFrame({"estimate": estimates, "truth": truth, "low": low, "high": high})
    table = table.dropna(subset=["estimate", "truth"])
    errors = (table["estimate"] - table["truth"]).abs()
    banded = table.dropna(subset="low")
    inside = banded["truth"].between(banded["low"], banded["high"])
    width = banded["high"] - banded["low"]
    whole = table[["estimate", "truth"]].iloc[: len(table) // WINDOW * WINDOW]
    means = whole.groupby(np.arange(len(whole)) // WINDOW).mean()
    r2 = rho = np.nan
    if len(means) > 2 and np.ptp(means, axis=0).all():
        r2 = means["estimate"].corr(means["truth"]) ** 2
        rho = means["estimate"].corr(means["truth"], method="spearman")
    return Quality(r2, rho, errors.mean(), inside.mean(), len(banded), width.mean())


def of_run(run: Run, name: str) -> Quality:
    """The quality of one of a run's estimators."""
    return quality(*map(run.column, (name, "accuracy", f"{name}_low", f"{name}_high")))


# ---- alarms ------------------------------------------------------------------------------------------


def alarms(run: Run, window: int = ALARM_WINDOW) -> dict[tuple[str, str], Array]:
    """Flags [n] of the batches with an alarm, by estimator and rule; needs no labels.

    "drop" is AETTA's rule for a reset; "below source" compares with the same estimator on the frozen source
    model, if available; "online" contains the alarms that an `Alarm` or a monitor recorded.
    """
    fresh, not_finite = (run.column(name) > 0 for name in ("reset", "not_finite"))
    found = {}
    for name in run.estimators:
        values, source = run.column(name), run.of_source(name)
        found[name, "drop"] = raised(Drop(), values, None, fresh, not_finite)
        if source is not None and not np.isnan(source).all():
            rule = BelowSource(window)
            found[name, "below source"] = raised(rule, values, source, fresh, not_finite)
    for column in (name for name in run.columns if name.endswith(ALARM)):
        found[column.removesuffix(ALARM), ONLINE] = run.column(column) > 0
    return found


class AlarmQuality(NamedTuple):
    """The quality of an alarm on one run."""

    collapses: int
    # Images from each detected collapse to its alarm; negative if the alarm came first.
    delays: list[int]
    false_alarms: int
    images: int


def alarm_quality(
    collapsed: Array, alarm: Array, images: Array, window: int = ALARM_WINDOW
) -> AlarmQuality:
    """Compare alarms [n] with true collapses [n]; `images` [n] is the number of images after each batch.

    A collapse is an interval of at least `window` batches. It is detected by the first alarm that starts
    during it or up to `window` batches before. Alarms that start at any other time are false, so an alarm
    that is always active detects nothing.
    """
    collapses, alarms = intervals(collapsed, window), intervals(alarm)
    delays, true = [], set()
    for collapse in collapses:
        heard = [a for a in alarms if collapse.first - window <= a.first <= collapse.last]
        true |= set(heard)
        if heard:
            delays.append(int(images[heard[0].first] - images[collapse.first]))
    return AlarmQuality(len(collapses), delays, len(alarms) - len(true), int(images[-1]))
