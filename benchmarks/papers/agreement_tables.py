"""Agreement-on-the-line for finetuned models: Saxena et al. 2024 (arXiv 2404.01542).

A claim about lines uses only the shifts on which accuracy is on a line (mean R² over the seeds above 0.95)
for every compared ensemble; the paper lists the others separately. The runs are the seeds.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from ..results.run_statistics import Values, above_zero, exactly, paired
from ..results.runs import grouped
from .claims import INF, Part, Parts, bounded
from .experiment import experiment
from .picture import of_panels
from .table import Rows, Table, tidy

if TYPE_CHECKING:
    from ..results.model_agreement import Estimates

LEAST_R2 = 0.95
ACCURACY_R2 = "accuracy R²"
ESTIMATES = ("ALine-D", "ALine-S", "agreement")
ORACLES = tuple(f"{name} (oracle)" for name in ("AC", "DoC", "ATC-MC", "ATC-NE"))


class Ensemble(NamedTuple):
    """An ensemble: the file that describes it, its names there, and its source of diversity ("head-1").

    With several names, all these models form one ensemble.
    """

    file: str
    names: tuple[str, ...]
    source: str

    def __str__(self) -> str:
        return f"{self.file}, {' + '.join(self.names)}: {self.source}"


def evidence(
    folders: list[Path], wanted: Iterable[Ensemble]
) -> "Iterator[tuple[Ensemble, Estimates]]":
    """The results, by seed and shift, of models in FOLDER/NAME/seedS/SOURCE-SHARE/MEMBER.npz.

    A folder has the name of the file that describes its ensembles.
    """
    from ..results.model_agreement import estimate, from_files  # deferred: imports torch

    for ensemble in wanted:
        files = [
            file
            for folder in folders
            for name in ensemble.names
            for file in sorted(folder.glob(f"{name}/seed*/{ensemble.source}/*.npz"))
            if folder.name == ensemble.file
        ]
        by_seed = grouped(files, lambda file: int(file.parts[-3].removeprefix("seed")))
        for seed, same in sorted(by_seed.items()):
            for models in from_files(same, "", seed):
                yield ensemble, estimate(models)


def lines(
    folders: list[Path],
    ensembles: list[Ensemble],
    drawn: list[Ensemble],
    shifts: tuple[str, ...] = ("gaussian_noise", "fog"),
) -> pd.DataFrame:
    """Both lines of each ensemble (panel) on each shift (curve), with one number per seed.

    drawn, shifts: the ensembles and shifts in the figure, with the first seed.
    """
    from ..results.model_agreement import points  # deferred: imports torch

    rows: Rows = []
    figure: dict[tuple[int, int], tuple[str, list[Any]]] = {}
    for ensemble, result in evidence(folders, ensembles):
        shift, seed = result.models.stream, f"seed {result.models.seed}"
        numbers = numbers_of(result).items()
        rows += [(str(ensemble), shift, x, seed, round(n, 4)) for x, n in numbers]
        if shift in shifts and ensemble in drawn:
            place = shifts.index(shift), drawn.index(ensemble)
            figure.setdefault(place, (f"{ensemble}\n{shift}, {seed}", list(points(result))))
    unit = "slopes, biases and R² as they are, the rest in points"
    return tidy(rows, unit=unit, points=dict(figure[place] for place in sorted(figure)))


def numbers_of(result: "Estimates") -> dict[str, float]:
    """Both lines, by how much agreement exceeds accuracy, and ALine-S's error."""
    from ...callbacks.functional.aline import pairs  # deferred: imports torch

    found = {}
    both = {"accuracy": result.accuracy_line, "agreement": result.agreement_line}
    for n, x in enumerate(("slope", "bias", "R²")):
        for name, line in both.items():
            found[f"{name} {x}"] = float("nan") if line is None else float(line[n])
    accuracies = result.inside, np.asarray(result.truth)
    for where, own, agreement in zip(("ID", "OOD"), accuracies, result.agreement, strict=True):
        excess = agreement[pairs(len(own))].mean() - own.mean()
        found[f"excess {where}"] = 100 * float(excess)
    gaps = np.abs(result.estimates.get("ALine-S", np.nan) - accuracies[1])
    found["ALine-S error"] = 100 * float(np.mean(gaps))
    return found


