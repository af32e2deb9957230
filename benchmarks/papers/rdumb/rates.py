"""Selection of learning rates on the hold-out corruptions, and the difficulty of each corruption."""

from ...results.batch_means import by_corruption, shown
from ...results.runs import Run
from ..primitives import Part
from ..table import Table, X, written
from ..tables import accuracy

# Maximum cost of a larger rate in points. With it, a short stream shows the behaviour on a long one.
COST = 1.5


def table(runs: list[Run]) -> Table:
    """Accuracy by learning rate, with notes on the best rate and the largest rate within COST of it."""
    found = accuracy(runs, curve="method", x="lr", axis="learning rate")
    found.log = True
    for method in found.curves():
        best, largest = map(written, rates(found, method))
        found.notes.append(
            f"{method}: the best rate is {best}, the largest within {COST} points of it {largest}."
        )
    return found


def rates(t: Table, method: str) -> tuple[X, X]:
    """The best learning rate of a method, and the largest one within COST of it."""
    means = {x: m for x in t.xs if (m := t.mean("", method, x)) is not None}
    best = max(means, key=means.__getitem__)
    return best, [x for x in means if means[x] >= means[best] - COST][-1]


def above_largest(t: Table, curve: str, than: list[str]) -> list[Part]:
    """Claim: a method with its best rate is above others with their largest rate."""
    found = {other: t.difference(("", curve), ("", other), ["best"], ["largest"]) for other in than}
    return [Part(f"{curve} - {other}, largest", own, 0) for other, own in found.items()]


def hardness(runs: list[Run]) -> Table:
    """Figure A.5c: the source accuracy on each corruption, the hardest first."""
    found = Table()
    for run in runs:
        for corruption, value in by_corruption([run], "accuracy").items():
            found.add("", shown(corruption), "Source", run.place, 100 * value)
    order = sorted(found.curves(), key=lambda curve: found.mean("", curve, "Source") or 0)
    found.rows.sort(key=lambda row: order.index(row.curve))
    return found
