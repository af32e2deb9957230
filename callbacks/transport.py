"""COT and COTT: accuracy from the optimal transport of labels to predictions."""

from itertools import pairwise

import numpy as np

from .confidence import threshold

Array = np.ndarray
LIMIT = 10_000  # samples in one transport problem, as in the official code


def draw_labels(marginal: Array, count: int, random: np.random.Generator) -> Array:
    """`count` labels in the proportions of `marginal` [C]: the whole parts, and a random remainder."""
    marginal = np.asarray(marginal, dtype=np.float64) / np.sum(marginal)
    whole = np.floor(marginal * count + 1e-9).astype(np.int64)
    rest = random.choice(len(marginal), count - whole.sum(), p=marginal)
    return np.concatenate([np.repeat(np.arange(len(marginal)), whole), rest])


def transport(probs: Array, counts: Array) -> Array:
    """The class [n] of each row of `probs` [n,C], class c `counts[c]` times, with the largest total.

    This is the exact optimal transport of one-hot labels to predictions under the L1 distance, which
    is 2 (1 - p) between label and prediction. Labels of a class are alike, so instead of an n x n
    problem it is one of flows between C classes: rows begin at their largest entries, and each row
    too many moves to a class that lacks one along the shortest path of exchanges (successive
    shortest paths with potentials). Memory: n C + C^2.
    """
    probs = np.ascontiguousarray(probs, dtype=np.float64)
    classes = probs.shape[1]
    if counts.sum() != len(probs):
        raise ValueError(f"{counts.sum()} labels for {len(probs)} predictions")
    chosen = probs.argmax(1)
    surplus = np.bincount(chosen, minlength=classes) - counts
    price = np.zeros(classes)
    loss, mover = np.full((classes, classes), np.inf), np.zeros((classes, classes), dtype=np.int64)

    def refresh(c: int) -> None:
        """The cheapest row to move from class c to each other, and what that loses."""
        rows = np.flatnonzero(chosen == c)
        loss[c] = np.inf
        if len(rows):
            gaps = probs[rows, c, None] - probs[rows]
            best = gaps.argmin(0)
            mover[c], loss[c] = rows[best], gaps[best, np.arange(classes)]
        loss[c, c] = np.inf

    for c in range(classes):
        refresh(c)
    while (surplus > 0).any():
        path, distance = shortest_path(loss, price, surplus)
        price += distance
        for start, end in pairwise(path):
            chosen[mover[start, end]] = end
        surplus[path[0]] -= 1
        surplus[path[-1]] += 1
        for c in path:
            refresh(c)
    return chosen


def shortest_path(loss: Array, price: Array, surplus: Array) -> tuple[list[int], Array]:
    """Dijkstra from all classes with a surplus to the nearest that lacks one; [C] distances up to it."""
    distance = np.where(surplus > 0, 0.0, np.inf)
    open_, before = np.ones(len(price), dtype=bool), np.full(len(price), -1)
    while True:
        here = int(np.where(open_, distance, np.inf).argmin())
        open_[here] = False
        if surplus[here] < 0:
            break
        # Rounding may leave reduced costs a little below zero.
        reduced = np.maximum(loss[here] + price[here] - price, 0.0)
        further = distance[here] + reduced
        better = open_ & (further < distance)
        distance[better], before[better] = further[better], here
    path = [here]
    while before[path[-1]] >= 0:
        path.append(int(before[path[-1]]))
    return path[::-1], np.minimum(distance, distance[here])


def transport_costs(probs: Array, labels: Array) -> Array:
    """L1 length in [0,2] of each prediction's way from the label that is transported to it, [n]."""
    counts = np.bincount(labels, minlength=probs.shape[1])
    return 2 * (1 - probs[np.arange(len(probs)), transport(probs, counts)])


def cot(costs: Array) -> float:
    """COT (Lu et al. 2023): 1 - half the mean cost of transporting labels drawn from the source."""
    return 1 - float(costs.mean()) / 2


def cott(costs: Array, val_costs: Array, val_correct: Array) -> float:
    """COTT (Lu et al. 2023): the share of costs that do not exceed the threshold of validation data.

    Negative costs are scores, as confidences are ATC's; the validation costs are those of transporting
    the validation data's own labels.
    """
    return float((-costs >= threshold(-val_costs, val_correct)).mean())


def parts(count: int, random: np.random.Generator, limit: int = LIMIT) -> list[Array]:
    """All indices; or, of more than `limit`, several draws of `limit` with replacement."""
    if count <= limit:
        return [np.arange(count)]
    return [random.integers(count, size=limit) for _ in range(-(-count // limit))]
