"""Tent's two phases: measurements of held-out images along its steps (thesis chapter 3, appendix B)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from .... import HoldfastError
from ....drawing import panels
from ....run_folder import EMBEDDINGS
from ...results.batch_means import severity
from ...results.runs import Run, grouped
from ...suites.cell import Cell
from ..engine.claims import (
    FIGURE,
    OURS,
    THRESHOLD,
    AtFull,
    Check,
    above,
    below,
    falls,
    falls_from_peak,
    grows_after_peak_of,
    positive,
    rank_correlation,
    rises,
    rises_to_peak,
    share_above,
)
from ..engine.experiment import table
from ..engine.picture import draw, scatter
from ..engine.sources import EMBEDDED, FULL, Simulation, Suite
from ..engine.table import FIRST, LAST, Positions, Rows, Table, over_seeds, tidy

Runs = list[Run]
CLUSTERS = {"silhouette": 100, "shift": 1, "accuracy": 100}  # factors


def measured(run: Run, observer: str, names: Sequence[str]) -> pd.DataFrame:
    """The columns of an observer, by the steps at which all of them are numbers."""
    columns = {name: run.column(f"{observer}_{name}") for name in names}
    return pd.DataFrame(columns, index=[row["step"] for row in run.rows]).dropna()


def clusters(run: Run) -> pd.DataFrame:
    """Silhouette x 100, shift, and accuracy in percent of the held-out images, by step."""
    return measured(run, "EmbeddingClusters", list(CLUSTERS)) * list(CLUSTERS.values())


def draw_embeddings(t: Table, cells: Sequence[Cell], path: Path) -> Path:
    """Draw a t-SNE of the first run's held-out images at both steps, with the source's class means."""
    from matplotlib import colormaps  # deferred: slow import

    runs = map(Run.load, (cell.folder for cell in cells))
    if (run := next((run for run in runs if run.finished), None)) is None:
        raise HoldfastError(
            "The figure shows features that are not committed. Run `holdfast paper flips/Fig3.1` first."
        )
    stored = np.load(run.folder / EMBEDDINGS)
    accuracies = clusters(run)["accuracy"]
    accuracies = accuracies[accuracies.index.isin(stored["steps"])]
    shown = {
        "early (best accuracy)": accuracies.idxmax(),
        "late (last measurement)": max(accuracies.index),
    }
    with panels(path, 2, height=3.2, framed=True) as (_, axes):
        for ax, (title, step) in zip(axes, shown.items(), strict=True):
            features = stored["features"][stored["steps"].tolist().index(step)]
            points, means = embedded(features, stored["means"])
            colours = colormaps["tab20"](np.arange(len(means)) % 20)
            ax.scatter(*points.T, s=6, c=colours[stored["labels"]], alpha=0.8, lw=0)
            ax.scatter(*means.T, s=90, c=colours, marker="*", edgecolor="black", lw=0.6)
            text = f"{title}: step {step}, accuracy {accuracies[step]:.0f} %"
            ax.set(title=text, xticks=[], yticks=[])
    return path


def embedded(features: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """t-SNE of features [n,D] and class means [K,D] in one plane: [n,2] and [K,2]."""
    from sklearn.manifold import TSNE  # deferred: slow import

    both = np.concatenate([features, means])
    perplexity = min(30.0, (len(both) - 1) / 3)
    plane = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(both)
    return plane[: len(features)], plane[len(features) :]


@table(
    "flips/Fig3.1",
    Suite("flips/clusters", only={"stream": ["gaussian_noise 3", "IN-C, gaussian_noise 3"]}),
    "t-SNE of held-out images of 16 classes early and late in Tent on Gaussian noise 3",
    picture=draw_embeddings,
)
def embeddings(runs: Runs) -> Table:
    rows: Rows = []
    notes = []
    for run in runs:
        measures = clusters(run)
        # The table uses the steps of the figure.
        if (stored := run.folder / EMBEDDINGS).exists():
            with np.load(stored) as arrays:
                measures = measures[measures.index.isin(arrays["steps"])]
        steps = measures.index.min(), measures["accuracy"].idxmax(), measures.index.max()
        at = dict(zip(("start", "early", "late"), steps, strict=True))
        for name in CLUSTERS:
            rows += [("", name, x, run.place, measures.loc[s, name]) for x, s in at.items()]
        notes.append(
            f"{run.place}: start is step {at['start']}, early (best accuracy) {at['early']}, late "
            f"(last measurement) {at['late']}."
        )
    return tidy(rows, unit="silhouette x 100; shift distance; accuracy, %", notes=notes)


embeddings.claim(
    "early-gain",
    "early in the stream Tent has raised the accuracy",
    rises("accuracy", first="start", last="early"),
    quote="“EM improves the accuracy of pretrained classifiers by embedding the input test data"
    " near mean embeddings of classes from the training data”, caption",
)
embeddings.claim(
    "late-loss",
    "late in the stream Tent has lost this gain and is below the start",
    falls("accuracy", first="start", last="late"),
    quote="“Eventually, after many iterations (right), EM fails”, caption",
)
embeddings.claim(
    "late-shift",
    "late in the stream the images lie farther from the classes' means than early",
    rises("shift", first="early", last="late"),
    quote="“it embeds input test data far from where training data is embedded”, caption",
)
embeddings.claim(
    "late-clusters",
    "late in the stream the images are better clustered than early",
    rises("silhouette", first="early", last="late"),
    quote="“a positive change in Silhouette score, indicative of enhanced clustering, is "
    "observed in both phases”, section 3.3",
)


def omission(run: Run, level: str) -> float:
    """The omission level of a run; 0: none."""
    return float(run.factors.get(level, 0))


def gains(runs: Runs, level: str, called: str, sizes: bool = False) -> Table:
    """Points of accuracy gained on held-out images by step, with one curve per level of `Omitting`.

    sizes: add notes on the number and the entropy of the images that each level retains.
    """
    rows: Rows = []
    notes = []
    for run in sorted(runs, key=lambda run: omission(run, level)):
        accuracy = 100 * measured(run, "HoldOut", ["accuracy"])["accuracy"]
        curve, seed = f"{called} {omission(run, level):g}", f"seed {run.seed}"
        rows += [("", curve, step, seed, v - accuracy.iloc[0]) for step, v in accuracy.items()]
        if sizes and (facts := run.provenance.get("omitting")):
            notes.append(
                f"{curve}, {seed}: {100 * facts['left'] / facts['pool']:.0f} % of the images "
                f"left, of entropy {facts['entropy_left']:.2f}."
            )
    unit = "gain of accuracy on images held out, points"
    return tidy(rows, unit=unit, axis="step", notes=notes)


@table(
    "flips/Fig3.2",
    Suite("flips/omission", scales=[EMBEDDED, FULL], only={"setting": "top"}),
    "Tent without the images whose label is in the model's top k: accuracy gained on others",
)
def without_top_k(runs: Runs) -> Table:
    return gains(runs, level="top", called="top-k =")


def share_of_gain(k: int, share: float) -> Check:
    """The gain at the end with top-k omission is above this share of that without."""
    return above(f"top-k = {k}", "top-k = 0", x=LAST, share=share)


# Printed shares of a gain, less ten points.
without_top_k.claim(
    "all",
    "with all images Tent gains accuracy",
    positive("top-k = 0", x=LAST),
    quote="“gains of 10.50% and 12.38%, respectively”, section 3.2",
)
without_top_k.claim(
    "without-right",
    "without the images that it classifies correctly (k = 1) Tent gains accuracy, 85 % as"
    " much as with all",
    share_of_gain(1, share=AtFull(0.85 - 0.1)),
    quote="“produces an increase in accuracy comparable to not removing any images, with gains "
    "of 10.50% and 12.38%, respectively”, section 3.2",
    direction="without the images that it classifies correctly (k = 1) Tent gains accuracy",
)
without_top_k.claim(
    "without-right-half",
    "without the images that it classifies correctly (k = 1) Tent gains more than half as"
    " much as with all",
    share_of_gain(1, share=0.5),
    group=THRESHOLD,
    quote="“produces an increase in accuracy comparable to not removing any images”, section 3.2",
)
without_top_k.claim(
    "without-ten",
    "without the images whose label is in the top 10 Tent gains accuracy, 64 % as much as with all",
    share_of_gain(10, share=AtFull(0.64 - 0.1)),
    quote="“the model still registers a notable accuracy improvement of 7.88%”, section 3.2",
    direction="without the images whose label is in the top 10 Tent gains accuracy",
)
without_top_k.claim(
    "without-ten-half",
    "without the images whose label is in the top 10 Tent gains more than half as much as with all",
    share_of_gain(10, share=0.5),
    group=THRESHOLD,
    quote="“the persistence of this trend”, section 3.2",
)
without_top_k.claim(
    "ordered",
    "the gain decreases with the number of excluded images (k = 0, 1, 10, 50)",
    above("top-k = 0", "top-k = 1", x=LAST),
    above("top-k = 1", "top-k = 10", x=LAST),
    above("top-k = 10", "top-k = 50", x=LAST),
    group=FIGURE,
    quote="Figure 3.2; the text prints 12.38, 10.50 and 7.88",
)


@table(
    "flips/Fig3.4",
    Suite("flips/phases", only={"override": ""}),
    "Tent's two phases: change of silhouette and shift distance against that of accuracy",
    picture=scatter(("accuracy", "silhouette"), ("accuracy", "shift"), label="change of {}".format),
    counts="streams",
)
def phases(runs: Runs) -> Table:
    rows: Rows = []
    for (setting, stream), same in grouped(runs, lambda run: (run.setting, run.stream)).items():
        measures = pd.concat(map(clusters, same)).groupby(level=0).mean()
        # Accuracy rises, then falls.
        steps = measures.index.min(), measures["accuracy"].idxmax(), measures.index.max()
        for phase, (first, last) in enumerate(pairwise(steps), 1):
            if first != last:
                changes = (measures.loc[last] - measures.loc[first]).items()
                rows += [(f"phase {phase}", n, setting, stream, c) for n, c in changes]
    return tidy(rows, unit="change of silhouette x 100, of shift distance, of accuracy in points")


phases.claim(
    "clusters-rise",
    "the silhouette rises in phase 1 and in phase 2",
    positive("silhouette"),
    quote="“In both phases, and across almost all datasets, the Silhouette score of embeddings "
    "increases”, caption",
)
phases.claim(
    "nearly-always",
    "the silhouette rises in most phases of all streams, in more than 98 %",
    share_above("silhouette", level=AtFull(0.98 - 0.1, otherwise=0.5)),
    quote="“a positive change in Silhouette score, indicative of enhanced clustering, is "
    "observed in both phases for more than 98% of cases”, section 3.3",
    direction="the silhouette rises in most phases of all streams",
)
phases.claim(
    "rise-together",
    "in phase 1 a larger rise in silhouette goes with a larger rise in accuracy (rank correlation)",
    rank_correlation("silhouette", "accuracy", panel="phase 1"),
    quote="“during the initial phase, a positive correlation exists between changes in "
    "Silhouette score and accuracy”, section 3.3",
)
phases.claim(
    "fall-with-shift",
    "in phase 2 a larger growth of the shift goes with a larger fall in accuracy (rank "
    "correlation)",
    rank_correlation("shift", "accuracy", panel="phase 2", negative=True),
    quote="“a substantial negative correlation emerges between changes in Shift distance and "
    "accuracy”, section 3.3",
)
phases.claim(
    "shift-grows",
    "the shift grows in phase 2",
    positive("shift", panel="phase 2"),
    quote="“they notably grow larger in the second phase”, section 3.3",
)
phases.claim(
    "shift-grows-more",
    "the shift grows more in phase 2 than in phase 1",
    above("shift", "shift", panel="phase 2", than_panel="phase 1"),
    quote="“Shift distances minimally change (and sometimes diminish, signifying closer "
    "proximity to training data embeddings) in the first phase, they notably grow larger "
    "in the second phase”, section 3.3",
)


SILHOUETTE, FLIPS = "silhouette x 100 at step 0", "label flips of 1,000"
ACCURACY = "accuracy"
PAIRS = ((SILHOUETTE, FLIPS), (ACCURACY, FLIPS), (ACCURACY, SILHOUETTE))


@table(
    "flips/Fig3.5",
    Suite("flips/silhouette", scales=[EMBEDDED, FULL]),
    "label flips after RDumb against silhouette at the start, and both against accuracy",
    picture=scatter(*PAIRS),
    counts="streams",
)
def starts(runs: Runs) -> Table:
    rows: Rows = []
    for run in (run for run in runs if run.adapts):
        name = "WeightedFlips_unweighted"
        recorded = run.column(name)[~np.isnan(run.column(name))]
        flips = recorded[0] if len(recorded) else run.summary.get(name)
        source = None if run.source is None else run.source.accuracy
        if flips is not None and source is not None:
            silhouette = clusters(run).loc[0, "silhouette"]
            values = {SILHOUETTE: silhouette, FLIPS: flips, ACCURACY: 100 * source}
            rows += [("", name, run.setting, run.stream, value) for name, value in values.items()]
    return tidy(over_seeds(rows), unit="by the row; accuracy, %")


starts.claim(
    "clusters-flips",
    "the better clustered a data set is at the start, the fewer labels flip (rank correlation)",
    rank_correlation(SILHOUETTE, FLIPS, negative=True),
    quote="“Label flips are strongly correlated with Silhouette score”, caption",
)
starts.claim(
    "accuracy-flips",
    "the higher the accuracy, the fewer labels flip (rank correlation)",
    rank_correlation(ACCURACY, FLIPS, negative=True),
    quote="“We find a strong correlation between accuracy and label flips”, section 3.4.1",
)
starts.claim(
    "accuracy-clusters",
    "the higher the accuracy, the better clustered a data set is (rank correlation)",
    rank_correlation(ACCURACY, SILHOUETTE),
    quote="“the higher the accuracy, the better clustered the input data”, section 3.4.1",
)


# The mixture of Gaussians of figure B.1; its numbers are not stated in the paper.
CLASSES, EACH, SPREAD, SHIFT = 5, 80, 5.0, 3.0
ITERATIONS, RATE = 100, 0.05
START = {"smart": (0.0, RATE), "shifted": (SHIFT, RATE), "points at rest": (SHIFT, 0.0)}
MIXTURES = range(16)  # seeds


@table(
    "flips/FigB.1",
    Simulation(),
    "expectation maximisation with points that ascend the likelihood: silhouette and accuracy of the "
    "clusters",
)
def toy_mixture(scale: str) -> Table:
    from ....callbacks.functional.clusters import silhouette  # deferred: imports torch

    rows: Rows = []
    for seed in MIXTURES:
        points, labels, means = mixture(CLASSES, EACH, SPREAD, np.random.default_rng(seed))
        for name, (shift, rate) in START.items():
            iterations = maximised(points, means + shift, ITERATIONS, rate)
            for n, (moved, centroids) in enumerate(iterations):
                if n in (0, 1, 2, 5, 10, 20, 50, 100):
                    clusters, run = responsibilities(moved, centroids).argmax(1), f"seed {seed}"
                    accuracy = 100 * float((clusters == labels).mean())
                    rows.append(("accuracy", name, n, run, accuracy))
                    rows.append(("silhouette", name, n, run, 100 * silhouette(moved, clusters)))
    return tidy(rows, unit="accuracy, %; silhouette x 100", axis="iteration", log=True)


def mixture(
    classes: int, each: int, spread: float, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points [n,2] of Gaussians with identity covariance, their classes [n], and the means [K,2].

    spread: the standard deviation of the means around 0.
    """
    means = random.normal(0, spread, (classes, 2))
    labels = np.repeat(np.arange(classes), each)
    return means[labels] + random.standard_normal((len(labels), 2)), labels, means


