"""Tent's two phases: measurements of held-out images along its steps (thesis chapter 3, appendix B)."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from ...drawing import panels, pyplot, saved
from ...run_folder import EMBEDDINGS
from ..results.batch_means import severity
from ..results.runs import Run, grouped
from ..suites.cell import Cell
from .experiment import experiment
from .picture import scatter
from .table import FIRST, LAST, Rows, Table, over_seeds, tidy

Runs = list[Run]
CLUSTERS = {"silhouette": 100, "shift": 1, "accuracy": 100}  # factors


def measured(run: Run, observer: str, names: Sequence[str]) -> pd.DataFrame:
    """The columns of an observer, by the steps at which all of them are numbers."""
    columns = {name: run.column(f"{observer}_{name}") for name in names}
    return pd.DataFrame(columns, index=[row["step"] for row in run.rows]).dropna()


def clusters(run: Run) -> pd.DataFrame:
    """Silhouette x 100, shift, and accuracy in percent of the held-out images, by step."""
    return measured(run, "EmbeddingClusters", list(CLUSTERS)) * list(CLUSTERS.values())


def draw_embeddings(t: Table, cells: list[Cell], path: Path) -> Path:
    """Draw a t-SNE of the first run's held-out images at both steps, with the source's class means."""
    run = next(run for cell in cells if (run := Run.load(cell.folder)).finished)
    kept = np.load(run.folder / EMBEDDINGS)
    accuracies = clusters(run)["accuracy"]
    accuracies = accuracies[accuracies.index.isin(kept["steps"])]
    shown = {
        "early (best accuracy)": accuracies.idxmax(),
        "late (last measurement)": max(accuracies.index),
    }
    figure, axes = panels(2, size=(9, 4.4), framed=True)
    for ax, (title, step) in zip(axes, shown.items(), strict=True):
        features = kept["features"][kept["steps"].tolist().index(step)]
        points, means = embedded(features, kept["means"])
        colours = pyplot().get_cmap("tab20")(np.arange(len(means)) % 20)
        ax.scatter(*points.T, s=9, c=colours[kept["labels"]], alpha=0.8, lw=0)
        ax.scatter(*means.T, s=170, c=colours, marker="*", edgecolor="black", lw=0.8)
        text = f"{title}: step {step}, accuracy {accuracies[step]:.0f} %"
        ax.set_title(text, loc="left", fontsize=9)
        ax.set(xticks=[], yticks=[])
    return saved(figure, path)


def embedded(features: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """t-SNE of features [n,D] and class means [K,D] in one plane: [n,2] and [K,2]."""
    from sklearn.manifold import TSNE  # deferred: slow import

    both = np.concatenate([features, means])
    perplexity = min(30.0, (len(both) - 1) / 3)
    found = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(both)
    return found[: len(features)], found[len(features) :]


@experiment("flips/Fig3.1", picture=draw_embeddings)
def embeddings(runs: Runs) -> pd.DataFrame:
    """t-SNE of held-out images of 16 classes early and late in Tent on Gaussian noise 3"""
    rows: Rows = []
    notes = []
    for run in runs:
        found = clusters(run)
        # The table uses the steps of the figure.
        if (stored := run.folder / EMBEDDINGS).exists():
            with np.load(stored) as arrays:
                found = found[found.index.isin(arrays["steps"])]
        steps = found.index.min(), found["accuracy"].idxmax(), found.index.max()
        at = dict(zip(("start", "early", "late"), steps, strict=True))
        rows += [("", n, x, run.place, found.loc[s, n]) for n in CLUSTERS for x, s in at.items()]
        notes.append(
            f"{run.place}: start is step {at['start']}, early (best accuracy) {at['early']}, late "
            f"(last measurement) {at['late']}."
        )
    return tidy(rows, unit="silhouette x 100; shift distance; accuracy, %", notes=notes)


embeddings.says("early-gain").rises("accuracy", start="start", to="early")
embeddings.says("late-loss").falls("accuracy", start="start", to="late")
embeddings.says("late-shift").rises("shift", start="early", to="late")
embeddings.says("late-clusters").rises("silhouette", start="early", to="late")


def omission(run: Run, level: str) -> float:
    """The omission level of a run; 0: none."""
    return float(run.factors.get(level, 0))


def gains(runs: Runs, level: str, called: str, sizes: bool = False) -> pd.DataFrame:
    """Points of accuracy gained on held-out images by step, with one curve per level of `Omitting`.

    sizes: add notes on the number and the entropy of the images that each level retains.
    """
    rows: Rows = []
    notes = []
    for run in sorted(runs, key=lambda run: omission(run, level)):
        found = 100 * measured(run, "HoldOut", ["accuracy"])["accuracy"]
        curve, seed = f"{called} {omission(run, level):g}", f"seed {run.seed}"
        rows += [("", curve, step, seed, v - found.iloc[0]) for step, v in found.items()]
        if sizes and (facts := run.provenance.get("omitting")):
            notes.append(
                f"{curve}, {seed}: {100 * facts['left'] / facts['pool']:.0f} % of the images "
                f"left, of entropy {facts['entropy_left']:.2f}."
            )
    unit = "gain of accuracy on images held out, points"
    return tidy(rows, unit=unit, axis="step", notes=notes)


without_top_k = experiment("flips/Fig3.2")(gains, level="top", called="top-k =")
without_top_k.says("all").positive("top-k = 0")
# Printed shares of a gain, less ten points.
for id, k, share in (("without-right", 1, 0.85), ("without-ten", 10, 0.64)):
    size = {"share": share - 0.1}
    without_top_k.says(id, at_full=size).above(f"top-k = {k}", "top-k = 0", x=LAST, share=0)
    without_top_k.says(f"{id}-half").above(f"top-k = {k}", "top-k = 0", x=LAST, share=0.5)
ordered = without_top_k.says("ordered")
for less, more in ((0, 1), (1, 10), (10, 50)):
    ordered.above(f"top-k = {less}", f"top-k = {more}", x=LAST)


@experiment("flips/Fig3.4", picture=scatter(("accuracy", "silhouette"), ("accuracy", "shift")))
def phases(runs: Runs) -> pd.DataFrame:
    """Tent's two phases: change of silhouette and shift distance against that of accuracy"""
    rows: Rows = []
    for (setting, stream), same in grouped(runs, lambda run: (run.setting, run.stream)).items():
        found = pd.concat(map(clusters, same)).groupby(level=0).mean()
        # Accuracy rises, then falls.
        steps = found.index.min(), found["accuracy"].idxmax(), found.index.max()
        for phase, (first, last) in enumerate(pairwise(steps), 1):
            if first != last:
                changes = (found.loc[last] - found.loc[first]).items()
                rows += [(f"phase {phase}", n, setting, stream, c) for n, c in changes]
    return tidy(rows, unit="change of silhouette x 100, of shift distance, of accuracy in points")


