"""Table 1: errors of the estimates where each corruption is adapted to by itself."""

from ...results.corruptions import by_seed
from ...results.runs import Run, grouped
from ...results.statistics import Difference, Values, average
from ..artefact import Artefact
from ..table import Claim, Table

SUITES = ("aetta-cifar10", "aetta-cifar100", "aetta-imagenet")


def errors(runs: list[Run]) -> Table:
    """Mean absolute errors over corruptions: "data set: estimator" by method, and their average."""
    rows: dict[str, dict[str, Values[str]]] = {}
    watched = [run for run in runs if run.adapts and run.estimators]
    methods = list(dict.fromkeys(run.label for run in watched))
    for setting, same in grouped(watched, lambda run: run.setting).items():
        by_method = grouped(same, lambda run: run.label)
        for name in dict.fromkeys(name for run in same for name in run.estimators):
            row = {label: points(of_one, f"{name}_error") for label, of_one in by_method.items()}
            rows[f"{setting}: {name}"] = {**row, "Avg": average(row.values())}
    return Table([*methods, "Avg"], rows, "mean absolute error, points")


def points(runs: list[Run], name: str) -> Values[str]:
    """A column of the records in points, the mean over corruptions for each seed."""
    return {f"seed {seed}": 100 * value for seed, value in by_seed(runs, name).items()}


def least(t: Table) -> list[Difference | None]:
    """AETTA's error against every other estimator's, in every data set, over the methods."""
    found: list[Difference | None] = []
    for row in t.rows:
        setting, _, name = row.partition(": ")
        if name != "AETTA":
            found.append(t.gain(row, f"{setting}: AETTA", "Avg"))
    return found


CLAIMS = (Claim("of all estimators AETTA has the least error, averaged over the methods", least),)
ARTEFACT = Artefact(
    name="aetta/T1",
    shows="errors of accuracy estimates without labels, each corruption by itself",
    suites={"full": SUITES},
    of_runs=errors,
    claims=CLAIMS,
    only={"setting": ("Fully *",)},
    published="T1",
    remark="The embedded suite is of the continual protocol (aetta/T2): this is of the full scale only.",
)
