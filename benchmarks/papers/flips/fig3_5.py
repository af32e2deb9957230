"""Figure 3.5: label flips after RDumb, against silhouette at the start and accuracy (thesis §3.4.1)."""

from pathlib import Path

from ...results.runs import Run
from ...suites.cell import Cell
from ..artefact import Artefact
from ..table import Claim, Table
from . import scatter
from .inside import clusters

SILHOUETTE, FLIPS, ACCURACY = "silhouette x 100 at step 0", "label flips of 1,000", "accuracy"
PAIRS = ((SILHOUETTE, FLIPS), (ACCURACY, FLIPS), (ACCURACY, SILHOUETTE))


def table(runs: list[Run]) -> Table:
    """Silhouette before the first step, flips after the last, and the source model's accuracy."""
    found = Table([], {SILHOUETTE: {}, FLIPS: {}, ACCURACY: {}}, "by the row; accuracy, %")
    for run in (run for run in runs if run.adapts):
        flips = [v for row in run.rows if (v := row.get("WeightedFlips_unweighted")) is not None]
        flips = flips or [run.summary.get("WeightedFlips_unweighted")]
        source = None if run.source is None else run.source.accuracy
        if flips[0] is None or source is None:
            continue
        found.columns += [run.setting] if run.setting not in found.columns else []
        found.add(SILHOUETTE, run.setting, run.place, clusters(run)[0]["silhouette"])
        found.add(FLIPS, run.setting, run.place, flips[0])
        found.add(ACCURACY, run.setting, run.place, 100 * source)
    found.notes = [scatter.in_words(found, *pair) for pair in PAIRS]
    found.rows = {row: cells for row, cells in found.rows.items() if cells}
    return found


def picture(t: Table, cells: list[Cell], path: Path) -> Path:
    """Each pair of the three."""
    return scatter.draw(t, [[scatter.Axes(*pair)] for pair in PAIRS], path)


ARTEFACT = Artefact(
    name="flips/Fig3.5",
    shows="label flips after RDumb against silhouette at the start, and both against accuracy",
    suites={
        "embedded": ("flips/source-glyphs", "flips/silhouette-glyphs"),
        "full": ("flips/source", "flips/silhouette"),
    },
    of_runs=table,
    claims=(
        Claim(
            "the better clustered a data set is at the start, the fewer labels flip (rank correlation)",
            lambda t: [scatter.correlation(t, SILHOUETTE, FLIPS, -1)],
        ),
        Claim(
            "the higher the accuracy, the fewer labels flip (rank correlation)",
            lambda t: [scatter.correlation(t, ACCURACY, FLIPS, -1)],
        ),
        Claim(
            "the higher the accuracy, the better clustered a data set is (rank correlation)",
            lambda t: [scatter.correlation(t, ACCURACY, SILHOUETTE)],
        ),
    ),
    picture=picture,
    remark="Accuracy is that of the frozen source model. The paper calls the correlation strong and prints "
    "no number.",
)
