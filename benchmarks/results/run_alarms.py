"""A run's alarms: those computed from its estimates by `holdfast.alarms`, and those recorded online."""

import numpy as np

from ...alarms import WINDOW, BelowSource, Drop, raised
from ...run_folder import ALARM
from .runs import Run

Array = np.ndarray
ONLINE = "online"  # the rule name of alarms raised during the run


def alarms(run: Run, window: int = WINDOW) -> dict[tuple[str, str], Array]:
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
    for column in dict.fromkeys(key for row in run.rows for key in row if key.endswith(ALARM)):
        found[column.removesuffix(ALARM), ONLINE] = run.column(column) > 0
    return found
