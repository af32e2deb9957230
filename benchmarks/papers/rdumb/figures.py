"""RDumb and CCC: the figures of Press et al. 2023, numbered as in chapter 2 of Ori Press's thesis."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from ....drawing import GREY, TWO, legend, method_colour, panels, plot, shade, styles
from ...results.batch_means import batches, pairs_of, severity, shown
from ...results.collapse import stays_below
from ...results.run_statistics import above_zero
from ...results.runs import Run, grouped
from ...suites.cell import Cell
from ..accuracy import WINDOWS, over_stream, windows
from ..engine.claims import (
    FIGURE,
    OURS,
    THRESHOLD,
    Part,
    Parts,
    above,
    bounded,
    falls,
    primitive,
    rises,
    rises_to_peak,
    spread,
)
from ..engine.experiment import table
from ..engine.sources import EMBEDDED, FULL, PHOTOS, Simulation, Suite
from ..engine.table import LAST, Positions, Rows, Table, tidy
from .tables import CCC, COLLAPSING, HARDER, METHODS, ON_CCC, Runs


@table(
    "rdumb/Fig2.1",
    Suite(
        "rdumb/cin-c",
        "rdumb/ccc",
        only={"method": ["Source", "ETA", "CoTTA"], "setting": ["CIN-C", "CCC-Medium"]},
    ),
    "source model, ETA and CoTTA over CIN-C and over CCC-Medium",
)
def two_streams(runs: Runs) -> Table:
    return over_stream(runs, order=["Source", "ETA", "CoTTA"], spread=True)


def varies_more(t: Table) -> Parts:
    """The deviation along CIN-C minus the largest one along CCC-Medium."""
    values = t.frame[t.frame["curve"] == "Source"].groupby(["panel", "run"])["value"]
    deviations = values.std(ddof=0).unstack("panel").reindex(columns=["CIN-C", "CCC-Medium"])
    gap = deviations["CIN-C"] - deviations["CCC-Medium"].max()
    yield Part("CIN-C - CCC-Medium", above_zero(gap.to_dict()), 0)


two_streams.claim(
    "below-on-ccc",
    "at the end of CCC-Medium ETA and CoTTA are below the source model",
    above("Source", ["ETA", "CoTTA"], panel="CCC-Medium", x=LAST),
    quote="“CIN-C (top) is unable to reveal the collapse of methods such as ETA and CoTTA, "
    "while CCC (middle and bottom) can”, caption",
    same_as="rdumb/T2.1 collapse",
)
two_streams.claim(
    "varies",
    "the source model's accuracy varies more along CIN-C than along CCC-Medium",
    varies_more,
    quote="“the considerable variations of the baseline performance among the different "
    "corruptions in CIN-C”, section 2.2",
)
two_streams.claim(
    "above-on-cin-c",
    "at the end of CIN-C ETA and CoTTA are above the source model",
    above(["ETA", "CoTTA"], "Source", panel="CIN-C", x=LAST),
    quote="ETA “appears to be stable and better than a non-adapting, pretrained baseline”, "
    "section 2.2; of CoTTA “end performance still outperformed the baseline”, section 2.5",
)


@table(
    "rdumb/Fig2.3",
    Suite("rdumb/cin-c", "rdumb/ccc"),
    "accuracy over CIN-C and CCC, means over the runs, and over all runs of CCC (with figure A.4)",
)
def all_over_stream(runs: Runs) -> Table:
    return over_stream(runs, order=METHODS, pooled={"CCC (all runs)": CCC})


OTHERS = [method for method in COLLAPSING if method != "CoTTA"]
all_over_stream.claim(
    "stable",
    "at the end of CCC BN, EATA and RDumb are above the source model",
    above(["BNAdapt", "EATA", "RDumb"], "Source", panel=ON_CCC, x=LAST),
    group=FIGURE,
    quote="Figure A.4",
    same_as="rdumb/T2.1 above-source",
)
all_over_stream.claim(
    "collapse",
    "at the end of CCC CoTTA is below the source model, and ETA on CCC-Medium and CCC-Hard",
    above("Source", "CoTTA", panel=ON_CCC, x=LAST),
    above("Source", "ETA", panel=HARDER, x=LAST),
    quote="“CoTTA collapses on CCC”; of ETA “collapsing very clearly on CCC (Figure 2.3b, more "
    "precisely on CCC-Medium and CCC-Hard”, section 2.5",
    same_as="rdumb/T2.1 collapse",
)
all_over_stream.claim(
    "others-collapse",
    "at the end of CCC Tent, RPL, SLR and CPL are below the source model",
    above("Source", OTHERS, panel=ON_CCC, x=LAST),
    group=FIGURE,
    quote="Figure A.4",
    same_as="rdumb/T2.1 collapse",
)


BATCH = 64  # images of a step in all suites of the paper


def draw_long(t: Table, cells: Sequence[Cell], path: Path) -> Path:
    """Draw accuracy by images, a band from the lowest to the highest run, resets, and collapses (x)."""
    (panel,) = t.panels
    length = max(cell.config["data"]["init_args"]["images"] for cell in cells)
    looks, cross = styles(t.curves()), {"marker": "x", "ms": 6, "mew": 1.6, "lw": 0}
    with panels(path, height=2.7, width=TWO) as (figure, [ax]):
        ax.set(xlabel="images, thousands", ylabel="accuracy on CCC-Medium, %")
        falls = False
        for curve in t.curves(panel):
            xs, colour = t.xs_of(panel, curve), looks[curve].colour
            runs = pd.DataFrame([t.values(panel, curve, x) for x in xs])
            # An x is the end of a window, whose middle is drawn.
            images = (np.array(xs, float) - 50 / WINDOWS) / 100 * length / 1000
            plot(ax, images, runs.mean(axis=1), curve, looks[curve])
            shade(ax, images, runs.min(axis=1), runs.max(axis=1), colour)
            sources = pd.DataFrame([t.values(panel, "Source", x) for x in xs])
            for run in runs.columns.intersection(sources.columns):
                # The values are means of windows already.
                own, source = runs[run].to_numpy() / 100, sources[run].to_numpy() / 100
                if (at := stays_below(own, source, window=1)) is not None:
                    ax.plot(images[at], runs[run][at], color=colour, **cross)
                    falls = True
        if falls:
            ax.plot([], [], color=GREY, label="below the source model from here on", **cross)
        if every := next((n for cell in cells if (n := interval(cell))), 0):
            resets = np.arange(every, length // BATCH, every) * BATCH / 1000
            ticks = {"marker": "|", "ms": 5, "lw": 0, "color": method_colour("RDumb")}
            ax.plot(resets, np.zeros_like(resets), label="reset of RDumb", **ticks)
        legend(figure, [ax], "lowest to highest run" if t.frame["run"].nunique() > 1 else "")
    return path


def interval(cell: Cell) -> int:
    """RDumb's steps between resets; 0 for other methods."""
    model = cell.config["model"]
    if model["class_path"].rpartition(".")[2] != "RDumb":
        return 0
    return int(model.get("init_args", {}).get("every", 1000))


