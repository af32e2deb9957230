"""Agreement-on-the-line for finetuned models: Saxena et al. 2024 (arXiv 2404.01542).

Ensembles are the file that describes them, the models in it, and how they differ; several models are one
ensemble. A claim about lines uses only the shifts on which accuracy is on a line (mean R² over the seeds
above 0.95) for every compared ensemble; the paper lists the others separately. The runs are the seeds.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from ... import HoldfastError
from ..results.run_statistics import Values, above_zero, average, paired
from .claims import Part, Parts, bounded
from .experiment import EMBEDDED, experiment
from .picture import draw
from .table import Table, tidy

if TYPE_CHECKING:
    from ..results.agreement_plot import Points
    from ..results.model_agreement import Estimates, Models

# Contrast had no accuracy line on the first network, as some shifts in the paper.
SHIFTS = ["gaussian_noise", "glass_blur", "fog"]
LEAST_R2 = 0.95
ACCURACY_R2 = "accuracy R²"
ESTIMATES = ("ALine-D", "ALine-S", "agreement")
ORACLES = tuple(f"{name} (oracle)" for name in ("AC", "DoC", "ATC-MC", "ATC-NE"))
Rows = list[tuple[Any, ...]]


class Ensemble(NamedTuple):
    """An ensemble: the file that describes it, its names there, and its source of diversity ("head-1").

    With several names, all these models form one ensemble.
    """

    file: str
    names: tuple[str, ...]
    source: str

    def __str__(self) -> str:
        return f"{self.file}, {' + '.join(self.names)}: {self.source}"


class Seen(NamedTuple):
    """The results of one ensemble on one shift with one seed."""

    models: "Models"
    result: "Estimates"
    truth: np.ndarray  # accuracy out of distribution, [m]
    outside: float  # mean agreement minus mean accuracy out of distribution
    inside: float  # the same in distribution
    points: "Points"


Evidence = Mapping[Ensemble, Mapping[str, Mapping[int, Seen]]]  # by shift and seed


def evidence(folders: list[Path], wanted: Iterable[Ensemble]) -> Evidence:
    """Collect the results of ensembles with models in FOLDER/NAME/seedS/SOURCE-SHARE/MEMBER.npz.

    A folder has the name of the file that describes its ensembles.
    """
    from ..results.model_agreement import from_files  # deferred: imports torch

    found: dict[Ensemble, dict[str, dict[int, Seen]]] = {}
    for ensemble in wanted:
        of_seed = defaultdict(list)
        for folder in (folder for folder in folders if folder.name == ensemble.file):
            for name in ensemble.names:
                for file in sorted(folder.glob(f"{name}/seed*/{ensemble.source}/*.npz")):
                    of_seed[int(file.parts[-3].removeprefix("seed"))].append(file)
        for seed, files in sorted(of_seed.items()):
            for models in from_files(files, "", seed):
                by_shift = found.setdefault(ensemble, {})
                by_shift.setdefault(models.stream, {})[seed] = seen(models)
    return found


def seen(models: "Models") -> Seen:
    """The results of one ensemble on one shift."""
    from ...callbacks.functional.aline import pairs  # deferred: imports torch
    from ..results.agreement_plot import points
    from ..results.model_agreement import estimate

    result = estimate(models)
    inside, truth, agreement = result.inside, result.truth, result.agreement
    if truth is None:
        raise HoldfastError(
            f"{models.stream} has no labels, which the claims need. Add them to its predictions."
        )
    pair = pairs(len(inside))
    excess = [
        float(a[pair].mean() - b.mean()) for a, b in zip(agreement, (inside, truth), strict=True)
    ]
    return Seen(models, result, truth, excess[1], excess[0], points(result))


def lines(
    folders: list[Path],
    ensembles: list[Ensemble],
    drawn: Mapping[str, list[Ensemble]] | None = None,
) -> pd.DataFrame:
    """Both lines of each ensemble (panel) on each shift (curve), with one number per seed.

    drawn: the ensembles in the figure by shift, with the first seed.
    """
    found = evidence(folders, ensembles)
    rows: Rows = []
    for ensemble, by_shift in found.items():
        for shift, by_seed in by_shift.items():
            for seed, own in by_seed.items():
                numbers = numbers_of(own).items()
                rows += [(str(ensemble), shift, x, f"seed {seed}", round(n, 4)) for x, n in numbers]
    points = {}
    for shift, several in (drawn or {}).items():
        for ensemble in several:
            if seeds := found.get(ensemble, {}).get(shift, {}):
                seed = min(seeds)
                points[f"{ensemble}\n{shift}, seed {seed}"] = list(seeds[seed].points)
    return tidy(rows, unit="slopes, biases and R² as they are, the rest in points", points=points)


def numbers_of(seen: Seen) -> dict[str, float]:
    """The columns of a row."""
    found = {}
    both = {"accuracy": seen.result.accuracy_line, "agreement": seen.result.agreement_line}
    for n, x in enumerate(("slope", "bias", "R²")):
        for name, line in both.items():
            found[f"{name} {x}"] = float("nan") if line is None else float(line[n])
    error = seen.result.estimates.get("ALine-S", np.full(1, np.nan)) - seen.truth
    found["excess ID"], found["excess OOD"] = 100 * seen.inside, 100 * seen.outside
    found["ALine-S error"] = 100 * float(np.abs(error).mean())
    return found


Numbers = Mapping[str, float]
Measure = Callable[[Numbers], float]  # of one ensemble on one shift


def slope_gap(own: Numbers) -> float:
    """The absolute difference between the slopes of the agreement and accuracy lines."""
    return abs(own["agreement slope"] - own["accuracy slope"])


def bias_gap(own: Numbers) -> float:
    """The absolute difference between the biases of the agreement and accuracy lines."""
    return abs(own["agreement bias"] - own["accuracy bias"])


def aline_error(own: Numbers) -> float:
    """The mean error of ALine-S over the models."""
    return own["ALine-S error"]


def over(t: Table, ensemble: Ensemble, shifts: list[str], measure: Measure) -> Values[str]:
    """The mean of a measure over shifts, for each seed."""
    several = []
    for shift in shifts:
        columns = {str(x): t.values(str(ensemble), shift, x) for x in t.xs}
        runs = columns.get(ACCURACY_R2, {})
        several.append(
            {run: measure({x: values[run] for x, values in columns.items()}) for run in runs}
        )
    return average(several)


def on_lines(t: Table, *ensembles: Ensemble) -> list[str]:
    """The shifts on which the accuracies of all these ensembles are on a line."""
    return [
        shift
        for shift in t.curves()
        if all((t.mean(str(e), shift, ACCURACY_R2) or 0) > LEAST_R2 for e in ensembles)
    ]


def accuracy_line(t: Table, *ensembles: Ensemble) -> Parts:
    """R² of accuracy exceeds 0.95 on each of SHIFTS."""
    return bounded(t, SHIFTS, map(str, ensembles), ACCURACY_R2, least=LEAST_R2)


def agreement_line(t: Table, *ensembles: Ensemble) -> Parts:
    """R² of agreement exceeds 0.95 on each shift with accuracy on a line."""
    for own in ensembles:
        yield from bounded(t, on_lines(t, own), [str(own)], "agreement R²", least=LEAST_R2)


def nearest(t: Table, measure: Measure, ensemble: Ensemble, *others: Ensemble) -> Parts:
    """A measure of one ensemble is smaller than those of the others."""
    shifts = on_lines(t, ensemble, *others)
    own = over(t, ensemble, shifts, measure)
    for other in others:
        yield Part(f"{other} - {ensemble}", paired(over(t, other, shifts, measure), own), 0)


def gains_less(t: Table, training: list[Ensemble], than: list[Ensemble]) -> Parts:
    """ALine-S's error rises less from random heads to other sources than with other training."""
    shifts = on_lines(t, *training, *than)
    for n, source in enumerate(SOURCES[1:], 1):
        gaps = []
        for own in (than, training):
            heads, others = (over(t, own[k], shifts, aline_error) for k in (0, n))
            gaps.append({run: value - heads[run] for run, value in others.items()})
        yield Part(f"{source} - {SOURCES[0]}", paired(*gaps), 0)


