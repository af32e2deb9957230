"""Tiers: methods, from the best down, that paired intervals cannot tell apart."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from scipy.special import stdtr

from ..results.collapse import mean_and_error
from ..results.run_statistics import Difference, holm, student
from .entry import Result


class Pair(NamedTuple):
    """The accuracy of a method minus that of another on the same batches, and whether they differ."""

    method: str
    other: str
    difference: Difference
    distinct: bool


def pairs(results: Mapping[str, Sequence[Result]]) -> list[Pair]:
    """All pairs of methods, from their runs on the same streams and seeds.

    Differences are taken by batch; their errors are those of a block bootstrap over each stream
    (`results.collapse`). Two methods are distinct if Student's test rejects equality at the level 5 % over
    all pairs (Holm 1979).
    """
    names = [*combinations(results, 2)]
    differences: list[Difference] = []
    p_values: list[float] = []
    for both in names:
        ours, theirs = ({result.key: result for result in results[name]} for name in both)
        batches = [ours[key].accuracies - theirs[key].accuracies for key in ours]
        numbers = mean_and_error(batches, max(result.lasting for result in ours.values()))
        assert numbers is not None, "each entry has labels"
        mean, error, freedom, _ = numbers
        differences.append(student(*numbers))
        p_values.append(2 * float(stdtr(freedom, -abs(mean) / error)) if error else float(not mean))
    rows = zip(names, differences, holm(p_values), strict=True)
    return [Pair(*both, difference, distinct) for both, difference, distinct in rows]


def tiers(accuracies: Mapping[str, float], compared: Sequence[Pair]) -> dict[str, int]:
    """The tier of each method, from 1, in the order of accuracy.

    A method joins the tier above if it is distinct from none of its members, and begins a new one
    otherwise, so methods of one tier cannot be told apart. Methods of two neighbouring tiers can be
    distinct or not.

    >>> same = student(0.0, 0.1, 9, 3)
    >>> compared = [Pair("A", "B", same, False), Pair("A", "C", same, True), Pair("B", "C", same, False)]
    >>> tiers({"C": 0.1, "A": 0.3, "B": 0.2}, compared)
    {'A': 1, 'B': 1, 'C': 2}
    """
    distinct = {frozenset((pair.method, pair.other)) for pair in compared if pair.distinct}
    groups: list[list[str]] = [[]]
    for method in sorted(accuracies, key=accuracies.__getitem__, reverse=True):
        if any(frozenset((method, member)) in distinct for member in groups[-1]):
            groups.append([])
        groups[-1].append(method)
    return {method: number for number, group in enumerate(groups, 1) for method in group}