@table(
    "rdumb/long",
    Suite("rdumb/long", scales=[EMBEDDED, PHOTOS]),
    "methods along a stream of CCC-Medium four times as long as in T2.1",
    picture=draw_long,
)
def longest(runs: Runs) -> Table:
    return over_stream(runs, order=METHODS)


FALLING = ["Tent", "RPL", "SLR", "CPL", "ETA"]
longest.claim(
    "collapse",
    "at the end Tent, RPL, SLR, CPL and ETA are below the source model",
    above("Source", FALLING, x=LAST),
    quote="“the performances of all but one current TTA methods drop below a non-adapting, "
    "pre-trained baseline when trained over long timescales”, section 2.1",
)
longest.claim(
    "rdumb-best",
    "at the end RDumb is above Tent, RPL, SLR, CPL, ETA and EATA",
    above("RDumb", [*FALLING, "EATA"], x=LAST),
    quote="“RDumb outperforms all previous methods on both established benchmarks (CIN-C, "
    "CIN-3DCC) as well as our continual adaptation benchmark, CCC”, section 2.5",
)


@table(
    "rdumb/Fig2.4",
    Suite(
        "rdumb/network-cin-c",
        "rdumb/backbones",
        scales=[EMBEDDED, FULL],
        only={
            "method": ["Source", "EATA", "RDumb"],
            "override": ["groupnorm", "ViT-B16"],
            "setting": ["CIN-C", "CCC-Medium"],
        },
    ),
    "source model, EATA and RDumb without batch normalisation over CIN-C and CCC-Medium",
)
def without_bn(runs: Runs) -> Table:
    return over_stream(runs, order=["Source", "EATA", "RDumb"], curve="method")


