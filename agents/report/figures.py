"""Figures of runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...drawing import describe, panels, saved
from ...files import written
from .charts_svg import COLOURS

ACTIONS = (
    *("search_relevance", "search_citation_count", "read", "find_in_text"),
    *("ask_for_more_context", "select", "guess", "search_text_snippet"),
)


def histogram(by_step: Mapping[str, Sequence[Mapping[str, int]]], path: Path, title: str) -> None:
    """Plot for each run the number of samples by action and step (CiteME, figure 5)."""
    size = (max(4.0, 2.6 * len(by_step)), 3.2)
    figure, axes = panels(len(by_step), size=size, sharey=True)
    used = [a for a in ACTIONS if any(a in c for steps in by_step.values() for c in steps)]
    for axis, (name, steps) in zip(axes, by_step.items(), strict=True):
        bottom = [0] * len(steps)
        for action, colour in zip(ACTIONS, COLOURS, strict=False):
            heights = [counts.get(action, 0) for counts in steps]
            if action in used:
                look = {"color": colour, "label": action.replace("_", " ")}
                axis.bar(range(1, len(steps) + 1), heights, bottom=bottom, **look)
                bottom = [b + h for b, h in zip(bottom, heights, strict=True)]
        describe(axis, name, x="step", grid="y")
        axis.set_xticks(range(1, max(len(steps), 1) + 1))
    axes[0].set_ylabel("samples", fontsize=8)
    figure.suptitle(title, fontsize=10)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(used) or 1, frameon=False)
    with written(path, "or pass --picture another file."):
        saved(figure, path, dpi=150)
