"""Agreement-on-the-line for finetuned models: Saxena et al. 2024 (arXiv 2404.01542).

A claim about lines uses only the shifts on which accuracy is on a line (mean R² over the seeds above 0.95)
for every compared ensemble; the paper lists the others separately. The runs are the seeds.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from ...results.run_statistics import Values, above_zero, exactly, paired
from ...results.runs import grouped
from ..engine.claims import INF, OURS, THRESHOLD, Part, Parts, above, bounded, primitive
from ..engine.experiment import table
from ..engine.picture import of_panels
from ..engine.sources import Ensembles
from ..engine.table import Rows, Table, tidy

if TYPE_CHECKING:
    from ...results.model_agreement import Estimates

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
    from ...results.model_agreement import estimate, from_files  # deferred: imports torch

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
) -> Table:
    """Both lines of each ensemble (panel) on each shift (curve), with one number per seed.

    drawn, shifts: the ensembles and shifts in the figure, with the first seed.
    """
    from ...results.model_agreement import points  # deferred: imports torch

    rows: Rows = []
    figure: dict[tuple[int, int], tuple[str, list[Any]]] = {}
    for ensemble, result in evidence(folders, ensembles):
        shift, seed = result.models.stream, f"seed {result.models.seed}"
        numbers = numbers_of(result).items()
        rows += [(str(ensemble), shift, x, seed, round(n, 4)) for x, n in numbers]
        if shift in shifts and ensemble in drawn:
            panel = shifts.index(shift), drawn.index(ensemble)
            figure.setdefault(panel, (f"{ensemble}\n{shift}, {seed}", list(points(result))))
    unit = "slopes, biases and R² as they are, the rest in points"
    return tidy(rows, unit=unit, points=dict(figure[panel] for panel in sorted(figure)))


def numbers_of(result: "Estimates") -> dict[str, float]:
    """Both lines, by how much agreement exceeds accuracy, and ALine-S's error."""
    from ....callbacks.functional.aline import pairs  # deferred: imports torch

    numbers = {}
    both = {"accuracy": result.accuracy_line, "agreement": result.agreement_line}
    for n, x in enumerate(("slope", "bias", "R²")):
        for name, line in both.items():
            numbers[f"{name} {x}"] = float("nan") if line is None else float(line[n])
    accuracies = result.inside, np.asarray(result.truth)
    for where, accuracy, agreement in zip(("ID", "OOD"), accuracies, result.agreement, strict=True):
        excess = agreement[pairs(len(accuracy))].mean() - accuracy.mean()
        numbers[f"excess {where}"] = 100 * float(excess)
    gaps = np.abs(result.estimates.get("ALine-S", np.nan) - accuracies[1])
    numbers["ALine-S error"] = 100 * float(np.mean(gaps))
    return numbers


# The numbers of an ensemble by shift and seed (rows) give one for each.
Measure = Callable[[pd.DataFrame], pd.Series]
MEASURES: dict[str, Measure] = {
    "slope": lambda numbers: (numbers["agreement slope"] - numbers["accuracy slope"]).abs(),
    "bias": lambda numbers: (numbers["agreement bias"] - numbers["accuracy bias"]).abs(),
    "error": lambda numbers: numbers["ALine-S error"],
}


def over(t: Table, ensemble: Ensemble, shifts: list[str], measure: str | Measure) -> Values[str]:
    """The mean of a measure over shifts, for each seed."""
    rows = t.frame[(t.frame["panel"] == str(ensemble)) & t.frame["curve"].isin(shifts)]
    numbers = rows.pivot(index=["curve", "run"], columns="x", values="value")
    of_numbers = MEASURES[measure] if isinstance(measure, str) else measure
    values = of_numbers(numbers.reindex(columns=t.xs))
    return values.unstack("curve").mean(axis=1, skipna=False).to_dict()


def on_lines(t: Table, *ensembles: Ensemble) -> list[str]:
    """The shifts on which the accuracies of all these ensembles are on a line."""
    return [shift for shift, r2 in least_r2(t, *ensembles).items() if r2 > LEAST_R2]