phases.says("clusters-rise").positive("silhouette", x=None)
phases.says("nearly-always", at_full={"level": 0.98 - 0.1}).share_above("silhouette", level=0.5)
phases.says("rise-together").rank_correlation("silhouette", "accuracy", "phase 1")
phases.says("fall-with-shift").rank_correlation("shift", "accuracy", "phase 2", sign=-1)
phases.says("shift-grows").positive("shift", "phase 2", x=None)
phases.says("shift-grows-more").above("shift", "shift", "phase 2", than_panel="phase 1")


SILHOUETTE, FLIPS = "silhouette x 100 at step 0", "label flips of 1,000"
ACCURACY = "accuracy"
PAIRS = ((SILHOUETTE, FLIPS), (ACCURACY, FLIPS), (ACCURACY, SILHOUETTE))


@experiment("flips/Fig3.5", picture=scatter(*PAIRS))
def starts(runs: Runs) -> pd.DataFrame:
    """label flips after RDumb against silhouette at the start, and both against accuracy"""
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


starts.says("clusters-flips").rank_correlation(SILHOUETTE, FLIPS, sign=-1)
starts.says("accuracy-flips").rank_correlation(ACCURACY, FLIPS, sign=-1)
starts.says("accuracy-clusters").rank_correlation(ACCURACY, SILHOUETTE)


