"""COT and COTT: accuracy from the optimal transport of labels to predictions."""

import numpy as np

from .confidence import threshold

Array = np.ndarray
_LIMIT = 10_000  # samples in one transport problem, as in the official code
_STEPS = 10_000_000  # of the network simplex, at most; 10,000 x 1,000 takes some 100,000


def draw_labels(marginal: Array, count: int, random: np.random.Generator) -> Array:
    """`count` labels in the proportions of `marginal` [C]: rounded down, with a random remainder."""
    marginal = np.asarray(marginal, dtype=np.float64) / np.sum(marginal)
    whole = np.floor(marginal * count + 1e-9).astype(np.int64)
    rest = random.choice(len(marginal), count - whole.sum(), p=marginal)
    return np.concatenate([np.repeat(np.arange(len(marginal)), whole), rest])


def transport(probs: Array, counts: Array) -> Array:
    """A class [n] for each row of `probs` [n,C], class c `counts[c]` times, of largest total probability.

    This is the exact optimal transport of one-hot labels to predictions under the L1 distance, which
    is 2 (1 - p) between label and prediction. Labels of a class are interchangeable, so the problem and
    the memory that it takes are of size n x C, not n x n.
    """
    from ot import emd  # here: it imports each array library that is installed

    rows, columns = np.ones(len(probs)), counts.astype(np.float64)
    plan, facts = emd(rows, columns, 1 - np.asarray(probs), numItermax=_STEPS, log=True)
    if facts["warning"]:
        raise ValueError(facts["warning"])
    return plan.argmax(1)


def transport_costs(probs: Array, labels: Array) -> Array:
    """L1 distance in [0,2] of each prediction from the label that is transported to it, [n]."""
    counts = np.bincount(labels, minlength=probs.shape[1])
    return 2 * (1 - probs[np.arange(len(probs)), transport(probs, counts)])


def cot(costs: Array) -> float:
    """COT (Lu et al. 2023): 1 - half the mean cost [n] of transporting labels drawn from the source."""
    return 1 - float(costs.mean()) / 2


def cott(costs: Array, val_costs: Array, val_correct: Array) -> float:
    """COTT (Lu et al. 2023): the share of costs [n] up to the threshold of validation costs [m].

    Negative costs are scores, like ATC's confidences; the validation costs come from transporting the
    validation data's own labels.
    """
    return float((-costs >= threshold(-val_costs, val_correct)).mean())


def parts(count: int, random: np.random.Generator, limit: int = _LIMIT) -> list[Array]:
    """All indices [n]; or, of more than `limit`, several draws [limit] with replacement."""
    if count <= limit:
        return [np.arange(count)]
    return [random.integers(count, size=limit) for _ in range(-(-count // limit))]