def least_r2(t: Table, *ensembles: Ensemble) -> dict[str, float]:
    """The least R² of accuracy among these ensembles on each shift, 0 if one has none."""
    return {
        shift: min(t.mean(str(ensemble), shift, ACCURACY_R2) or 0 for ensemble in ensembles)
        for shift in t.curves()
    }


def some_line(*ensembles: Ensemble) -> dict[str, Any]:
    """The premise that on some shift the accuracies of all these ensembles are on a line."""

    def premise(t: Table) -> Parts:
        best = max(least_r2(t, *ensembles).values(), default=0)
        number = exactly(best) if best else None
        yield Part("the least R² of these ensembles on the best shift", number, LEAST_R2)

    return {"premise": premise, "unless": "on no shift are the accuracies on a line"}


@primitive
def accuracy_line(t: Table, *ensembles: Ensemble) -> Parts:
    """R² of accuracy exceeds 0.95 on each shift."""
    return bounded(panel=[*map(str, ensembles)], x=ACCURACY_R2, least=LEAST_R2)(t)


@primitive
def agreement_line(t: Table, *ensembles: Ensemble) -> Parts:
    """R² of agreement exceeds 0.95 on each shift with accuracy on a line."""
    for ensemble in ensembles:
        shifts, panel = on_lines(t, ensemble), [str(ensemble)]
        yield from bounded(shifts, panel=panel, x="agreement R²", least=LEAST_R2)(t)


@primitive
def nearest(
    t: Table,
    measure: str | Measure,
    ensemble: Ensemble,
    *others: Ensemble,
    everywhere: bool = False,
) -> Parts:
    """A measure of one ensemble is smaller than those of the others, where accuracies are on lines."""
    shifts = t.curves() if everywhere else on_lines(t, ensemble, *others)
    ours = over(t, ensemble, shifts, measure)
    for other in others:
        yield Part(f"{other} - {ensemble}", paired(over(t, other, shifts, measure), ours), 0)


@primitive
def gains_less(t: Table, training: list[Ensemble], than: list[Ensemble]) -> Parts:
    """ALine-S's error rises less from random heads to other sources than with other training."""
    shifts = on_lines(t, *training, *than)
    theirs, ours = ([over(t, e, shifts, "error") for e in group] for group in (than, training))
    for n, source in enumerate(SOURCES[1:], 1):
        gaps = (
            {run: v - errors[0][run] for run, v in errors[n].items()} for errors in (theirs, ours)
        )
        yield Part(f"{source} - {SOURCES[0]}", paired(*gaps), 0)


@primitive
def bounded_measure(
    t: Table, measure: str | Measure, *ensembles: Ensemble, least: float = -INF, most: float = INF
) -> Parts:
    """A measure of each ensemble is within limits."""
    for ensemble in ensembles:
        values = over(t, ensemble, on_lines(t, ensemble), measure)
        yield Part(str(ensemble), above_zero(values), least, most)


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


@table(
    "agreement/Fig1",
    Ensembles("glyphs"),
    "probes of one base that differ in their heads, in the order or in a subset of the "
    "images (C1, C7)",
)
def random_heads(folders: list[Path]) -> Table:
    return lines(folders, ensembles=[*PROBES, *TENTHS, *MORE], drawn=PROBES)


def nearer_to_diagonal(numbers: pd.DataFrame) -> pd.Series:
    """The slope's distance from the accuracy line's minus its distance from 1."""
    return MEASURES["slope"](numbers) - (numbers["agreement slope"] - 1).abs()


def excess_inside(numbers: pd.DataFrame) -> pd.Series:
    """By how much agreement differs from accuracy in distribution."""
    return numbers["excess ID"].abs()


def excess_outside(numbers: pd.DataFrame) -> pd.Series:
    """By how much agreement exceeds accuracy out of distribution."""
    return numbers["excess OOD"]