without_bn.claim(
    "eata-above",
    "on CIN-C EATA is above the source model",
    above("EATA", "Source", panel="CIN-C"),
    quote="“On CIN-C, EATA is better than the pretrained baseline (44.4% points vs 40.1% "
    "points)”, caption",
)
without_bn.claim(
    "eata-below",
    "on CCC-Medium EATA is below the source model",
    above("Source", "EATA", panel="CCC-Medium"),
    quote="“On CCC-Medium, EATA is worse than the pretrained baseline (38.5% points vs 42.0% "
    "points)”, caption",
)
without_bn.claim(
    "rdumb-best",
    "RDumb is above EATA and the source model on both streams",
    above("RDumb", ["Source", "EATA"], panel=["CIN-C", "CCC-Medium"]),
    quote="“RDumb (ours) is consistently better than both EATA and the baseline”, caption",
)


AT_CHANCE = 1.0  # percent, of which a part is the noise of a few images


@table(
    "rdumb/Fig2.5a",
    Suite("rdumb/peaks", scales=[EMBEDDED, FULL]),
    "ETA from scratch on each hold-out corruption and severity: steps to its highest accuracy",
)
def peaks(runs: Runs) -> Table:
    rows: Rows = []
    notes = []
    tops: dict[str, list[str]] = {}
    for same in grouped(runs, lambda run: run.stream).values():
        curves = {run.place: windows(run) for run in same}
        # The highest accuracy is that of the mean over the runs, in windows of a twentieth of the steps.
        mean = np.mean(list(curves.values()), axis=0)
        if mean.max() < AT_CHANCE:
            notes.append(f"{same[0].stream}: left out, as ETA has at most {mean.max():.1f} %.")
            continue
        parts = np.array_split(np.arange(1, len(same[0].rows) + 1), WINDOWS)
        ends = [int(part[-1]) for part in parts]
        setting, curve = same[0].setting, f"severity {severity(same[0])}"
        tops.setdefault(setting, []).append(str(ends[int(mean.argmax())]))
        for run, values in curves.items():
            shares = 100 * np.array(values) / max(mean.max(), 1e-9)
            rows += [(setting, curve, x, run, share) for x, share in zip(ends, shares, strict=True)]
    notes += [
        f"{name}: ETA is at its highest after {', '.join(steps)} steps (severities in their order, in "
        f"windows of {rows[0][2]})."
        for name, steps in tops.items()
    ]
    return tidy(rows, unit="accuracy, % of its highest", axis="steps", notes=notes)