# The numbers of an ensemble by shift and seed (rows) give one for each.
Measure = Callable[[pd.DataFrame], pd.Series]
MEASURES: dict[str, Measure] = {
    "slope": lambda own: (own["agreement slope"] - own["accuracy slope"]).abs(),
    "bias": lambda own: (own["agreement bias"] - own["accuracy bias"]).abs(),
    "error": lambda own: own["ALine-S error"],
}


def over(t: Table, ensemble: Ensemble, shifts: list[str], measure: str | Measure) -> Values[str]:
    """The mean of a measure over shifts, for each seed."""
    own = t.frame[(t.frame["panel"] == str(ensemble)) & t.frame["curve"].isin(shifts)]
    own = own.pivot(index=["curve", "run"], columns="x", values="value").reindex(columns=t.xs)
    found = (MEASURES[measure] if isinstance(measure, str) else measure)(own)
    return found.unstack("curve").mean(axis=1, skipna=False).to_dict()


def on_lines(t: Table, *ensembles: Ensemble) -> list[str]:
    """The shifts on which the accuracies of all these ensembles are on a line."""
    return [shift for shift, r2 in least_r2(t, *ensembles).items() if r2 > LEAST_R2]


def least_r2(t: Table, *ensembles: Ensemble) -> dict[str, float]:
    """The least R² of accuracy among these ensembles on each shift, 0 if one has none."""
    return {
        shift: min(t.mean(str(own), shift, ACCURACY_R2) or 0 for own in ensembles)
        for shift in t.curves()
    }


def some_line(*ensembles: Ensemble) -> dict[str, Any]:
    """The premise that on some shift the accuracies of all these ensembles are on a line."""

    def premise(t: Table) -> Parts:
        best = max(least_r2(t, *ensembles).values(), default=0)
        found = exactly(best) if best else None
        yield Part("the least R² of these ensembles on the best shift", found, LEAST_R2)

    return {"premise": premise, "unless": "on no shift are the accuracies on a line"}


def accuracy_line(t: Table, *ensembles: Ensemble) -> Parts:
    """R² of accuracy exceeds 0.95 on each shift."""
    return bounded(t, None, map(str, ensembles), ACCURACY_R2, least=LEAST_R2)


def agreement_line(t: Table, *ensembles: Ensemble) -> Parts:
    """R² of agreement exceeds 0.95 on each shift with accuracy on a line."""
    for own in ensembles:
        yield from bounded(t, on_lines(t, own), [str(own)], "agreement R²", least=LEAST_R2)


def nearest(
    t: Table,
    measure: str | Measure,
    ensemble: Ensemble,
    *others: Ensemble,
    everywhere: bool = False,
) -> Parts:
    """A measure of one ensemble is smaller than those of the others, where accuracies are on lines."""
    shifts = t.curves() if everywhere else on_lines(t, ensemble, *others)
    own = over(t, ensemble, shifts, measure)
    for other in others:
        yield Part(f"{other} - {ensemble}", paired(over(t, other, shifts, measure), own), 0)


def gains_less(t: Table, training: list[Ensemble], than: list[Ensemble]) -> Parts:
    """ALine-S's error rises less from random heads to other sources than with other training."""
    shifts = on_lines(t, *training, *than)
    theirs, ours = ([over(t, own, shifts, "error") for own in of] for of in (than, training))
    for n, source in enumerate(SOURCES[1:], 1):
        gaps = ({run: v - own[0][run] for run, v in own[n].items()} for own in (theirs, ours))
        yield Part(f"{source} - {SOURCES[0]}", paired(*gaps), 0)


