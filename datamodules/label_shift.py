"""Streams whose labels are correlated in time, or in which some classes are rare."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
import torch
from lightning.pytorch.utilities import rank_zero_warn
from scipy.stats import hypergeom
from torch import Tensor

from .. import HoldfastError, in_range
from .counter import mix
from .stream import Corruptions, Stream, groups, put_together
from .wrapper import ReorderingWrapper, StreamWrapper, other_labels

_BATCH, _MEASURED = 64, 25_600  # the number of classes in a batch is measured on these images
_MOST_SLOTS = 100  # RoTTA's code


class CorrelatedLabels(ReorderingWrapper):
    """Another stream whose labels are correlated in time (NOTE, RoTTA, ROID: Dirichlet, delta 0.1).

    Within each window every class is divided among time slots by shares drawn from a symmetric Dirichlet
    distribution. Within a slot images come class by class. Images and positions of corruptions stay.

    How strongly labels are correlated depends on delta, the slots and the images of a class in a window.
    `identity` says it: the mean number of classes in a batch of 64, beside that of independent labels.
    The guide on streams lists both for the orders that the official code makes.

    Args:
        stream: the other stream; its source must know the labels.
        delta: concentration of the Dirichlet distribution; smaller values give stronger correlation,
            0 sorts each window by class. Published: 0.1 for CIFAR (NOTE, RoTTA, ROID), 0.01 for
            ImageNet-C (ROID).
        window: number of images that are reordered together, across segments if necessary; default:
            each segment separately. CCC's segments are too short for most numbers of classes.
        slots: number of time slots; default: one per class (NOTE, ROID), at most 100 (RoTTA's code).
        **kwargs: see `StreamWrapper`.

    Raises HoldfastError if labels are unknown, or a window would mix precorrupted segments.
    """

    facts = ("seed", "delta", "slots", "window", "classes_in_a_batch")
    measured = ("classes_in_a_batch",)

    def __init__(
        self,
        stream: Stream,
        delta: float = 0.1,
        window: int | None = None,
        slots: int | None = None,
        **kwargs: Any,
    ) -> None:
        in_range(0, delta=delta)
        in_range(1, slots=slots)
        in_range(2, window=window)
        if window is not None and stream.precorrupted:
            raise HoldfastError(
                f"window={window} would mix precorrupted images of different corruptions. Leave window "
                "out: each corruption is then reordered separately."
            )
        super().__init__(stream, stream.images, **kwargs)
        self.delta, self.slots, self.window = delta, slots, window

    def setup(self, stage: str) -> None:
        """Warn if the order hardly correlates the labels."""
        super().setup(stage)
        ordered, independent = self.classes_in_a_batch
        if ordered > independent / 2:
            rank_zero_warn(
                f"CorrelatedLabels leaves {ordered:.0f} classes in a batch of {_BATCH}, where independent "
                f"labels have {independent:.0f}. Pass fewer slots, a smaller delta or a larger window."
            )

    @cached_property
    def classes_in_a_batch(self) -> tuple[float, float]:
        """The mean number of classes in a batch of 64: as ordered, and in random order.

        Measured on the stream's first 25,600 images, or on its first window if that is longer.
        """
        count = max(_MEASURED, self.window or 0)
        count = count if self.images is None else min(count, self.images)
        labels = self.known_labels(self.positions(torch.arange(count)))
        batches = [part.unique().numel() for part in labels.split(_BATCH) if len(part) == _BATCH]
        size, members = min(_BATCH, count), labels.unique(return_counts=True)[1].numpy()
        independent = len(members) - hypergeom.pmf(0, count, members, size).sum()
        ordered = sum(batches) / len(batches) if batches else float(len(members))
        return round(ordered, 2), round(float(independent), 2)

    @classmethod
    def order_of(cls, facts: Mapping[str, Any], inner: str) -> str:
        delta = facts["delta"]
        change = f"labels correlated (delta {delta:g})" if delta else "labels sorted"
        return other_labels(inner, change)

    def positions(self, index: Tensor) -> Tensor:
        if self.window is None:
            return super().positions(index)
        return put_together(
            (rows, self.sample_order(number)[index[rows] - number * self.window])
            for number, rows in groups(index // self.window)
        )

    def corruption_positions(self, index: Tensor) -> Tensor:
        return index if self.window is not None else self.positions(index)

    def find_order(self, number: int) -> Tensor:
        """Positions [N] in the other stream of the samples of a window, or of a segment."""
        if self.window is None:
            positions = self.stream.positions_of(number)
        else:
            end = (number + 1) * self.window
            end = end if self.images is None else min(end, self.images)
            positions = torch.arange(number * self.window, end)
        labels, seed = self.known_labels(positions), int(mix(self.seed, number)) % 2**32
        slots = self.slots or min(len(labels.unique()), _MOST_SLOTS)
        order = correlated_order(labels.numpy(), self.delta, seed, slots)
        return positions[torch.from_numpy(order)]


class ClassImbalance(StreamWrapper):
    """Another stream with a long-tailed class distribution: images of rarer classes are left out.

    In every segment the class of rank r = 0 ... C-1, drawn once from the seed, keeps the share
    ratio^(-r / (C-1)) of its images, at least one.

    Args:
        stream: the other stream; its source must know the labels.
        ratio: frequency of the most common class over that of the rarest, at least 1.
        **kwargs: see `StreamWrapper`.
    """

    facts = ("seed", "ratio")

    def __init__(self, stream: Stream, ratio: float = 10.0, **kwargs: Any) -> None:
        in_range(1, ratio=ratio)
        super().__init__(stream, None, **kwargs)
        self.ratio = ratio
        if stream.images is not None:
            self.images = self.segment(stream.segment_at(stream.images - 1)).end

    @classmethod
    def order_of(cls, facts: Mapping[str, Any], inner: str) -> str:
        return other_labels(inner, f"classes imbalanced {facts['ratio']:g} to 1")

    def seedless(self, facts: dict[str, Any]) -> dict[str, Any]:
        return super().seedless({**facts, "images": self.stream.images})

    def segments(self) -> Iterator[tuple[Corruptions, int]]:
        end = self.stream.images
        numbers = count() if end is None else range(self.stream.segment_at(end - 1) + 1)
        for number in numbers:
            yield self.stream.segment(number).corruptions, len(self.sample_order(number))

    def find_order(self, number: int) -> Tensor:
        """Positions [N] in the other stream of the remaining images of a segment."""
        positions = self.stream.positions_of(number)
        return positions[self._remaining(self.known_labels(positions))]

    def _remaining(self, labels: Tensor) -> Tensor:
        """Which images of a segment remain: int64 [N] labels -> bool [N]; the first ones of each class."""
        classes = max(int(getattr(self.source, "classes", 0)), int(labels.max()) + 1)
        ranks = mix(self.seed, 1, torch.arange(classes)).argsort().argsort()
        share = self.ratio ** (-ranks / max(classes - 1, 1))
        number = labels.bincount(minlength=classes)
        order = labels.argsort(stable=True)
        rank = torch.empty_like(labels)  # of each image among those of its class
        rank[order] = torch.arange(len(labels)) - (number.cumsum(0) - number)[labels[order]]
        return rank < (number * share).round().clamp(min=1)[labels]


def correlated_order(
    groups: np.ndarray, delta: float, seed: int, slots: int | None = None
) -> np.ndarray:
    """An order in which the members of a group are close together: int [N] numbers -> positions [N].

    Each group is divided among time slots (default: one per group) by shares drawn from Dirichlet(delta);
    full slots get no further images (NOTE, Gong et al. 2022, section 4.1, and its code). delta=0: one
    slot, that is sorted by group, the groups in random order.

    >>> groups = np.array([0, 1, 0, 1, 0, 1])
    >>> sorted(groups[correlated_order(groups, 0, 7)][:3].tolist()) in ([0, 0, 0], [1, 1, 1])
    True
    """
    # Not a Generator: the numbers of RandomState are the same in every version of NumPy.
    random = np.random.RandomState(seed)
    _, groups = np.unique(groups, return_inverse=True)
    count = int(groups.max()) + 1
    slots = (slots or count) if delta else 1
    room, slot_of = len(groups) / slots, np.zeros(len(groups), int)
    filled = np.zeros(slots)
    for group in random.permutation(count) if slots > 1 else ():
        members = random.permutation(np.flatnonzero(groups == group))
        shares = random.standard_gamma(delta, slots) * (filled < room)
        if not shares.sum() > 0:  # all of them rounded to 0, or fell on full slots
            shares = np.eye(slots)[random.choice(np.flatnonzero(filled < room))]
        ends = np.round(np.cumsum(shares / shares.sum()) * len(members))
        slot_of[members] = np.searchsorted(ends, np.arange(len(members)), side="right")
        filled += np.bincount(slot_of[members], minlength=slots)
    ranks = random.random_sample((slots, count))[slot_of, groups]
    return np.lexsort((random.permutation(len(groups)), ranks, slot_of))