random_heads.claim(
    "c1-accuracy-line",
    "C1: accuracy is on a line with each source",
    accuracy_line(*PROBES),
    quote="“linear probed CLIP models observe ACL meaning there is a strong linear correlation "
    "in the ID versus OOD performance”, section 3.1",
    group=THRESHOLD,
)
random_heads.claim(
    "c1-agreement-line",
    "C1: agreement is on a line with each source",
    agreement_line(*PROBES),
    quote="“we can observe a corresponding strong linear correlation in agreement across "
    "ensembles injected with diversity in linear head initialization, data ordering, and "
    "data subsetting”, section 3.1",
    group=THRESHOLD,
)
MATCHING = (
    "“only ensembles with diverse initialization leads to AGL where the linear trend of "
    "agreement and accuracy matching slope and bias”, section 3.1"
)
PREDICTING = (
    "“AGL-based methods can only accurately predict the OOD performance of models in "
    "ensembles with diverse initialization”, section 3.3"
)
NEAREST = {
    "slope": ("the slopes of both lines are nearest to each other with random heads", MATCHING),
    "bias": ("the biases of both lines are nearest to each other with random heads", MATCHING),
    "error": ("ALine-S has the smallest error with random heads", PREDICTING),
}
for measure, (sentence, quote) in NEAREST.items():
    random_heads.claim(f"c1-{measure}", f"C1: {sentence}", nearest(measure, *PROBES), quote=quote)
for measure, (sentence, _) in NEAREST.items():
    random_heads.claim(
        f"c1-{measure}-tenth",
        f"C1, all trained on one tenth of the data: {sentence}",
        nearest(measure, *TENTHS, SUBSET),
        group=OURS,
    )
random_heads.claim(
    "c1-diagonal",
    "C1: with orders and subsets agreement is nearer to y = x than to the accuracy line",
    bounded_measure(nearer_to_diagonal, ORDER, SUBSET, least=0),
    quote="“the agreement trend observe a much higher slope close to the diagonal”, section 3.1",
)
random_heads.claim(
    "c7-inside",
    "C7: in distribution, agreement is nearest to accuracy with subsets",
    nearest(excess_inside, SUBSET, HEAD, ORDER),
    quote="“in-distribution, the agreement rate between pairs of models was shown to equal "
    "their expected accuracy in ensembles with diverse data subsetting, while diverse "
    "random initialization leads to slightly higher agreement”, section 3.3",
)
random_heads.claim(
    "c7-outside",
    "C7: out of distribution, agreement exceeds accuracy with subsets, and by more than "
    "with random heads",
    nearest(excess_outside, HEAD, SUBSET),
    bounded_measure(excess_outside, SUBSET, least=0),
    quote="“out-of-distribution, we find that randomizing the linear head is important for "
    "diverse predictions and AGL behavior”, section 3.3",
)


@table(
    "agreement/Fig2",
    Ensembles("digits"),
    "light finetuning and training from scratch against probes (C2, C3)",
)
def trainings(folders: list[Path]) -> Table:
    return lines(folders, ensembles=TRAININGS, drawn=TRAININGS)


for measure, sentence in {
    "slope": "the agreement slope is closest to the accuracy slope with random heads",
    "bias": "the agreement bias is closest to the accuracy bias with random heads",
    "error": "ALine-S has the smallest error with random heads",
}.items():
    trainings.claim(
        f"c2-{measure}",
        f"C2: after light full finetuning, {sentence}",
        nearest(measure, *FINETUNED),
        **some_line(*FINETUNED),
        quote="“In full finetuned CLIP models, we also observe that random linear heads induce the "
        "most reliable AGL behavior”, section 3.1",
    )