def responsibilities(points: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """The probability [n,K] of each cluster, with equal weights and identity covariance."""
    from scipy.special import logsumexp  # deferred: slow import

    energy = -0.5 * ((points[:, None] - centroids[None]) ** 2).sum(-1)
    return np.exp(energy - logsumexp(energy, axis=1, keepdims=True))


def maximised(
    points: np.ndarray, centroids: np.ndarray, iterations: int, rate: float
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Points [n,2] and centroids [K,2] of expectation maximisation, at the start and after each iteration.

    The points also ascend the likelihood after each iteration, at this rate; 0: they are fixed, as usual.
    """
    yield points, centroids
    for _ in range(iterations):
        shares = responsibilities(points, centroids)
        centroids = shares.T @ points / shares.sum(0)[:, None]
        points = points + rate * (responsibilities(points, centroids) @ centroids - points)
        yield points, centroids


toy_mixture.claim(
    "clusters-part",
    "from smart centroids the clusters separate: the silhouette rises",
    rises("smart", panel="silhouette"),
    quote="“well-separated clusters, as reflected by the increasing Silhouette score”, appendix"
    " B.1",
)
toy_mixture.claim(
    "shifted-part",
    "from shifted centroids the clusters separate, too: the silhouette rises",
    rises("shifted", panel="silhouette"),
    group=OURS,
)
toy_mixture.claim(
    "shifted-rises",
    "from shifted centroids the accuracy first rises",
    rises("shifted", panel="accuracy", first=0, last=5),
    group=FIGURE,
    quote="Figure B.1, middle",
)
toy_mixture.claim(
    "shifted-falls",
    "from shifted centroids the accuracy falls again after its highest value",
    falls_from_peak("shifted", panel="accuracy"),
    quote="“start with good clustering but then converge to wrong solutions where they mix "
    "points with different classes”, caption",
)
toy_mixture.claim(
    "rest-stays",
    "with fixed points the accuracy falls by less than a point",
    rises("points at rest", panel="accuracy", first=5, by=-1),
    group=THRESHOLD,
    quote="read from Figure B.1, bottom",
)
toy_mixture.claim(
    "smart-stays",
    "from smart centroids the points move to the right clusters and stay there, with less"
    " than 5 points lost",
    rises("smart", panel="accuracy", by=-5),
    group=THRESHOLD,
    quote="“the points converge to the ‘right’ clusters based on the original cluster centers”,"
    " caption",
)


LEFT = "images left, %"


def draw_omitted(t: Table, cells: Sequence[Cell], path: Path) -> Path:
    """Draw the share of images and the entropies, which have different units, in a panel each."""
    panel = t.frame["curve"].map(lambda curve: "share" if curve == LEFT else "entropy")
    return draw(replace(t, frame=t.frame.assign(panel=panel)), path)


@table(
    "flips/FigB.4",
    Suite("flips/omission", scales=[EMBEDDED, FULL], only={"setting": "top"}),
    "images whose label is in the model's top k: their share and their entropy",
    picture=draw_omitted,
)
def omitted(runs: Runs) -> Table:
    rows: Rows = []
    for run in (run for run in runs if run.provenance.get("omitting")):
        facts = run.provenance["omitting"]
        left, out = facts["entropy_left"], facts["entropy_omitted"]
        share = facts["left"] / facts["pool"]
        values = {
            LEFT: 100 * share,
            "entropy of those left": left,
            "entropy of those left out": out,
            "entropy of all": share * left + (1 - share) * (out or 0),
        }
        k, seed = omission(run, "top"), f"seed {run.seed}"
        rows += [("", curve, k, seed, v) for curve, v in values.items() if v is not None]
    return tidy(rows, unit="share, %; entropy, nats", axis="k")


LEFT_OUT = "entropy of those left out"
omitted.claim(
    "right-is-certain",
    "the model is more certain of the images that it classifies correctly (k = 1) than of"
    " all images",
    below(LEFT_OUT, "entropy of all", x=1),
    quote="“have an average entropy of 1.85, markedly lower than the original dataset’s average"
    " entropy of 2.84”, section 3.2",
)
omitted.claim(
    "less-certain",
    "the larger k is, the more uncertain the model is of the images with their label in its top k",
    rises(LEFT_OUT, first=1, last=5),
    rises(LEFT_OUT, first=5, last=50),
    group=FIGURE,
    quote="Figure B.4, left",
)


@table(
    "flips/FigB.5",
    Suite("flips/omission", scales=[EMBEDDED, FULL], only={"stream": ["top 0", "entropy *"]}),
    "Tent without the images of which the model is certain: accuracy gained on others",
)
def without_certain(runs: Runs) -> Table:
    return gains(runs, level="level", called="entropy above", sizes=True)


# At the two lowest levels above 0, and without omission against the highest level.
without_certain.claim(
    "barely-hurting",
    "without the images of lowest entropy Tent gains more than half as much as with all",
    above(Positions(2, 3), FIRST, x=LAST, share=0.5),
    group=THRESHOLD,
    quote="“it’s possible to remove low entropy samples while barely hurting performance”, caption",
)
without_certain.claim(
    "less-at-the-end",
    "it gains less if images up to the highest level are omitted than with all images",
    above(FIRST, LAST, x=LAST),
    group=FIGURE,
    quote="Figure B.5, left",
)


@table(
    "flips/FigB.6",
    Suite("flips/phases", scales=[EMBEDDED, FULL], only={"override": ""}),
    "silhouette, shift distance and accuracy along Tent's steps, by severity",
    counts="streams",
)
def over_steps(runs: Runs) -> Table:
    by_run = {run: clusters(run) for run in sorted(runs, key=severity)}
    rows = [
        (name, f"severity {severity(run)}", step, run.stream, value)
        for name in CLUSTERS
        for run, measures in by_run.items()
        for step, value in measures[name].items()
    ]
    unit = "silhouette x 100; shift distance; accuracy of held images, %"
    return tidy(over_seeds(rows), unit=unit, axis="step")


over_steps.claim(
    "clusters-rise",
    "the silhouette rises from the first step to the last at every severity",
    rises(panel="silhouette"),
    group=FIGURE,
    quote="Figure B.6",
)
over_steps.claim(
    "accuracy-rises",
    "accuracy rises to its best step at every severity",
    rises_to_peak(panel="accuracy"),
    quote="“At first, EM causes the model to increase in accuracy, which we refer to as the "
    "first phase”, section 3.3",
)
over_steps.claim(
    "accuracy-falls",
    "after its best step the accuracy falls at every severity",
    falls_from_peak(panel="accuracy"),
    quote="“followed by a decrease in accuracy, which we refer to as the second phase”, section"
    " 3.3",
)
over_steps.claim(
    "shift-grows",
    "where accuracy falls, the shift grows",
    grows_after_peak_of("accuracy", panel="shift"),
    quote="“the embeddings drift progressively further from the training distribution”, section"
    " 3.3",
)
