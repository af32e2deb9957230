"""Figures of runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..data import new_file
from .charts_svg import COLOURS

ACTIONS = (
    *("search_relevance", "search_citation_count", "read", "find_in_text"),
    *("ask_for_more_context", "select", "guess", "search_text_snippet"),
)


def histogram(by_step: Mapping[str, Sequence[Mapping[str, int]]], path: Path, title: str) -> None:
    """Plot for each run the number of samples by action and step (CiteME, figure 5)."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1, len(by_step), figsize=(max(4.0, 2.6 * len(by_step)), 3.2), sharey=True, squeeze=False
    )
    used = [a for a in ACTIONS if any(a in c for steps in by_step.values() for c in steps)]
    for axis, (name, steps) in zip(axes[0], by_step.items(), strict=True):
        bottom = [0] * len(steps)
        for action, colour in zip(ACTIONS, COLOURS, strict=False):
            heights = [counts.get(action, 0) for counts in steps]
            if action in used:
                look = {"color": colour, "label": action.replace("_", " ")}
                axis.bar(range(1, len(steps) + 1), heights, bottom=bottom, **look)
                bottom = [b + h for b, h in zip(bottom, heights, strict=True)]
        axis.set_title(name, fontsize=9)
        axis.set_xlabel("step")
        axis.set_xticks(range(1, max(len(steps), 1) + 1))
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("samples")
    figure.suptitle(title, fontsize=10)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(used) or 1, frameon=False)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    with new_file(path, "--picture") as partial:
        figure.savefig(partial, dpi=150, format=path.suffix[1:] or "png")
    plt.close(figure)