trainings.claim(
    "c2-gain",
    "C2: random heads gain less with light full finetuning than with linear probes",
    gains_less(FINETUNED, PROBED),
    **some_line(*FINETUNED, *PROBED),
    quote="“with full finetuning, the differences in AGL behavior between diversity sources are"
    " not as stark as with linearly probed models”, section 3.2",
)
trainings.claim(
    "c3-gain",
    "C3: random heads gain less in training from scratch than in probes",
    gains_less(SCRATCH, PROBED),
    quote="“in models heavily trained from scratch, AGL can be observed irrespective of the "
    "diversity source”, appendix 7.3.4",
)
trainings.claim(
    "c3-slopes",
    "C3: from scratch the slopes differ by less than 0.15 with each source",
    bounded_measure("slope", *SCRATCH, most=0.15),
    group=THRESHOLD,
    quote="“in models heavily trained from scratch, AGL can be observed irrespective of the "
    "diversity source”, appendix 7.3.4",
)


@table(
    "agreement/Fig3",
    Ensembles("digits"),
    "probes of several bases as one ensemble, and of raw pixels (C4, C6)",
)
def bases(folders: list[Path]) -> Table:
    ensembles, drawn = [BASES, FEATURES, RELU, PIXELS], [BASES, FEATURES, PIXELS]
    return lines(folders, ensembles=ensembles, drawn=drawn, shifts=("fog", "contrast"))


def off_the_line(t: Table) -> Parts:
    """R² of agreement for each ensemble wherever R² of accuracy is not above the limit."""
    for panel in t.panels:
        means = {shift: t.mean(panel, shift, ACCURACY_R2) or 0 for shift in t.curves(panel)}
        off = [shift for shift, r2 in means.items() if r2 <= LEAST_R2]
        yield from bounded(off, panel=[panel], x="agreement R²", most=LEAST_R2)(t)


def accuracy_r2(numbers: pd.DataFrame) -> pd.Series:
    """R² of the accuracies."""
    return numbers[ACCURACY_R2]


bases.claim(
    "c4-accuracy-line",
    "as probes of language models do, those of two image bases are on one accuracy line",
    accuracy_line(BASES),
    group=OURS,
)
bases.claim(
    "c4-agreement-line",
    "as that of language models is, the agreement of probes of two image bases is on one line",
    agreement_line(BASES),
    group=OURS,
)
bases.claim(
    "c4-slope",
    "for probes of two image bases the slopes of both lines differ by less than 0.15",
    bounded_measure("slope", BASES, most=0.15),
    group=OURS,
)
bases.claim(
    "off-the-line",
    "where accuracy is not on a line, agreement is not on one either",
    off_the_line,
    quote="“when the linear correlation does not exist in ID versus OOD accuracy, it also does "
    "not exist in agreement”, section 3.1",
    group=THRESHOLD,
)
bases.claim(
    "c4-one-line",
    "C4: both bases together fit one accuracy line worse than each base alone, contrast included",
    nearest(accuracy_r2, BASES, FEATURES, RELU, everywhere=True),
    quote="“on vision tasks, FMs pretrained on different image corpora can have different "
    "levels of OOD robustness for the same ID performance”, section 1",
)
for measure, sentence in {
    "slope": "slopes differ more for probes of pixels than of features",
    "error": "ALine-S errs more for probes of pixels than of features",
}.items():
    bases.claim(
        f"c6-{measure}",
        f"C6: {sentence}",
        nearest(measure, FEATURES, PIXELS),
        quote="“linear models trained on top of the flattened CIFAR10 images do not observe AGL”, "
        "section 3.3",
    )


