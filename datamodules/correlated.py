"""Streams whose labels are correlated in time: Dirichlet-distributed, or sorted by class."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import HoldfastError, in_range
from .counter import mix
from .stream import Stream
from .wrapper import StreamWrapper


class CorrelatedLabels(StreamWrapper):
    """Another stream whose labels are correlated in time (NOTE, RoTTA, LAME, ROID: Dirichlet, delta 0.1).

    Within each window every class is divided among time slots, as many as there are classes, by shares
    drawn from a symmetric Dirichlet distribution. Within a slot images come class by class. The images
    remain the same, and corruptions keep their positions.

    Args:
        stream: the other stream; its source must know the labels.
        delta: concentration of the Dirichlet distribution; smaller values give stronger
            correlation; 0 sorts each window by class. Published values: 0.1 for CIFAR and ImageNet
            (RoTTA, ROID), 0.01 for ImageNet (ROID).
        window: number of images that are reordered together, across segments if necessary; default: each
            segment separately. CCC's segments are too short for most numbers of classes, so set a
            window.
        **kwargs: see `StreamWrapper`.

    Raises:
        HoldfastError: if labels are unknown, or a window would move precorrupted images to other
            segments.
    """

    def __init__(
        self, stream: Stream, delta: float = 0.1, window: int | None = None, **kwargs: Any
    ) -> None:
        in_range(0, delta=delta)
        in_range(2, window=window)
        if window is not None and stream.precorrupted:
            raise HoldfastError(
                f"window={window} would mix precorrupted images of different corruptions. Leave window "
                "out: each corruption is then reordered separately."
            )
        super().__init__(stream, stream.images, **kwargs)
        self.delta, self.window = delta, window
        self._orders: dict[int, Tensor] = {}

    @property
    def arguments(self) -> dict[str, Any]:
        return {**super().arguments, "delta": self.delta, "window": self.window}

    def positions(self, index: Tensor) -> Tensor:
        windows = self.segments_at(index) if self.window is None else index // self.window
        result = torch.empty_like(index)
        for number in windows.unique().tolist():
            rows = windows == number
            result[rows] = self.order(number)[index[rows] - self.bounds(number)[0]]
        return result

    def corruption_positions(self, index: Tensor) -> Tensor:
        return index if self.window is not None else self.positions(index)

    def bounds(self, number: int) -> tuple[int, int]:
        """The first position of a window, and the position after its last one."""
        if self.window is None:
            start, end = self.segment(number).start, self.segment(number).end
        else:
            start, end = number * self.window, (number + 1) * self.window
        return start, end if self.images is None else min(end, self.images)

    def order(self, number: int) -> Tensor:
        """Positions [N] in the other stream of a window's images, in the order in which they are shown.

        Raises HoldfastError if a label is unknown.
        """
        if number not in self._orders:
            positions = torch.arange(*self.bounds(number))
            labels = self.stream.labels(positions).view(len(positions), -1)[:, 0]
            if (labels < 0).any():
                raise HoldfastError(
                    f"{self.source!r} has images without labels, so their order by class is not known. "
                    "Pass a labelled source, or leave CorrelatedLabels out."
                )
            seed = int(mix(self.seed, number)) % 2**32
            chosen = correlated_order(labels.numpy(), self.delta, seed)
            # One window is in use at a time, or two where a batch spans both.
            self._orders = {n: o for n, o in self._orders.items() if n == number - 1}
            self._orders[number] = positions[torch.from_numpy(chosen)]
        return self._orders[number]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_orders": {}}


def correlated_order(groups: np.ndarray, delta: float, seed: int) -> np.ndarray:
    """An order [N] in which the members of a group are close together: int [N] group numbers -> positions
    [N].

    Each group is divided among time slots, as many as there are groups, by shares drawn from
    Dirichlet(delta); full slots get no further images (NOTE, Gong et al. 2022, section 4.1, and its
    code). delta=0: one slot, that is sorted by group, the groups in random order.

    Example:
        >>> groups = np.array([0, 1, 0, 1, 0, 1])
        >>> sorted(groups[correlated_order(groups, 0, 7)][:3].tolist()) in ([0, 0, 0], [1, 1, 1])
        True
    """
    # Not a Generator: the numbers of RandomState are the same in every version of NumPy.
    random = np.random.RandomState(seed)
    _, groups = np.unique(groups, return_inverse=True)
    count = int(groups.max()) + 1
    slots = count if delta else 1
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
