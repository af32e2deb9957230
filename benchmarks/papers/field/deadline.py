"""Methods under a clock: TEMPORA's discrete utility with given times of a step, on a stream of CCC."""

import pandas as pd

from ...results.deadline import discrete_utility
from ...results.run_statistics import rank_correlated
from ...results.runs import Run
from ..engine.claims import LATER, OURS, Part, Parts, above
from ..engine.experiment import table
from ..engine.picture import of_panels
from ..engine.sources import EMBEDDED, PHOTOS, Suite
from ..engine.table import Rows, Table, tidy

UTILITY, SHARE, RANK = "utility, %", "classified, %", "rank"
OFFLINE, FULL_PACE, HALF_PACE = "offline", "1", "2"
PACES = [OFFLINE, HALF_PACE, FULL_PACE]
ADAPTING = ["Tent", "ETA", "EATA", "RDumb", "SAR", "ROID", "CMF"]


@table(
    "field/deadline",
    Suite("field/deadline", scales=[EMBEDDED, PHOTOS]),
    "ten methods without a clock, and where batches arrive at the source model's pace and half of it",
    picture=of_panels(UTILITY, unit="utility, %"),
)
def under_a_clock(runs: list[Run]) -> Table:
    rows: Rows = []
    for run in runs:
        if (scores := discrete_utility(run)) is not None:
            # The source model is never late.
            paces = PACES if run.method == "Source" else [str(run.factor("pace"))]
            for pace in paces:
                rows.append((UTILITY, run.method, pace, run.place, 100 * scores.utility))
                rows.append((SHARE, run.method, pace, run.place, 100 * scores.availability))
    frame = pd.DataFrame(rows, columns=["panel", "method", "pace", "run", "value"])
    utilities = frame[frame["panel"] == UTILITY].groupby(["pace", "method"], sort=False)["value"]
    ranks = utilities.mean().groupby("pace").rank(ascending=False)
    for (pace, method), rank in ranks.items():
        rows.append((RANK, method, pace, "all", rank))
    rows.sort(key=lambda row: PACES.index(row[2]))
    return tidy(
        rows, unit="utility and images classified, %; ranks", axis="interval", notes=notes(ranks)
    )


def notes(ranks: pd.Series) -> list[str]:
    """The rank correlations with the accuracies without a clock, and their intervals over the methods."""
    text = (
        "Rank correlation (Spearman) over {n} methods with offline at interval {pace}: {mean:.2f} "
    )
    lines = []
    for pace in (HALF_PACE, FULL_PACE):
        if {OFFLINE, pace} <= set(ranks.index.get_level_values("pace")):
            r = rank_correlated(ranks[OFFLINE].to_dict(), ranks[pace].to_dict())
            if r is not None:
                lines.append(
                    text.format(pace=pace, **r._asdict()) + f"[{r.low:.2f}, {r.high:.2f}]."
                )
    return lines


def another_winner(t: Table) -> Parts:
    """The method that is best without a clock is below batch statistics at the source model's pace."""
    means = {m: t.mean(UTILITY, m, OFFLINE) or 0.0 for m in t.curves(UTILITY) if m in ADAPTING}
    best = max(means, key=means.__getitem__, default="")
    number = t.difference((UTILITY, "BNAdapt"), (UTILITY, best), [FULL_PACE])
    yield Part(f"BNAdapt - {best}", number, least=0)


under_a_clock.claim(
    "ranks-flip",
    "the adapting method that is best without a clock is below BNAdapt at the source model's pace",
    another_winner,
    group=LATER,
    quote="cells: ImageNet-C, ResNet-50, discrete utility at 100 %: AdaBN 30.8, CMF 11.5; CMF is best in "
    "10 of 15 settings without a clock; TEMPORA (Sreeram et al. 2026)",
)
under_a_clock.claim(
    "statistics-first",
    "BNAdapt is above all methods that take gradients at the source model's pace",
    above("BNAdapt", ADAPTING, panel=UTILITY, x=FULL_PACE),
    group=LATER,
    quote="cells: ImageNet-C, ResNet-50, discrete utility at 100 %: AdaBN 30.8, ETA 18.7, SHOT-IM 13.5, "
    "CMF 11.5, SAR 7.8; TEMPORA (Sreeram et al. 2026)",
)
under_a_clock.claim(
    "half-is-not-enough",
    "BNAdapt is above all methods that take gradients at half of the source model's pace",
    above("BNAdapt", ADAPTING, panel=UTILITY, x=HALF_PACE),
    group=OURS,
)
