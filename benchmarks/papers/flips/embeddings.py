"""Figure 3.1: embeddings of held-out images early and late in Tent, with class means (thesis §3.1)."""

from pathlib import Path

import numpy as np

from ....drawing import panels, pyplot, saved
from ....run_folder import EMBEDDINGS
from ...results.runs import Run
from ...suites.cell import Cell
from ..table import Table
from .inside import clusters, peak

EARLY, LATE = "early (best accuracy)", "late (last measurement)"


def picture(t: Table, cells: list[Cell], path: Path) -> Path:
    """Draw a t-SNE of the first run's held-out images at both steps, with the source's class means."""
    run = next(run for cell in cells if (run := Run.load(cell.folder)).finished)
    measured, kept = clusters(run), np.load(run.folder / EMBEDDINGS)
    there = {step: values for step, values in measured.items() if step in kept["steps"]}
    shown = {EARLY: peak(there), LATE: max(there)}
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
    from sklearn.manifold import TSNE

    both = np.concatenate([features, means])
    perplexity = min(30.0, (len(both) - 1) / 3)
    found = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(both)
    return found[: len(features)], found[len(features) :]