# The mixture of Gaussians of figure B.1; its numbers are not stated in the paper.
CLASSES, EACH, SPREAD, SHIFT = 5, 80, 5.0, 3.0
ITERATIONS, RATE = 100, 0.05
START = {"smart": (0.0, RATE), "shifted": (SHIFT, RATE), "points at rest": (SHIFT, 0.0)}
MIXTURES = range(16)  # seeds


@experiment("flips/FigB.1")
def toy_mixture(scale: str) -> pd.DataFrame:
    """expectation maximisation with points that ascend the likelihood: silhouette and accuracy of the
    clusters"""
    from ...callbacks.functional.clusters import silhouette  # deferred: imports torch

    rows: Rows = []
    for seed in MIXTURES:
        points, labels, means = mixture(CLASSES, EACH, SPREAD, np.random.default_rng(seed))
        for name, (shift, rate) in START.items():
            several = maximised(points, means + shift, ITERATIONS, rate)
            for n, (moved, centroids) in enumerate(several):
                if n in (0, 1, 2, 5, 10, 20, 50, 100):
                    found, place = responsibilities(moved, centroids).argmax(1), f"seed {seed}"
                    accuracy = 100 * float((found == labels).mean())
                    rows.append(("accuracy", name, n, place, accuracy))
                    rows.append(("silhouette", name, n, place, 100 * silhouette(moved, found)))
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


toy_mixture.says("clusters-part").rises("smart", "silhouette")
toy_mixture.says("shifted-part").rises("shifted", "silhouette")
toy_mixture.says("shifted-rises").rises("shifted", "accuracy", start=0, to=5)
toy_mixture.says("shifted-falls").peak("falls", "shifted", "accuracy")
toy_mixture.says("rest-stays").rises("points at rest", "accuracy", start=5, by=-1)
toy_mixture.says("smart-stays").rises("smart", "accuracy", by=-5)


LEFT = "images left, %"


@experiment("flips/FigB.4")
def omitted(runs: Runs) -> pd.DataFrame:
    """images whose label is in the model's top k: their share and their entropy"""
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
        place = omission(run, "top"), f"seed {run.seed}"
        rows += [("", curve, *place, own) for curve, own in values.items() if own is not None]
    return tidy(rows, unit="share, %; entropy, nats", axis="k")


omitted.says("right-is-certain").below("entropy of those left out", "entropy of all", x=1)
less_certain = omitted.says("less-certain")
for k, more in ((1, 5), (5, 50)):
    less_certain.rises("entropy of those left out", start=k, to=more)


without_certain = experiment("flips/FigB.5")(
    gains, level="level", called="entropy above", sizes=True
)
# At the two lowest levels above 0, and without omission against the highest level.
without_certain.says("barely-hurting").above(slice(1, 3), FIRST, x=LAST, share=0.5)
without_certain.says("less-at-the-end").above(FIRST, LAST, x=LAST)


@experiment("flips/FigB.6")
def over_steps(runs: Runs) -> pd.DataFrame:
    """silhouette, shift distance and accuracy along Tent's steps, by severity"""
    measures = {run: clusters(run) for run in sorted(runs, key=severity)}
    rows = [
        (name, f"severity {severity(run)}", step, run.stream, value)
        for name in CLUSTERS
        for run, found in measures.items()
        for step, value in found[name].items()
    ]
    unit = "silhouette x 100; shift distance; accuracy of held images, %"
    return tidy(over_seeds(rows), unit=unit, axis="step")


over_steps.says("clusters-rise").rises(panel="silhouette")
over_steps.says("accuracy-rises").peak("rises", panel="accuracy")
over_steps.says("accuracy-falls").peak("falls", panel="accuracy")
over_steps.says("shift-grows").peak("grows", panel="shift", of="accuracy")