@table(
    "agreement/T1",
    Ensembles("glyphs", "digits"),
    "agreement-on-the-line against confidences, models with random heads (C5)",
    picture=of_panels("MAE", "MAE, no line", unit="mean absolute error, points"),
)
def estimators(folders: list[Path]) -> Table:
    from ...results.model_agreement import TRUSTED

    estimates = [
        (f"{ensemble}, {result.models.stream}", f"seed {result.models.seed}", result)
        for ensemble, result in evidence(folders, [HEAD, PROBED[0], FINETUNED[0], SCRATCH[0]])
    ]
    by_curve = grouped(estimates, lambda entry: entry[0]).items()
    r2 = {curve: np.mean([result.r2 for *_, result in same]) for curve, same in by_curve}
    rows = []
    for name in ("MAPE", "MAE"):
        # The paper reports shifts without an agreement line separately.
        for panel, apart in ((name, False), (f"{name}, no line", True)):
            for curve, seed, result in estimates:
                # Confidences with or without temperature, whichever has less error.
                every, truth = result.estimates, np.asarray(result.truth)
                share = np.where(truth == 0, np.nan, truth) if name == "MAPE" else 1
                for x in (*ESTIMATES, *ORACLES):
                    if x in every and bool(r2[curve] <= TRUSTED) == apart:
                        error = 100 * (abs(every[x] - truth) / share).mean()
                        rows.append((panel, curve, x, seed, round(error, 3)))
    return tidy(rows, unit="percentages of the accuracy (MAPE), points (MAE)")


@primitive
def errs_less(t: Table, panel: str, ours: tuple[str, ...], than: tuple[str, ...]) -> Parts:
    """Each estimator errs less than each of the others, mean over the rows of pretrained models."""
    scratch = t.frame["curve"].str.startswith(str(SCRATCH[0]))
    rows = t.frame[(t.frame["panel"] == panel) & ~scratch]
    errors = rows.pivot(index=["run", "curve"], columns="x", values="value").reindex(columns=t.xs)
    for name, other in product(ours, than):
        gaps = (errors[other] - errors[name]).unstack("curve").mean(axis=1, skipna=False)
        yield Part(f"{other} - {name}", above_zero(gaps.to_dict()), 0)


ALINE, ATC = ESTIMATES[:2], ORACLES[2:]
estimators.claim(
    "c5-mae",
    "C5: where the line holds ALine-S and ALine-D err less than each of the confidences, mean over the "
    "shifts and the pretrained models",
    errs_less("MAE", ALINE, ORACLES),
    quote="“ALine-S and ALine-D provide precise estimates of OOD performance in finetuned "
    "foundation models, surpassing other baselines by a large margin”, section 5",
)
estimators.claim(
    "c5-mape",
    "C5: on average ALine-S and ALine-D also err less than each of the confidences in percent of the "
    "accuracy (MAPE)",
    errs_less("MAPE", ALINE, ORACLES),
    quote="“ALine-S and ALine-D provide precise estimates of OOD performance in finetuned "
    "foundation models, surpassing other baselines by a large margin”, section 5",
)
estimators.claim(
    "c5-off",
    "C5: where the line does not hold, ATC errs less than ALine-S and ALine-D, mean over "
    "the shifts and the pretrained models",
    errs_less("MAE, no line", ATC, ALINE),
    quote="“is significantly better in circumstances where AGL-based methods are unreliable”, "
    "appendix 7.1.3",
)


@table(
    "agreement/T3",
    Ensembles("glyphs"),
    "ProjNorm and ALine-D against the accuracy out of distribution, probes with random heads",
)
def projection_norm(folders: list[Path]) -> Table:
    rows: Rows = []
    results = [result for _, result in evidence(folders, [HEAD])]
    for name in ("ProjNorm", *ESTIMATES):
        for result in results:
            models = result.models
            score = {**result.estimates, "ProjNorm": models.projnorm}.get(name)
            if score is not None and result.truth is not None:
                score, truth = pd.Series(score), pd.Series(result.truth)
                both = {"R²": score.corr(truth) ** 2, "Spearman": score.rank().corr(truth.rank())}
                key = name, models.stream, f"seed {models.seed}"
                rows += [(panel, *key, round(100 * n, 2)) for panel, n in both.items()]
    return tidy(rows, unit="R² x 100; Spearman's correlation of ranks x 100")


projection_norm.claim(
    "aline-closer",
    "ALine-D is more closely correlated with accuracy than ProjNorm",
    above("ALine-D", "ProjNorm", panel="R²"),
    quote="“estimates from ALine-D are more strongly correlated with OOD performance than "
    "ProjNorm”, appendix 7.1.3",
)
