"""Tent's two phases: measurements of held-out images along its steps (thesis chapter 3, appendix B)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...drawing import panels, pyplot, saved
from ...run_folder import EMBEDDINGS
from ..results.batch_means import severity
from ..results.runs import Run
from ..suites.cell import Cell
from .claims import rank_correlation
from .table import Table, tidy

CLUSTERS = ("silhouette", "shift", "accuracy")
PHASES = ("phase 1", "phase 2")
STARTS = SILHOUETTE, FLIPS, ACCURACY = (
    "silhouette x 100 at step 0",
    "label flips of 1,000",
    "accuracy",
)
PAIRS = ((SILHOUETTE, FLIPS), (ACCURACY, FLIPS), (ACCURACY, SILHOUETTE))
LEFT = "images left, %"
ENTROPIES = {
    "entropy of those left": "entropy_left",
    "entropy of those left out": "entropy_omitted",
    "entropy of all": "entropy",
}
CLASSES, EACH, SPREAD, SHIFT = 5, 80, 5.0, 3.0  # of the mixture; not stated in the paper
ITERATIONS, RATE = 100, 0.05
START = {"smart": (0.0, RATE), "shifted": (SHIFT, RATE), "points at rest": (SHIFT, 0.0)}
MIXTURES = tuple(range(16))  # seeds
Runs = list[Run]
Rows = list[tuple[Any, ...]]
Measured = dict[int, dict[str, float]]  # by step


def measured(run: Run, observer: str, *names: str) -> Measured:
    """The columns of an observer at the steps at which all of them are numbers."""
    found: Measured = {}
    for row in run.rows:
        values = {name: row.get(f"{observer}_{name}") for name in names}
        if None not in values.values():
            found[row["step"]] = values  # type: ignore[assignment]
    return found


def clusters(run: Run) -> Measured:
    """Silhouette x 100, shift, and accuracy in percent of the held-out images."""
    factors = {"silhouette": 100, "shift": 1, "accuracy": 100}
    return {
        step: {name: factor * values[name] for name, factor in factors.items()}
        for step, values in measured(run, "EmbeddingClusters", *CLUSTERS).items()
    }


def best(steps: Measured) -> int:
    """The first step with the highest accuracy."""
    return max(steps, key=lambda step: (steps[step]["accuracy"], -step))


def by_step(runs: Runs) -> pd.DataFrame:
    """The measures by step, with one curve per severity (Figure B.6)."""
    rows: Rows = []
    runs = sorted(runs, key=severity)
    for name in CLUSTERS:
        for run in runs:
            curve = f"severity {severity(run)}"
            own = clusters(run).items()
            rows += [(name, curve, step, run.place, values[name]) for step, values in own]
    unit = "silhouette x 100; shift distance; accuracy of held images, %"
    return tidy(rows, unit=unit, axis="step")


def at_ends(runs: Runs) -> pd.DataFrame:
    """The measures at the start, at the highest accuracy, and at the end (Figure 3.1)."""
    rows, notes = [], []
    for run in runs:
        steps = clusters(run)
        # The table uses the steps of the figure.
        if (kept := run.folder / EMBEDDINGS).exists():
            with np.load(kept) as arrays:
                steps = {step: steps[step] for step in arrays["steps"].tolist() if step in steps}
        at = {"start": min(steps), "early": best(steps), "late": max(steps)}
        for name in CLUSTERS:
            rows += [("", name, x, run.place, steps[step][name]) for x, step in at.items()]
        notes.append(
            f"{run.place}: start is step {at['start']}, early (best accuracy) {at['early']}, late "
            f"(last measurement) {at['late']}."
        )
    return tidy(rows, unit="silhouette x 100; shift distance; accuracy, %", notes=notes)


def draw_embeddings(t: Table, cells: list[Cell], path: Path) -> Path:
    """Draw a t-SNE of the first run's held-out images at both steps, with the source's class means."""
    run = next(run for cell in cells if (run := Run.load(cell.folder)).finished)
    kept = np.load(run.folder / EMBEDDINGS)
    there = {step: values for step, values in clusters(run).items() if step in kept["steps"]}
    shown = {"early (best accuracy)": best(there), "late (last measurement)": max(there)}
    figure, axes = panels(2, size=(9, 4.4), framed=True)
    for ax, (title, step) in zip(axes, shown.items(), strict=True):
        features = kept["features"][kept["steps"].tolist().index(step)]
        points, means = embedded(features, kept["means"])
        colours = pyplot().get_cmap("tab20")(np.arange(len(means)) % 20)
        ax.scatter(*points.T, s=9, c=colours[kept["labels"]], alpha=0.8, lw=0)
        ax.scatter(*means.T, s=170, c=colours, marker="*", edgecolor="black", lw=0.8)
        accuracy = there[step]["accuracy"]
        ax.set_title(f"{title}: step {step}, accuracy {accuracy:.0f} %", loc="left", fontsize=9)
        ax.set_xticks([])
        ax.set_yticks([])
    return saved(figure, path)


def embedded(features: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """t-SNE of features [n,D] and class means [K,D] in one plane: [n,2] and [K,2]."""
    from sklearn.manifold import TSNE  # deferred: slow import

    both = np.concatenate([features, means])
    perplexity = min(30.0, (len(both) - 1) / 3)
    found = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(both)
    return found[: len(features)], found[len(features) :]


def changes(runs: Runs) -> pd.DataFrame:
    """The change of each measure before and after the highest accuracy (Figure 3.4)."""
    rows: Rows = []
    for name in CLUSTERS:
        for phase in PHASES:
            for run in runs:
                steps = clusters(run)
                top = best(steps)
                first, last = (min(steps), top) if phase == PHASES[0] else (top, max(steps))
                # Accuracy rises, or falls.
                if first != last:
                    change = steps[last][name] - steps[first][name]
                    rows.append((phase, name, run.setting, run.place, change))
    rises = [row[-1] > 0 for row in rows if row[1] == "silhouette"]
    notes = []
    if rises:
        share = 100 * sum(rises) / len(rises)
        notes.append(f"The silhouette rises in {share:.0f} % of {len(rises)} phases.")
    t = Table(tidy(rows))
    for phase in PHASES:
        notes += [correlated(t, name, "accuracy", phase) for name in ("silhouette", "shift")]
    unit = "change of silhouette x 100, of shift distance, of accuracy in points"
    return tidy(rows, unit=unit, notes=notes)


def correlated(t: Table, one: str, other: str, panel: str = "") -> str:
    """The rank correlation of two curves as a sentence."""
    (part,) = rank_correlation(t, one, other, panel)
    names = f"{one} with {other}" + (f" in {panel}" if panel else "")
    if part.found is None:
        return f"Rank correlation of {names}: too few runs."
    mean, low, high, n = part.found
    return f"Rank correlation of {names}: {mean:+.2f} [{low:+.2f}, {high:+.2f}], {n} runs."


def at_the_start(runs: Runs) -> pd.DataFrame:
    """Silhouette before the first step, flips after the last, and source accuracy (Figure 3.5)."""
    rows: Rows = []
    for run in (run for run in runs if run.adapts):
        flips = [v for row in run.rows if (v := row.get("WeightedFlips_unweighted")) is not None]
        flips = flips or [run.summary.get("WeightedFlips_unweighted")]
        source = None if run.source is None else run.source.accuracy
        if flips[0] is not None and source is not None:
            values = clusters(run)[0]["silhouette"], flips[0], 100 * source
            own = zip(STARTS, values, strict=True)
            rows += [("", name, run.setting, run.place, value) for name, value in own]
    rows.sort(key=lambda row: STARTS.index(row[1]))
    notes = [correlated(Table(tidy(rows)), *pair) for pair in PAIRS]
    return tidy(rows, unit="by the row; accuracy, %", notes=notes)


def level(run: Run, name: str) -> float:
    """The omission level of a run; 0: none."""
    return float(run.factors.get(name, 0))


def gains(runs: Runs, name: str, called: str, sizes: bool = False) -> pd.DataFrame:
    """Points of accuracy gained on held-out images by step, with one curve per level of `Omitting`.

    sizes: add notes on the number and the entropy of the images that each level retains.
    """
    rows, notes = [], []
    for run in sorted(runs, key=lambda run: level(run, name)):
        steps = {n: v["accuracy"] for n, v in measured(run, "HoldOut", "accuracy").items()}
        curve, seed = f"{called} {level(run, name):g}", f"seed {run.seed}"
        start = steps[min(steps)]
        rows += [("", curve, n, seed, 100 * (own - start)) for n, own in steps.items()]
        if sizes and (facts := run.provenance.get("omitting")):
            notes.append(
                f"{curve}, {seed}: {100 * facts['left'] / facts['pool']:.0f} % of the images "
                f"left, of entropy {facts['entropy_left']:.2f}."
            )
    unit = "gain of accuracy on images held out, points"
    return tidy(rows, unit=unit, axis="step", notes=notes)


def sizes(runs: Runs, name: str, axis: str) -> pd.DataFrame:
    """The share of retained images, and mean entropies in nats, by level of `Omitting`."""
    rows: Rows = []
    for run in runs:
        facts, x, seed = run.provenance.get("omitting"), level(run, name), f"seed {run.seed}"
        if facts:
            share = facts["left"] / facts["pool"]
            whole = share * facts["entropy_left"] + (1 - share) * (facts["entropy_omitted"] or 0)
            values = {**facts, "entropy": whole}
            rows.append(("", LEFT, x, seed, 100 * share))
            rows += [
                ("", curve, x, seed, values[fact])
                for curve, fact in ENTROPIES.items()
                if values[fact] is not None
            ]
    return tidy(rows, unit="share, %; entropy, nats", axis=axis)


def expectation_maximisation() -> pd.DataFrame:
    """Accuracy and silhouette of a mixture's clusters by iteration, from each start (Figure B.1)."""
    from ...callbacks.functional.clusters import silhouette  # deferred: imports torch

    rows: Rows = []
    for seed in MIXTURES:
        points, labels, means = mixture(CLASSES, EACH, SPREAD, np.random.default_rng(seed))
        for name, (shift, rate) in START.items():
            several = maximised(points, means + shift, ITERATIONS, rate)
            for n, (moved, centroids) in enumerate(several):
                if n in (0, 1, 2, 5, 10, 20, 50, 100):
                    found = responsibilities(moved, centroids).argmax(1)
                    accuracy = 100 * float((found == labels).mean())
                    rows.append(("accuracy", name, n, f"seed {seed}", accuracy))
                    apart = 100 * silhouette(moved, found)
                    rows.append(("silhouette", name, n, f"seed {seed}", apart))
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
