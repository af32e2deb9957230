"""Figure 3.4: silhouette and shift distance in the two phases of entropy minimisation (thesis §3.3)."""

from pathlib import Path

from ...results.runs import Run
from ...results.statistics import Difference, Values, above_zero, paired, share_above_zero
from ...suites.cell import Cell
from ..artefact import Artefact
from ..table import Claim, Table
from . import scatter
from .inside import CLUSTERS, clusters, peak

PHASES = ("phase 1", "phase 2")
NEARLY_ALL = 0.98


def table(runs: list[Run]) -> Table:
    """How much each measure changes up to the highest accuracy, and after it, for each stream."""
    rows: dict[str, dict[str, Values[str]]] = {
        f"{phase}: {name}": {} for name in CLUSTERS for phase in PHASES
    }
    found = Table([], rows, "change of silhouette x 100, of shift distance, of accuracy in points")
    for run in runs:
        steps = clusters(run)
        found.columns += [run.setting] if run.setting not in found.columns else []
        top = peak(steps)
        for phase, (first, last) in zip(
            PHASES, ((min(steps), top), (top, max(steps))), strict=True
        ):
            if first == last:  # accuracy never rises, or never falls
                continue
            for name in CLUSTERS:
                change = steps[last][name] - steps[first][name]
                found.add(f"{phase}: {name}", run.setting, run.place, change)
    found.rows = {row: cells for row, cells in found.rows.items() if cells}
    rises = share_above_zero(silhouettes(found))
    found.notes = [
        *(
            [f"The silhouette rises in {100 * rises.mean:.0f} % of {rises.n} phases."]
            if rises
            else []
        ),
        *(
            scatter.in_words(found, f"{phase}: {name}", f"{phase}: accuracy")
            for phase in PHASES
            for name in ("silhouette", "shift")
        ),
    ]
    return found


def silhouettes(t: Table) -> dict[str, float]:
    """How much it changes in all phases."""
    return {f"{p}, {k}": v for p in PHASES for k, v in scatter.row(t, f"{p}: silhouette").items()}


def drift(t: Table) -> Difference | None:
    """How much more the shift grows after the highest accuracy than up to it."""
    before, after = (scatter.row(t, f"{phase}: shift") for phase in PHASES)
    return paired(after, before)


def picture(t: Table, cells: list[Cell], path: Path) -> Path:
    """Changes of silhouette and of shift against that of accuracy, by phase."""
    panels = [
        [scatter.Axes(f"{p}: accuracy", f"{p}: {name}", p) for p in PHASES]
        for name in ("silhouette", "shift")
    ]
    return scatter.draw(t, panels, path)


ARTEFACT = Artefact(
    name="flips/Fig3.4",
    shows="Tent's two phases: change of silhouette and shift distance against that of accuracy",
    suites={"embedded": ("flips/phases-glyphs",), "full": ("flips/phases",)},
    of_runs=table,
    claims=(
        Claim(
            "the silhouette rises in phase 1 and in phase 2",
            lambda t: [above_zero(scatter.row(t, f"{phase}: silhouette")) for phase in PHASES],
        ),
        Claim(
            "it rises in more than 98 % of the phases of all streams",
            lambda t: [share_above_zero(silhouettes(t), NEARLY_ALL)],
        ),
        Claim(
            "in phase 1 accuracy rises the more, the more the silhouette does (rank correlation)",
            lambda t: [scatter.correlation(t, "phase 1: silhouette", "phase 1: accuracy")],
        ),
        Claim(
            "in phase 2 accuracy falls the more, the more the shift grows (rank correlation)",
            lambda t: [scatter.correlation(t, "phase 2: shift", "phase 2: accuracy", -1)],
        ),
        Claim(
            "the shift grows in phase 2, and more than in phase 1",
            lambda t: [above_zero(scatter.row(t, "phase 2: shift")), drift(t)],
        ),
    ),
    only={"override": ("",)},
    published="Fig3.4",
    picture=picture,
    remark="Phase 1 ends where the held images are predicted best, phase 2 with the run. Where a stream's "
    "accuracy never rises, or never falls, it has one phase only.",
)
