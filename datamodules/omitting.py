"""Repeats a stream's first images, without those that are easy for a network."""

import hashlib
from collections.abc import Iterator
from functools import cached_property
from itertools import count, repeat, takewhile
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.special import entr

from .. import HoldfastError, in_range
from ..batch import Batch
from .counter import permuted
from .loader import StreamLoader
from .stream import Corruptions, Stream
from .wrapper import MIXED, StreamWrapper


class Chosen(NamedTuple):
    """Which images remain."""

    positions: Tensor  # int64 [n], in the other stream
    facts: dict[str, Any]  # number of images, mean entropies in nats, digest of the positions


class Omitting(StreamWrapper):
    """Repeats another stream's images without those that are easy for a network (thesis, §3.2).

    The network sees the first `pool` images of the other stream once. Images are omitted if their label is
    among its `top` likeliest classes, or if their prediction has an entropy of at most `entropy`.
    Each epoch shows the remaining images once, in a new order.

    Args:
        stream: the other stream.
        network: logits [B,C] of images in [0,1]: the source model, or a method in its initial state
            (BNAdapt predicts with batch statistics, as Tent does in its first step). None if
            nothing is omitted, which repeats the stream's first `pool` images.
        pool: images of the other stream.
        top: 1 omits correctly classified images; 0 omits none.
        entropy: in nats; 0 omits none.
        images: number of images to show; None: endlessly.
        **kwargs: see `StreamWrapper`.

    Raises HoldfastError if no image is left, or images are to be left out without a network.
    """

    def __init__(
        self,
        stream: Stream,
        network: nn.Module | None,
        pool: int,
        top: int = 0,
        entropy: float = 0,
        images: int | None = None,
        **kwargs: Any,
    ) -> None:
        in_range(1, pool=pool)
        in_range(0, top=top, entropy=entropy)
        if stream.images is not None and stream.start + pool > stream.images:
            raise HoldfastError(
                f"pool={pool}, but the stream has only {stream.images} images. Reduce pool."
            )
        if network is None and (top or entropy):
            raise HoldfastError(
                f"top={top} and entropy={entropy:g} need a network that scores images. Pass network."
            )
        super().__init__(stream, images, **kwargs)
        self.pool, self.top, self.entropy = pool, top, entropy
        self.network = None if network is None else network.eval()

    @property
    def identity(self) -> dict[str, Any]:
        facts = {name: getattr(self, name) for name in ("seed", "pool", "top", "entropy")}
        facts |= self.chosen.facts
        return self.stream.identity | {"images": self.images, "omitting": facts}

    def seedless(self, facts: dict[str, Any]) -> dict[str, Any]:
        settings = {name: facts["omitting"][name] for name in ("pool", "top", "entropy")}
        return self.stream.seedless(facts) | {"omitting": settings}

    @property
    def order(self) -> str:
        return self.stream.order

    def test_dataloader(self) -> StreamLoader:  # type: ignore[override]
        _ = self.chosen  # here: workers have no network
        return super().test_dataloader()

    @cached_property
    def chosen(self) -> Chosen:
        """The remaining images of the pool. Raises HoldfastError if no image remains."""
        if self.network is None:
            return Chosen(torch.arange(self.pool) + self.stream.start, {"left": self.pool})
        device = self.device
        self.network.to(device)
        batches = (torch.arange(self.pool) + self.stream.start).split(self.batch_size)
        parts = [self._judged(self.stream.batch(index), device) for index in batches]
        self.network.cpu()
        positions, ranks, entropies = (torch.cat(values) for values in zip(*parts, strict=True))
        left = (ranks >= self.top) & ((entropies > self.entropy) | (self.entropy == 0))
        if not left.any():
            raise HoldfastError(
                f"top={self.top} and entropy={self.entropy:g} omit all {self.pool} images. Raise pool."
            )
        remaining, omitted = positions[left], entropies[~left]
        facts = {
            "left": len(remaining),
            "entropy_left": round(float(entropies[left].mean()), 3),
            "entropy_omitted": round(float(omitted.mean()), 3) if len(omitted) else None,
            "digest": hashlib.sha256(remaining.numpy().tobytes()).hexdigest()[:12],
        }
        return Chosen(remaining, facts)

    @torch.no_grad()
    def _judged(self, batch: Batch, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Positions [B], how many classes are likelier than the label [B], and entropies in nats [B].

        Raises HoldfastError if a label is unknown.
        """
        assert self.network is not None
        probs = self.network(batch.images.to(device)).float().softmax(1).cpu()
        labels = batch.labels if batch.labels.ndim == 2 else batch.labels[:, None]
        if (labels[:, 0] < 0).any():
            raise HoldfastError(
                "Images without labels cannot be ranked. Pass Omitting a labelled stream."
            )
        # Any of several labels counts; fillers (-1) and labels that the network lacks never do.
        unknown = (labels < 0) | (labels >= probs.shape[1])
        labels = labels.clamp(0, probs.shape[1] - 1)
        label_probs = probs.gather(1, labels).masked_fill(unknown, -1).amax(1)
        return batch.index, (probs > label_probs[:, None]).sum(1), entr(probs).sum(1)

    def segments(self) -> Iterator[tuple[Corruptions, int]]:
        """One segment per epoch."""
        end = self.stream.start + self.pool
        inside = takewhile(lambda s: s.start < end, map(self.stream.segment, count()))
        names = {segment.corruptions for segment in inside}
        yield from repeat((names.pop() if len(names) == 1 else MIXED, len(self.chosen.positions)))

    def within(self, number: int, offset: Tensor) -> Tensor:
        remaining = self.chosen.positions
        return remaining[permuted(offset, len(remaining), self.seed, number)]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "network": None}