def slopes_within(t: Table, limit: float, *ensembles: Ensemble) -> Parts:
    """The slopes of both lines differ by less than a limit for each ensemble."""
    for own in ensembles:
        yield Part(str(own), above_zero(over(t, own, on_lines(t, own), slope_gap)), most=limit)


SOURCES = ("head-1", "order-1", "subset-0.1")
HEAD, ORDER, SUBSET = PROBES = [Ensemble("glyphs", ("probe",), source) for source in SOURCES]
TENTHS = [Ensemble("glyphs", ("probe",), f"{name}-0.1") for name in ("head", "order")]
MORE = [Ensemble("glyphs", ("probe",), f"subset-{share}") for share in (0.3, 0.5)]
TRAININGS = [
    Ensemble("digits", (training,), source)
    for training in ("probe", "finetune", "scratch")
    for source in SOURCES
]
BASES, FEATURES, RELU, PIXELS = (
    Ensemble("digits", names, "head-1")
    for names in (("probe", "probe-relu"), ("probe",), ("probe-relu",), ("probe-pixels",))
)


@experiment("agreement/Fig1", "glyphs", scale=EMBEDDED, takes="ensembles")
def random_heads(folders: list[Path]) -> pd.DataFrame:
    """probes of one base: only random heads put agreement on the accuracy line (C1, C7)"""
    drawn = {"gaussian_noise": PROBES, "fog": PROBES}
    return lines(folders, [*PROBES, *TENTHS, *MORE], drawn)


