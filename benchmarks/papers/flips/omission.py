"""Tent on the images that `Omitting` retains: gain on held-out images and number of images (B.7)."""

from itertools import pairwise
from typing import Any

from ...results.runs import Run
from ..primitives import Part, above, positive, rises
from ..table import Table
from .inside import measured

LEFT = "images left, %"
ENTROPIES = {
    "entropy of those left": "entropy_left",
    "entropy of those left out": "entropy_omitted",
    "entropy of all": "entropy",
}


def omitting(run: Run) -> dict[str, Any]:
    """The stream's facts about omitted images; {} if it omits none."""
    return run.provenance.get("omitting", {})


def gains(runs: list[Run], name: str, called: str, sizes_too: bool = False) -> Table:
    """Points of accuracy gained on held-out images by step, with one curve per level.

    sizes_too: add notes on the number and the entropy of the images that each level retains.
    """
    found = Table(unit="gain of accuracy on images held out, points", axis="step")
    for run in sorted(runs, key=lambda run: level(run, name)):
        steps = {n: v["accuracy"] for n, v in measured(run, "HoldOut", ("accuracy",)).items()}
        curve = f"{called}{' ' if sizes_too else ' = '}{level(run, name):g}"
        for step, accuracy in steps.items():
            gain = 100 * (accuracy - steps[min(steps)])
            found.add("", curve, step, f"seed {run.seed}", gain)
        if sizes_too and (facts := omitting(run)):
            found.notes.append(
                f"{curve}, seed {run.seed}: {100 * facts['left'] / facts['pool']:.0f} % of the images "
                f"left, of entropy {facts['entropy_left']:.2f}."
            )
    return found


def level(run: Run, name: str) -> float:
    """The omission level of a run; 0: none."""
    return float(run.factors.get(name, 0))


def sizes(runs: list[Run], name: str, axis: str) -> Table:
    """The share of retained images, and mean entropies in nats, by level."""
    found = Table(unit="share, %; entropy, nats", axis=axis)
    for run in runs:
        facts, x = omitting(run), level(run, name)
        if not facts:
            continue
        share = facts["left"] / facts["pool"]
        out = facts["entropy_omitted"]
        whole = share * facts["entropy_left"] + (1 - share) * (out or 0)
        values = {**facts, "entropy": whole}
        found.add("", LEFT, x, f"seed {run.seed}", 100 * share)
        for curve, fact in ENTROPIES.items():
            if values[fact] is not None:
                found.add("", curve, x, f"seed {run.seed}", values[fact])
    return found


def rises_along(table: Table, curve: str, x: list[float]) -> list[Part]:
    """Claim: a curve rises from each x to the next."""
    return [p for a, b in pairwise(x) for p in rises(table, curve=curve, start=a, to=b)]


def low_levels_gain(table: Table) -> list[Part]:
    """Claim: at the two lowest levels above 0, the gain at the last step is above 0."""
    return positive(table, curve=table.curves()[1:3])


def highest_gains_less(table: Table) -> list[Part]:
    """Claim: at the highest level, the gain at the last step is smaller than without omission."""
    first, *_, last = table.curves()
    return above(table, first, last, x="last")
