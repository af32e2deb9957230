"""The table of ProjNorm (appendix 7.1.3): how closely scores follow the accuracy of the models."""

from pathlib import Path

from ....callbacks.functional.projection import correlation
from ..artefact import Artefact
from ..table import Claim, Table
from .evidence import evidence
from .setting import LINEAR, PROBES, REMARK

SCORES = ("ProjNorm", "ALine-D", "ALine-S", "agreement")


def table(folders: list[Path]) -> Table:
    """R² of the linear correlation with accuracy out of distribution, and of the ranks, over the probes."""
    found = evidence(folders, PROBES[:1])
    result = Table([], {}, "R² x 100; Spearman's correlation of ranks x 100")
    for by_shift in found.values():
        result.columns = list(by_shift)
        for shift, by_seed in by_shift.items():
            for seed, seen in by_seed.items():
                scores = {**seen.result.estimates, "ProjNorm": seen.models.projnorm}
                for name in SCORES:
                    score, truth = scores.get(name), seen.result.truth
                    if score is not None and truth is not None:
                        r2, ranks = correlation(score, truth)
                        for row, number in (("R²", r2), ("Spearman", ranks)):
                            value = round(100 * number, 2)
                            result.add(f"{row}: {name}", shift, f"seed {seed}", value)
    return result


ARTEFACT = Artefact(
    name="agreement/T3",
    shows="ProjNorm and ALine-D against the accuracy out of distribution, probes with random heads",
    suites={"embedded": ("glyphs",)},
    of_ensembles=table,
    claims=(
        Claim(
            "ALine-D is more closely correlated with accuracy than ProjNorm, where the line holds",
            lambda t: [t.gain("R²: ALine-D", "R²: ProjNorm", *LINEAR)],
        ),
    ),
    remark=REMARK.partition(" Lines are")[0]
    + " ProjNorm (Yu et al. 2022) is the distance between two heads "
    "trained for 50 steps from the same start, one on labelled data, one on the shift with the model's own "
    "predictions as labels. Scores are compared over the 20 models of a seed, whose budgets differ.",
)
