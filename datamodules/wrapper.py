"""A stream on top of a stream: the same samples in another order, or with other corruptions."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from .. import HoldfastError
from ..batch import Batch
from .stream import Corruptions, Segment, Stream

MIXED: Corruptions = (("mixed", 0.0),)  # of a segment whose images have different corruptions


class StreamWrapper(Stream):
    """Shows another stream's samples in another order; subclasses override `positions`.

    Sample i is the other stream's sample at `positions(i)`, pixel for pixel. A wrapper that
    reorders images but leaves the corruptions in place also overrides `corruption_positions`; a
    wrapper with its own segments overrides `segments` and restores `Stream`'s `segment` and
    `segment_at`. Both
    maps must be pure functions of the position, so that resuming, workers and ranks need nothing else.

    Args:
        stream: the other stream.
        images: length; None for an endless one.
        seed: seed of the new order; default: the other stream's.
        batch_size: as in `Stream`, like the next two; default: the other stream's.
        num_workers: processes that make batches.
        on_device: corrupt on the Trainer's device.
        start: the position to begin at.
    """

    def __init__(
        self,
        stream: Stream,
        images: int | None,
        seed: int | None = None,
        batch_size: int | None = None,
        num_workers: int | None = None,
        on_device: bool | None = None,
        start: int = 0,
    ) -> None:
        super().__init__(
            stream.source,
            images=images,
            seed=stream.seed if seed is None else seed,
            table=stream.table,
            quality=stream.quality,
            batch_size=stream.batch_size if batch_size is None else batch_size,
            num_workers=stream.num_workers if num_workers is None else num_workers,
            on_device=stream.on_device if on_device is None else on_device,
            start=start,
        )
        self.stream, self.precorrupted = stream, stream.precorrupted

    @property
    def arguments(self) -> dict[str, Any]:
        """The identity of this wrapper's order, for a run's provenance."""
        return {"seed": self.seed}

    @property
    def identity(self) -> dict[str, Any]:
        inner = self.stream.identity
        own = {"wrapper": type(self).__name__, **self.arguments}
        return {**inner, "images": self.images, "wrappers": [*inner.get("wrappers", []), own]}

    # ---- what a wrapper changes -------------------------------------------------------------------

    def positions(self, index: Tensor) -> Tensor:
        """Positions in the other stream of the samples at the positions `index` [B]."""
        return index

    def corruption_positions(self, index: Tensor) -> Tensor:
        """Positions [B] in the other stream of the corruptions to apply; default: `positions(index)`."""
        return self.positions(index)

    def segments(self) -> Iterator[tuple[Corruptions, int]]:
        return self.stream.segments()

    def segment(self, number: int) -> Segment:
        return self.stream.segment(number)

    def segment_at(self, position: int) -> int:
        return self.stream.segment_at(position)

    # ---- the other stream's samples ---------------------------------------------------------------

    def labels(self, index: Tensor) -> Tensor:
        return self.stream.labels(self.positions(index))

    def clean(self, index: Tensor) -> Batch:
        positions = self.positions(index)
        batch = self.stream.clean(positions)
        if len(batch.index) < len(index):  # the others could not be read
            read = set(batch.index.tolist())
            index = index[[position in read for position in positions.tolist()]]
        return batch._replace(index=index, segment=self.segments_at(index))

    def corrupted(self, batch: Batch) -> Batch:
        positions = self.corruption_positions(batch.index)
        inner = batch._replace(index=positions, segment=self.stream.segments_at(positions))
        return self.stream.corrupted(inner)._replace(index=batch.index, segment=batch.segment)


def length_of(stream: Stream, wrapper: str) -> int:
    """The length of a stream, which must be finite and start at its first image.

    Raises HoldfastError if it is not.
    """
    if stream.images is None or stream.start:
        raise HoldfastError(
            f"{wrapper} needs a stream that ends and begins at its first image. Pass images=NUMBER to "
            f"{type(stream).__name__}, and start= to {wrapper}."
        )
    return stream.images