random_heads.says("c1-accuracy-line").by(accuracy_line, *PROBES)
random_heads.says("c1-agreement-line").by(agreement_line, *PROBES)
MEASURES = {"slope": slope_gap, "bias": bias_gap, "error": aline_error}
for name, measure in MEASURES.items():
    random_heads.says(f"c1-{name}").by(nearest, measure, *PROBES)
for name, measure in MEASURES.items():
    random_heads.says(f"c1-{name}-tenth").by(nearest, measure, *TENTHS, SUBSET)


@random_heads.says("c1-diagonal")
def nearer_to_diagonal(t: Table) -> Parts:
    """The distance of the agreement line's slope from the accuracy line's minus its distance from 1."""
    for own in (ORDER, SUBSET):
        gaps = over(
            t, own, on_lines(t, own), lambda n: slope_gap(n) - abs(n["agreement slope"] - 1)
        )
        yield Part(str(own), above_zero(gaps), 0)


random_heads.says("c7-inside").by(nearest, lambda own: abs(own["excess ID"]), SUBSET, HEAD, ORDER)
random_heads.says("c7-outside").by(nearest, lambda own: own["excess OOD"], HEAD, SUBSET)


@experiment("agreement/Fig2", "digits", scale=EMBEDDED, takes="ensembles")
def trainings(folders: list[Path]) -> pd.DataFrame:
    """light finetuning and training from scratch against probes (C2, C3)"""
    return lines(folders, TRAININGS, {"gaussian_noise": TRAININGS, "fog": TRAININGS})


PROBED, FINETUNED, SCRATCH = TRAININGS[:3], TRAININGS[3:6], TRAININGS[6:]
for name, measure in MEASURES.items():
    trainings.says(f"c2-{name}").by(nearest, measure, *FINETUNED)
trainings.says("c2-gain").by(gains_less, FINETUNED, PROBED)
trainings.says("c3-gain").by(gains_less, SCRATCH, PROBED)
trainings.threshold("c3-slopes").by(slopes_within, 0.15, *SCRATCH)


@experiment("agreement/Fig3", "digits", scale=EMBEDDED, takes="ensembles")
def bases(folders: list[Path]) -> pd.DataFrame:
    """probes of several bases as one ensemble, and of raw pixels (C4, C6)"""
    drawn = [BASES, FEATURES, PIXELS]
    ensembles = [BASES, FEATURES, RELU, PIXELS]
    return lines(folders, ensembles, {"fog": drawn, "contrast": drawn})


bases.says("c4-accuracy-line").by(accuracy_line, BASES)
bases.says("c4-agreement-line").by(agreement_line, BASES)
bases.threshold("c4-slope").by(slopes_within, 0.15, BASES)


@bases.says("off-the-line")
def off_the_line(t: Table) -> Parts:
    """R² of agreement for each ensemble wherever R² of accuracy is not above the limit."""
    for panel in t.panels:
        means = {shift: t.mean(panel, shift, ACCURACY_R2) or 0 for shift in t.curves(panel)}
        off = [shift for shift, r2 in means.items() if r2 <= LEAST_R2]
        yield from bounded(t, off, [panel], "agreement R²", most=LEAST_R2)


@bases.says("c4-one-line")
def fits_worse(t: Table) -> Parts:
    """The mean R² of the accuracy line over all shifts of each base minus that of both."""
    both, *alone = (
        average([t.values(str(e), shift, ACCURACY_R2) for shift in t.curves(str(e))])
        for e in (BASES, FEATURES, RELU)
    )
    for base, own in zip((FEATURES, RELU), alone, strict=True):
        yield Part(f"{base} - {BASES}", paired(own, both), 0)


