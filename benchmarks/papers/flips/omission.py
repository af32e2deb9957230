"""Tent on what `Omitting` leaves: gain of accuracy on images held out, and sizes of what is left (B.7)."""

from typing import Any

from ...results.runs import Run
from ..table import Table
from .inside import measured

LEFT = "images left, %"
ENTROPIES = {
    "entropy of those left": "entropy_left",
    "entropy of those left out": "entropy_omitted",
    "entropy of all": "entropy",
}


def omitting(run: Run) -> dict[str, Any]:
    """What the stream says of its omission; {} of a stream that omits nothing."""
    return run.provenance.get("omitting", {})


def level(run: Run, name: str) -> float:
    """Its `top` or `entropy`: the last word of the stream's name; "top 0" omits nothing."""
    word, _, number = run.stream.rpartition(" ")
    return float(number) if word == name else 0.0


def gains(runs: list[Run], name: str, called: str) -> Table:
    """Points of accuracy gained on the images held out, by the step; a curve for each level."""
    found = Table([], {}, "gain of accuracy on images held out, points", "step")
    for run in sorted(runs, key=lambda run: level(run, name)):
        steps = {n: v["accuracy"] for n, v in measured(run, "HoldOut", ("accuracy",)).items()}
        found.columns = found.columns or [str(step) for step in steps]
        for step, accuracy in steps.items():
            gain = 100 * (accuracy - steps[min(steps)])
            found.add(f"{called}{level(run, name):g}", str(step), f"seed {run.seed}", gain)
    return found


def sizes(runs: list[Run], name: str, axis: str) -> Table:
    """Share of the images that are left and mean entropies in nats, by the level."""
    levels = sorted({level(run, name) for run in runs})
    found = Table([f"{n:g}" for n in levels], {LEFT: {}}, "share, %; entropy, nats", axis)
    for run in runs:
        facts, column = omitting(run), f"{level(run, name):g}"
        if not facts:
            continue
        share = facts["left"] / facts["pool"]
        out = facts["entropy_omitted"]
        whole = share * facts["entropy_left"] + (1 - share) * (out or 0)
        values = {**facts, "entropy": whole}
        found.add(LEFT, column, f"seed {run.seed}", 100 * share)
        for row, fact in ENTROPIES.items():
            if values[fact] is not None:
                found.add(row, column, f"seed {run.seed}", values[fact])
    found.rows = {row: cells for row, cells in found.rows.items() if cells}
    return found