def bounded_measure(
    t: Table, measure: str | Measure, *ensembles: Ensemble, least: float = -INF, most: float = INF
) -> Parts:
    """A measure of each ensemble is within limits."""
    for own in ensembles:
        yield Part(str(own), above_zero(over(t, own, on_lines(t, own), measure)), least, most)


SOURCES = ("head-1", "order-1", "subset-0.1")
HEAD, ORDER, SUBSET = PROBES = [Ensemble("glyphs", ("probe",), source) for source in SOURCES]
TENTHS = [Ensemble("glyphs", ("probe",), f"{name}-0.1") for name in ("head", "order")]
MORE = [Ensemble("glyphs", ("probe",), f"subset-{share}") for share in (0.3, 0.5)]
PROBED, FINETUNED, SCRATCH = (
    [Ensemble("digits", (training,), source) for source in SOURCES]
    for training in ("probe", "finetune", "scratch")
)
TRAININGS = [*PROBED, *FINETUNED, *SCRATCH]
BASES, FEATURES, RELU, PIXELS = (
    Ensemble("digits", names, "head-1")
    for names in (("probe", "probe-relu"), ("probe",), ("probe-relu",), ("probe-pixels",))
)


random_heads = experiment("agreement/Fig1")(
    lines, ensembles=[*PROBES, *TENTHS, *MORE], drawn=PROBES
)
random_heads.says("c1-accuracy-line").by(accuracy_line, *PROBES)
random_heads.says("c1-agreement-line").by(agreement_line, *PROBES)
for name in MEASURES:
    random_heads.says(f"c1-{name}").by(nearest, name, *PROBES)
for name in MEASURES:
    random_heads.says(f"c1-{name}-tenth").by(nearest, name, *TENTHS, SUBSET)
# The slope's distance from the accuracy line's minus its distance from 1.
random_heads.says("c1-diagonal").by(
    bounded_measure,
    lambda own: MEASURES["slope"](own) - (own["agreement slope"] - 1).abs(),
    *(ORDER, SUBSET),
    least=0,
)
random_heads.says("c7-inside").by(nearest, lambda own: own["excess ID"].abs(), SUBSET, HEAD, ORDER)
c7_outside = random_heads.says("c7-outside").by(
    nearest, lambda own: own["excess OOD"], HEAD, SUBSET
)
c7_outside.by(bounded_measure, lambda own: own["excess OOD"], SUBSET, least=0)


trainings = experiment("agreement/Fig2")(lines, ensembles=TRAININGS, drawn=TRAININGS)
for name in MEASURES:
    trainings.says(f"c2-{name}", **some_line(*FINETUNED)).by(nearest, name, *FINETUNED)
trainings.says("c2-gain", **some_line(*FINETUNED, *PROBED)).by(gains_less, FINETUNED, PROBED)
trainings.says("c3-gain").by(gains_less, SCRATCH, PROBED)
trainings.says("c3-slopes").by(bounded_measure, "slope", *SCRATCH, most=0.15)


bases = experiment("agreement/Fig3")(
    lines,
    ensembles=[BASES, FEATURES, RELU, PIXELS],
    drawn=[BASES, FEATURES, PIXELS],
    shifts=("fog", "contrast"),
)
bases.says("c4-accuracy-line").by(accuracy_line, BASES)
bases.says("c4-agreement-line").by(agreement_line, BASES)
bases.says("c4-slope").by(bounded_measure, "slope", BASES, most=0.15)


@bases.says("off-the-line")
def off_the_line(t: Table) -> Parts:
    """R² of agreement for each ensemble wherever R² of accuracy is not above the limit."""
    for panel in t.panels:
        means = {shift: t.mean(panel, shift, ACCURACY_R2) or 0 for shift in t.curves(panel)}
        off = [shift for shift, r2 in means.items() if r2 <= LEAST_R2]
        yield from bounded(t, off, [panel], "agreement R²", most=LEAST_R2)