@primitive
def at_200(t: Table, change: Callable[..., pd.Series]) -> Parts:
    """A change on each corruption and severity, of the accuracies at the start, at 200 steps, at the end.

    Its last argument is how many times as long as the part before 200 steps that after them is. The paper
    observes the peak there (12,500 images); of shorter streams it is the middle.
    """
    steps = [x for x in t.xs if isinstance(x, int | float)]
    later = [x for x in steps if x >= 200]
    peak = later[0] if len(later) > 1 else steps[len(steps) // 2]
    longer = (steps[-1] - peak) / (peak - steps[0])
    numbers = t.frame.pivot(index=["panel", "curve", "run"], columns="x", values="value")
    for key in t.cells:
        ends = (numbers.loc[key, x] for x in (steps[0], peak, steps[-1]))
        yield Part(", ".join(key), above_zero(change(*ends, longer).to_dict()), 0)


peaks.claim(
    "at-peak",
    "after 200 steps ETA is at its highest accuracy, higher than at the start and at the "
    "end, on every corruption and severity",
    at_200(lambda first, at, last, _: at - last),
    at_200(lambda first, at, *_: at - first),
    quote="“ETA reaches its maximum accuracy after seeing only about 12,500 samples, which is "
    "about 200 adaptation steps”, section 2.6",
)
peaks.claim(
    "near-peak",
    "after 200 steps ETA has gained more than it lacks of its highest accuracy, on every "
    "corruption and severity",
    at_200(lambda first, at, *_: at - first - (100 - at)),
    group=THRESHOLD,
    quote="“For every noise in the holdout set, ETA reaches its maximum accuracy very quickly”,"
    " caption",
)
peaks.claim(
    "slow-fall",
    "after 200 steps ETA's accuracy falls, more slowly per step than it rose before, on "
    "every corruption and severity",
    at_200(lambda first, at, last, _: at - last),
    at_200(lambda first, at, last, longer: at - first - (at - last) / longer),
    quote="“accuracy decays at a pace slower than its initial increase”, section 2.6",
)


CHANGED, RESET = "since the corruption changed", "since the last reset"


@table(
    "rdumb/Fig2.5b",
    Suite(
        "rdumb/cin-c",
        scales=[EMBEDDED, FULL],
        only={"method": ["BNAdapt", "ETA", "EATA", "RDumb"]},
    ),
    "ETA, EATA and RDumb over BN by the steps since a reset or a change of corruption",
)
def since(runs: Runs) -> Table:
    rows = [row for run in runs for row in gains_since(run, CHANGED, [*map(pairs_of, run.rows)])]
    for run in (run for run in runs if run.resets):
        rows += gains_since(run, RESET, [*accumulate(row["reset"] for row in run.rows)])
    return tidy(rows, unit="accuracy over BN, points", axis="steps since", log=True)


def gains_since(run: Run, event: str, marks: Sequence[Hashable]) -> Iterator[tuple[Any, ...]]:
    """Accuracy minus BNAdapt's by steps since an event (a change of mark), in doubling bins.

    Steps before the first event count from the start of the stream.
    """
    if run.bnadapt is None or run.bnadapt is run:
        return
    gain = 100 * (run.column("accuracy") - run.bnadapt.column("accuracy")[: len(run.rows)])
    changes = np.cumsum([False, *(a != b for a, b in pairwise(marks))])
    steps = pd.Series(changes).groupby(changes).cumcount().to_numpy() + 1
    bins = np.floor(np.log2(steps)).astype(int)
    for number in np.unique(bins):
        yield event, run.label, 2 ** int(number), run.place, gain[bins == number].mean()


SOON = Positions(1, 3)
since.claim(
    "eta-ahead",
    "soon after a change of corruption ETA gains more than EATA",
    above("ETA", "EATA", panel=CHANGED, x=SOON),
    quote="“Rdumb shares ETA’s property of fast adaptation, while regularization in EATA slows "
    "adaptation”, caption",
)
since.claim(
    "reset-faster",
    "soon after a reset RDumb gains more than EATA does soon after a change",
    above("RDumb", "EATA", panel=RESET, x=SOON, than_panel=CHANGED),
    quote="“Rdumb shares ETA’s property of fast adaptation, while regularization in EATA slows "
    "adaptation”, caption",
)
since.claim(
    "gain-grows",
    "long after its last reset RDumb gains more than right after it",
    rises("RDumb", panel=RESET),
    group=FIGURE,
    quote="Figure 2.5 (b)",
)


# The 2-D toy in which entropy minimisation is stable or collapses (thesis, appendix A.1).
CONDITIONS = {"condition 1": (4.0, False), "condition 2": (25.0, False), "eq. A.4": (25.0, True)}
SIZES = {"embedded": (20_000, 20_000, 10), "full": (300_000, 60_000, 3)}  # points, steps, seeds
TRAINING = np.repeat([0.1, 0.01, 0.001], 1000)  # learning rate of each step
RATE = 0.01  # learning rate of the adaptation


@table(
    "rdumb/Fig2.6",
    Simulation(),
    "a 2-D toy: Tent on batch norm and logistic regression, stable or collapsing",
)
def toy_example(scale: str) -> Table:
    return dynamics(*SIZES[scale])


def dynamics(points: int, steps: int, seeds: int) -> Table:
    """Accuracy, entropy and norm of the scale by adaptation step, in each condition."""
    from scipy.stats import zscore  # deferred: slow import

    at = sorted({0, *np.geomspace(1, steps, 24).astype(int).tolist()})
    rows: Rows = []
    for seed in range(seeds):
        clean, _, labels = data(points, 0.0, seed)
        # Batch normalisation with epsilon 0 and before its scale; the expected mean is 0.
        model = trained(zscore(clean), labels, np.random.default_rng([seed, 1]))
        for name, (variance, literal) in CONDITIONS.items():
            _, corrupted, _ = data(points, variance, seed, literal)
            for step, measures in adapted(zscore(corrupted), labels, *model, at):
                run = f"seed {seed}"
                rows += [(panel, name, step, run, n) for panel, n in measures.items()]
    unit = "accuracy, %; entropy, nats / 100; norm of the scale"
    return tidy(rows, unit=unit, axis="step of adaptation", log=True)


def data(
    points: int, variance: float, seed: int, literal: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clean and corrupted points [n,2] and labels [n] in {0,1}.

    variance: variance of the noise along its major axis (condition 1: 4, condition 2: 25).
    literal: use the covariance as printed in eq. A.4, which rotates it opposite to the text.
    """
    random = np.random.default_rng(seed)
    labels = np.arange(points) % 2
    centred = random.standard_normal((points, 2)) * np.sqrt([1, 0.03])
    clean = (centred + np.outer(2 * labels - 1, [1, 0])) @ rotation(-np.pi / 4).T
    noise = random.standard_normal((points, 2)) * np.sqrt([0.25, variance])
    turn = rotation(-np.pi / 4).T if literal else rotation(-np.pi / 4)
    noise = noise @ (turn @ rotation(-np.pi / 6).T).T
    return clean, clean @ rotation(-np.pi / 9).T + noise, labels


def rotation(angle: float) -> np.ndarray:
    """The rotation matrix of Eq. A.7."""
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


def trained(
    x: np.ndarray, labels: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Scale [2] and linear weights [2] after training with binary cross-entropy on points [n,2]."""
    scale, weights = np.ones(2), random.uniform(-1, 1, 2) / np.sqrt(2)
    for rate in TRAINING:
        slope = x.T @ (expit(x @ (scale * weights)) - labels) / len(x)
        scale, weights = scale - rate * slope * weights, weights - rate * slope * scale
    return scale, weights


def adapted(
    x: np.ndarray, labels: np.ndarray, scale: np.ndarray, weights: np.ndarray, at: list[int]
) -> Iterator[tuple[int, dict[str, float]]]:
    """The measures of the table after the steps `at` of Tent on the scale, with all points in one batch."""
    for step in range(at[-1] + 1):
        logits = x @ (scale * weights)
        p = expit(logits)
        if step in at:
            right = 100 * ((logits > 0) == labels).mean()
            entropy = 100 * (np.logaddexp(0, logits) - p * logits).mean()
            norm = float(np.linalg.norm(scale))
            yield step, {"accuracy": right, "entropy": entropy, "scale": norm}
        # The derivative of the entropy by the logit.
        slope = -(p * (1 - p) * logits)
        scale = scale - RATE * weights * (x.T @ slope) / len(x)


toy_example.claim(
    "stable",
    "condition 1 is stable: it ends at most five points below its start",
    rises("condition 1", panel="accuracy", by=-5),
    group=THRESHOLD,
    quote="“we find the direction of high target domain performance and stay there”, appendix A.1",
)
toy_example.claim(
    "gains",
    "condition 2 gains at first",
    rises_to_peak("condition 2", panel="accuracy"),
    quote="“we still initially find the direction of high target domain performance”, appendix A.1",
)
toy_example.claim(
    "collapses",
    "condition 2 collapses: it ends at least ten points below its start",
    falls("condition 2", panel="accuracy", by=10),
    group=THRESHOLD,
    quote="“continue into a direction of low entropy and low accuracy”, appendix A.1",
)
toy_example.claim(
    "scale-grows",
    "the scale grows in both conditions",
    rises(["condition 1", "condition 2"], panel="scale"),
    quote="“the model predicts that the magnitude of weights increases over the course of "
    "optimization”, section 2.6",
)
toy_example.claim(
    "eq-a4",
    "with the covariance that eq. A.4 prints, condition 2 collapses as well",
    falls("eq. A.4", panel="accuracy", by=10),
    group=OURS,
)


NORM = "WeightMagnitude_norm "
POINTS = 24  # maximum number of points along the stream


@table(
    "rdumb/Fig2.6c",
    Suite(
        "rdumb/ccc",
        scales=[EMBEDDED, FULL],
        only={"method": ["Source", "ETA"], "setting": "CCC-Medium"},
    ),
    "norm of ETA's adapted weights by layer over CCC-Medium, beside accuracy (with figure A.2)",
)
def weights(runs: Runs) -> Table:
    rows: Rows = []
    for run in (run for run in runs if run.adapts):
        norms = norms_by_stage(run)
        at = norms.index[np.unique(np.linspace(0, len(norms) - 1, POINTS).astype(int))]
        for n, following in zip(at, [*at[1:], len(run.rows)], strict=True):
            step = run.rows[n]["step"]
            for curve, other in (("ETA", run), ("Source", run.source)):
                if other is not None:
                    value = 100 * float(other.column("accuracy")[n:following].mean())
                    rows.append(("accuracy", curve, step, run.place, value))
            shares = 100 * norms.loc[n] / norms.loc[at[0]]
            rows += [("weights", stage, step, run.place, v) for stage, v in shares.items()]
    unit = "accuracy, %; norm of adapted weights, % of the source model's"
    return tidy(rows, unit=unit, axis="step")


def norms_by_stage(run: Run) -> pd.DataFrame:
    """The norm of all adapted weights of each stage (columns), by the batch at which it was measured."""

    def stage(name: str) -> str:
        parts = name.removeprefix(NORM).split(".")
        return next(part for part in parts if part not in ("net", "features"))

    norms = pd.DataFrame(run.rows).filter(like=NORM).dropna()
    return (norms**2).T.groupby(stage, sort=False).sum().T ** 0.5


def grow_later(t: Table) -> Parts:
    """The growth of each layer's weights after the mean of ETA stays below Source's minus that before."""
    eta, source = ([t.mean("accuracy", curve, x) or 0 for x in t.xs] for curve in ("ETA", "Source"))
    ahead = [n for n in range(len(t.xs)) if eta[n] >= source[n]]
    collapse = t.xs[min(ahead[-1] + 1 if ahead else 0, len(t.xs) - 1)]
    norms = t.frame[t.frame["panel"] == "weights"]
    norms = norms.pivot(index=["curve", "run"], columns="x", values="value")
    first, at, last = (norms[x] for x in (t.xs[0], collapse, t.xs[-1]))
    for layer in t.curves("weights"):
        gaps = ((last - at) - (at - first))[layer]
        yield Part(layer, above_zero(gaps.to_dict()), 0)


weights.claim(
    "grow",
    "the adapted weights of every layer grow",
    rises(panel="weights"),
    quote="“the adaptation weights in all layers increase over time continually”, caption",
)
weights.claim(
    "grow-after-collapse",
    "the adapted weights grow more after the collapse than before it",
    grow_later,
    premise=above("Source", "ETA", panel="accuracy", x=LAST),
    unless="ETA does not end below the source model",
    quote="“weight explosion happens only after model performance is already collapsed”, "
    "section 2.6",
)


@table(
    "rdumb/FigA.5",
    Suite(
        "rdumb/ten-classes", scales=[EMBEDDED, FULL], only={"setting": ["severity 5", "gradual"]}
    ),
    "ten classes whose images are repeated: Tent over a stream at severity 5, and over a "
    "gradual one",
)
def ten_classes(runs: Runs) -> Table:
    return over_stream(runs, order=["Source", "BNAdapt", "Tent", "RDumb"])


SECOND_HALF = Positions(WINDOWS // 2 + 1, -1)
ten_classes.claim(
    "no-collapse-at-the-end",
    "at the end Tent is above the source model on the stream of severity 5, and above "
    "chance (10 %) on the gradual one",
    above("Tent", "Source", panel="severity 5", x=LAST),
    bounded("Tent", panel="gradual", x=LAST, least=10),
    quote="“Tent does not collapse even after seeing 100M CIFAR scale images”, and “does not "
    "collapse to chance level”, caption",
)
ten_classes.claim(
    "no-collapse",
    "Tent is above the source model in the second half of all streams",
    above("Tent", "Source", x=SECOND_HALF),
    group=OURS,
)


@table(
    "rdumb/FigA.5c",
    Suite(
        "rdumb/ten-classes",
        scales=[EMBEDDED, FULL],
        only={"method": "Source", "stream": "severity 5"},
    ),
    "accuracy of the source model on each corruption at severity 5, with ten classes",
)
def hardness(runs: Runs) -> Table:
    rows = []
    for run in runs:
        means = batches([run], "accuracy").groupby("pairs", sort=False)["accuracy"].mean().dropna()
        rows += [("", shown(pairs), "Source", run.place, 100 * v) for pairs, v in means.items()]
    means = pd.DataFrame(rows).groupby(1, sort=False)[4].mean().sort_values(kind="stable")
    return tidy(sorted(rows, key=lambda row: means.index.get_loc(row[1])))


hardness.claim(
    "uneven",
    "the easiest corruption is at least 20 points above the hardest one",
    spread("Source", by=20),
    group=THRESHOLD,
    quote="“CIFAR10-C’s noises also exhibit high variance in difficulty”, appendix A.6",
)


@table(
    "rdumb/Why",
    Suite(
        "rdumb/why",
        scales=[EMBEDDED],
        only={"method": ["Source", "SLR", "CoTTA"], "setting": "CCC-Medium"},
    ),
    "SLR and CoTTA on CCC-Medium, each without one of its components",
)
def without_a_component(runs: Runs) -> Table:
    return over_stream(runs, order=["Source", "SLR", "CoTTA"])


without_a_component.claim(
    "balance",
    "the cause is SLR's class balance: nearly without it, SLR ends below the source model",
    above("Source", "SLR-hardly balanced", x=LAST),
    group=OURS,
)
without_a_component.claim(
    "top-layers",
    "the cause is the top layers, which SLR does not adapt: if they adapt too, SLR ends "
    "below the source model",
    above("Source", "SLR-all layers", x=LAST),
    group=OURS,
)
without_a_component.claim(
    "teacher",
    "the cause is CoTTA's slow teacher: with one that follows ten times as fast, CoTTA "
    "ends below the source model",
    above("Source", "CoTTA-faster teacher", x=LAST),
    group=OURS,
)
without_a_component.claim(
    "restore",
    "the cause is the weights that CoTTA restores: without restoring, CoTTA ends below "
    "the source model",
    above("Source", "CoTTA-no restore", x=LAST),
    group=OURS,
)