bases.says("c6-slope").by(nearest, slope_gap, FEATURES, PIXELS)
bases.says("c6-error").by(nearest, aline_error, FEATURES, PIXELS)


def draw_errors(t: Table, cells: list[Any], path: Path) -> Path:
    """Draw only the errors in points, as percentages have a different scale."""
    shown = t.frame[t.frame["panel"].isin(["MAE", "MAE, no line"])]
    return draw(replace(t, frame=shown, unit="mean absolute error, points"), path)


@experiment(
    "agreement/T1", ["glyphs", "digits"], scale=EMBEDDED, takes="ensembles", picture=draw_errors
)
def estimators(folders: list[Path]) -> pd.DataFrame:
    """agreement-on-the-line against confidences, models with random heads (C5)"""
    from ...callbacks.functional.aline import (  # deferred: imports torch
        mean_absolute_error,
        mean_percentage_error,
    )
    from ..results.model_agreement import TRUSTED

    found = evidence(folders, [HEAD, *TRAININGS[::3]])
    rows: Rows = []
    for name, mean_error in (("MAPE", mean_percentage_error), ("MAE", mean_absolute_error)):
        on, off = [], []
        for ensemble, by_shift in found.items():
            for shift, by_seed in by_shift.items():
                # The paper reports shifts without an agreement line separately.
                apart = np.mean([seen.result.r2 for seen in by_seed.values()]) <= TRUSTED
                panel, into = (f"{name}, no line", off) if apart else (name, on)
                for seed, seen in by_seed.items():
                    # Confidences with or without temperature, whichever has less error.
                    every = {**seen.result.estimates, **seen.result.oracle}
                    into += [
                        (
                            *(panel, f"{ensemble}, {shift}", x, f"seed {seed}"),
                            round(100 * mean_error(every[x], seen.truth), 3),
                        )
                        for x in (*ESTIMATES, *ORACLES)
                        if x in every
                    ]
        rows += [*on, *off]
    return tidy(rows, unit="percentages of the accuracy (MAPE), points (MAE)")


def best_errs_less(
    t: Table, panel: str, ours: tuple[str, ...], than: tuple[str, ...], each: bool = False
) -> Parts:
    """The smallest error of some estimators is below that of others, on average or in each row."""
    rows: dict[str, Values[str]] = {}
    for curve in t.curves(panel):
        theirs, mine = (
            {
                run: min(t.values(panel, curve, x).get(run, np.inf) for x in names)
                for run in t.values(panel, curve, names[0])
            }
            for names in (than, ours)
        )
        rows[curve] = {run: theirs[run] - mine[run] for run in theirs if run in mine}
    for name, gaps in (rows if each else {"": average(rows.values())}).items():
        yield Part(name, above_zero(gaps), 0)


ALINE, ATC = ESTIMATES[:2], ORACLES[2:]
estimators.says("c5-mae").by(best_errs_less, "MAE", ALINE, ORACLES)
estimators.says("c5-each").by(best_errs_less, "MAE", ALINE, ORACLES, each=True)
estimators.says("c5-mape").by(best_errs_less, "MAPE", ALINE, ORACLES)
estimators.says("c5-off").by(best_errs_less, "MAE, no line", ATC, ALINE)


@experiment("agreement/T3", "glyphs", scale=EMBEDDED, takes="ensembles")
def projection_norm(folders: list[Path]) -> pd.DataFrame:
    """ProjNorm and ALine-D against the accuracy out of distribution, probes with random heads"""
    from ...callbacks.functional.aline import correlation  # deferred: imports torch

    rows: Rows = []
    for by_shift in evidence(folders, [HEAD]).values():
        for name in ("ProjNorm", *ESTIMATES):
            for shift, by_seed in by_shift.items():
                for seed, seen in by_seed.items():
                    score = {**seen.result.estimates, "ProjNorm": seen.models.projnorm}.get(name)
                    if score is not None:
                        both = zip(("R²", "Spearman"), correlation(score, seen.truth), strict=True)
                        key = name, shift, f"seed {seed}"
                        rows += [(panel, *key, round(100 * n, 2)) for panel, n in both]
    return tidy(rows, unit="R² x 100; Spearman's correlation of ranks x 100")


projection_norm.says("aline-closer").above("ALine-D", "ProjNorm", "R²", SHIFTS)
