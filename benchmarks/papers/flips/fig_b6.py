"""Figure B.6: silhouette, shift distance and accuracy at each step of Tent, by severity (thesis B.8)."""

from ...results.runs import Run
from ..artefact import Artefact
from ..table import Claim, Table
from .inside import CLUSTERS, clusters, severity


def table(runs: list[Run]) -> Table:
    """The measures by the step; a curve for each severity."""
    unit = "silhouette x 100; shift distance; accuracy of held images, %"
    found = Table([], {}, unit, "step")
    for name in CLUSTERS:
        for run in sorted(runs, key=severity):
            steps = clusters(run)
            found.columns = found.columns or [str(step) for step in steps]
            for step, values in steps.items():
                found.add(f"{name}: severity {severity(run)}", str(step), run.place, values[name])
    return found


def curves(t: Table, name: str) -> list[str]:
    return [row for row in t.rows if row.startswith(f"{name}: ")]


def best(t: Table, row: str) -> str:
    """The step at which the mean over the streams is highest, but for the first and the last."""
    return max(t.columns[1:-1], key=lambda column: t.mean(row, column) or 0)


def accuracies(t: Table) -> list[tuple[str, str]]:
    """The curves of accuracy, each with its best step."""
    return [(row, best(t, row)) for row in curves(t, "accuracy")]


ARTEFACT = Artefact(
    name="flips/FigB.6",
    shows="silhouette, shift distance and accuracy along Tent's steps, by severity",
    suites={"embedded": ("flips/phases-glyphs",), "full": ("flips/phases",)},
    of_runs=table,
    claims=(
        Claim(
            "the silhouette rises from the first step to the last at every severity",
            lambda t: [t.step(row, t.columns[-1], t.columns[0]) for row in curves(t, "silhouette")],
        ),
        Claim(
            "accuracy rises to its best step at every severity",
            lambda t: [t.step(row, at, t.columns[0]) for row, at in accuracies(t)],
        ),
        Claim(
            "and falls from there on",
            lambda t: [t.step(row, at, t.columns[-1]) for row, at in accuracies(t)],
        ),
        Claim(
            "where accuracy falls, the shift grows",
            lambda t: [
                t.step(row.replace("accuracy", "shift"), t.columns[-1], at)
                for row, at in accuracies(t)
            ],
        ),
    ),
    only={"override": ("",)},
)