bases.says("c4-one-line").by(
    nearest, lambda own: own[ACCURACY_R2], BASES, FEATURES, RELU, everywhere=True
)
bases.says("c6-slope").by(nearest, "slope", FEATURES, PIXELS)
bases.says("c6-error").by(nearest, "error", FEATURES, PIXELS)


@experiment(
    "agreement/T1", picture=of_panels("MAE", "MAE, no line", unit="mean absolute error, points")
)
def estimators(folders: list[Path]) -> pd.DataFrame:
    """agreement-on-the-line against confidences, models with random heads (C5)"""
    from ..results.model_agreement import TRUSTED

    found = [
        (f"{ensemble}, {result.models.stream}", f"seed {result.models.seed}", result)
        for ensemble, result in evidence(folders, [HEAD, PROBED[0], FINETUNED[0], SCRATCH[0]])
    ]
    by_curve = grouped(found, lambda own: own[0]).items()
    r2 = {curve: np.mean([own[-1].r2 for own in same]) for curve, same in by_curve}
    rows = []
    for name in ("MAPE", "MAE"):
        # The paper reports shifts without an agreement line separately.
        for panel, apart in ((name, False), (f"{name}, no line", True)):
            for curve, seed, result in found:
                # Confidences with or without temperature, whichever has less error.
                every, truth = result.estimates, np.asarray(result.truth)
                share = np.where(truth == 0, np.nan, truth) if name == "MAPE" else 1
                for x in (*ESTIMATES, *ORACLES):
                    if x in every and bool(r2[curve] <= TRUSTED) == apart:
                        own = 100 * (abs(every[x] - truth) / share).mean()
                        rows.append((panel, curve, x, seed, round(own, 3)))
    return tidy(rows, unit="percentages of the accuracy (MAPE), points (MAE)")


def best_errs_less(t: Table, panel: str, ours: tuple[str, ...], than: tuple[str, ...]) -> Parts:
    """Each estimator errs less than the best of others, mean over the rows of pretrained models."""
    own = t.frame[(t.frame["panel"] == panel) & ~t.frame["curve"].str.startswith(str(SCRATCH[0]))]
    own = own.pivot(index=["run", "curve"], columns="x", values="value").reindex(columns=t.xs)
    best = own[[*than]].min(axis=1)
    for name in ours:
        gaps = (best - own[name]).unstack("curve").mean(axis=1, skipna=False)
        yield Part(name, above_zero(gaps.to_dict()), 0)


ALINE, ATC = ESTIMATES[:2], ORACLES[2:]
estimators.says("c5-mae").by(best_errs_less, "MAE", ALINE, ORACLES)
estimators.says("c5-mape").by(best_errs_less, "MAPE", ALINE, ORACLES)
estimators.says("c5-off").by(best_errs_less, "MAE, no line", ATC, ALINE)


@experiment("agreement/T3")
def projection_norm(folders: list[Path]) -> pd.DataFrame:
    """ProjNorm and ALine-D against the accuracy out of distribution, probes with random heads"""
    rows: Rows = []
    found = [*evidence(folders, [HEAD])]
    for name in ("ProjNorm", *ESTIMATES):
        for _, result in found:
            models = result.models
            score = {**result.estimates, "ProjNorm": models.projnorm}.get(name)
            if score is not None and result.truth is not None:
                score, truth = pd.Series(score), pd.Series(result.truth)
                both = {"R²": score.corr(truth) ** 2, "Spearman": score.rank().corr(truth.rank())}
                key = name, models.stream, f"seed {models.seed}"
                rows += [(panel, *key, round(100 * n, 2)) for panel, n in both.items()]
    return tidy(rows, unit="R² x 100; Spearman's correlation of ranks x 100")


projection_norm.says("aline-closer").above("ALine-D", "ProjNorm", "R²")
