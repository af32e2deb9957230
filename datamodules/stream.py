"""A stream of corrupted images in which any position can be reached at once."""

import warnings
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor

from .. import HoldfastError, in_range
from ..batch import Batch
from ..tensors import on_device
from .corruptions import corrupt, jpeg
from .corruptions.parameters import check_table
from .counter import mix, permuted
from .loader import Batches, StreamLoader
from .sources import ImageSource
from .sources.folder import ImageFolder
from .sources.jpegs import pack, unpack

_MANY = 1_000_000  # images; a longer run is announced by a warning
INDEPENDENT = "i.i.d. labels"  # the order of a stream that draws its images at random
Corruptions = tuple[tuple[str, float], ...]
OnDevice = bool | Literal["decode"] | None


class Segment(NamedTuple):
    """`count` images from position `start` on with the same corruptions."""

    corruptions: Corruptions  # (name, severity), applied in this order
    start: int
    count: int  # type: ignore[assignment]

    @property
    def end(self) -> int:
        return self.start + self.count

    def __str__(self) -> str:
        names = [f"{name}@{level:g}" if level else name for name, level in self.corruptions]
        return "+".join(names) or "clean"


class Stream(LightningDataModule, ABC):
    """Images of a source, corrupted segment by segment; subclasses override `segments`.

    Sample i is a pure function of the constructor's arguments and i: source image, crop, corruptions
    and noise. Within a segment no source image repeats until all have been drawn.

    Args:
        source: where the clean images come from.
        images: length of the stream; None for an endless one.
        seed: chooses images, crops and noise.
        table: parameter table of the corruptions, "imagenet", "cifar" or "tinyimagenet".
        quality: JPEG quality of the corrupted image, None for no compression.
        batch_size: images in a batch; the last batch may be smaller.
        num_workers: processes that make batches; pixels do not depend on it.
        on_device: corrupt on the Trainer's device instead of in the workers, which then only read
            and crop; pixels differ within the corruption engine's stated tolerance. "decode": decode and
            crop image files there, too. None: corrupt there if it is a CUDA GPU.
        start: the position to begin at.
    """

    precorrupted = False  # whether the source's images show their corruptions already

    def __init__(
        self,
        source: ImageSource,
        images: int | None = None,
        seed: int = 43,
        table: str = "imagenet",
        quality: int | None = None,
        batch_size: int = 64,
        num_workers: int = 1,
        on_device: OnDevice = None,
        start: int = 0,
    ) -> None:
        super().__init__()
        if not len(source):
            raise HoldfastError(f"{source!r} is empty. Pass a source with at least one image.")
        in_range(1, batch_size=batch_size, images=images)
        in_range(0, num_workers=num_workers)
        in_range(1, 100, quality=quality)
        check_table(table)
        if on_device not in (None, False, True, "decode"):
            raise HoldfastError(
                f"Unknown on_device={on_device!r}. Pass True, False, None or 'decode'."
            )
        if start < 0 or (images is not None and start >= images):
            raise HoldfastError(f"start={start} is outside a stream of {images} images.")
        self.source, self.images, self.seed = source, images, seed
        self.table, self.quality = table, quality
        self.batch_size, self.num_workers = batch_size, num_workers
        self.on_device, self.start = on_device, start
        self._passed = start  # the position reached
        self._segments: list[Segment] = []
        self._rest: Iterator[tuple[Corruptions, int]] | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """What the pixels depend on, for a run's provenance; subclasses add their own arguments."""
        facts: dict[str, Any] = {"stream": type(self).__name__, "source": repr(self.source)}
        if self.source.content:
            facts["content"] = self.source.content
        for name in ("images", "seed", "table", "quality"):
            facts[name] = getattr(self, name)
        if self.order != INDEPENDENT:
            facts["order"] = self.order
        return facts

    @property
    def order(self) -> str:
        """The order of labels and corruptions in reports; the class's name if it draws in its own way."""
        drawing = ("source_index", "located", "clean", "batch")
        changed = any(getattr(type(self), name) is not getattr(Stream, name) for name in drawing)
        return type(self).__name__ if changed else INDEPENDENT

    def seedless(self, facts: dict[str, Any]) -> dict[str, Any]:
        """The facts of an `identity` without what follows from the seed, such as an order drawn from it."""
        return facts

    def setup(self, stage: str) -> None:
        """Fit the images to the network; warn if the run will take long, as some papers' do."""
        if self.trainer is not None:
            self.adopt(getattr(self.trainer.lightning_module, "backbone", None))
        # Lightning doubts the length of every IterableDataset; here each worker has its own batches.
        warnings.filterwarnings("ignore", message="Your `IterableDataset` has `__len__` defined")
        if self.images is None or self.images >= _MANY:
            length = "an endless stream" if self.images is None else f"{self.images:,} images"
            rank_zero_warn(f"{length}. For a shorter run pass images=64_000 (--data.images 64000).")

    @abstractmethod
    def segments(self) -> Iterator[tuple[Corruptions, int]]:
        """Corruptions and number of images of each segment in turn, possibly without end."""

    def source_of(self, number: int) -> ImageSource:
        """Where the images of a segment come from."""
        return self.source

    def sources(self) -> Iterable[ImageSource]:
        """All sources of its images."""
        return [self.source]

    def adopt(self, network: Any) -> None:
        """Resize and crop all sources' images as a network's weights need it, where that is not chosen."""
        for source in self.sources():
            source.adopt(network)

    def source_index(self, index: Tensor, numbers: Tensor) -> Tensor:
        """The source images that the positions [B] in the segments [B], of one source, show.

        Their order is a new one in each segment.
        """
        offset, size = self.offset(index, numbers), len(self.source_of(int(numbers[0])))
        return permuted(offset % size, size, self.seed, numbers, offset // size)

    def offset(self, index: Tensor, numbers: Tensor) -> Tensor:
        """The distances [B] of the positions [B] from the first ones of their segments [B]."""
        return index - torch.tensor([self.segment(number).start for number in numbers.tolist()])

    def segment(self, number: int) -> Segment:
        """The segment with a number; raises IndexError after the last one."""
        self._rest = self.segments() if self._rest is None else self._rest
        while len(self._segments) <= number:
            corruptions, count = next(self._rest, (None, 0))
            if corruptions is None:
                raise IndexError(f"the stream has {len(self._segments)} segments")
            start = self._segments[-1].end if self._segments else 0
            self._segments.append(Segment(corruptions, start, count))
        return self._segments[number]

    def segment_at(self, position: int) -> int:
        """The number of the segment that holds a position."""
        while not self._segments or self._segments[-1].end <= position:
            self.segment(len(self._segments))
        return bisect_right(self._segments, position, key=lambda segment: segment.start) - 1

    def segments_at(self, index: Tensor) -> Tensor:
        """The numbers [B] of the segments that hold the positions [B]."""
        return torch.tensor([self.segment_at(i) for i in index.tolist()], dtype=torch.int64)

    def positions_of(self, number: int) -> Tensor:
        """The positions [N] of a segment, as far as the stream goes."""
        segment = self.segment(number)
        end = segment.end if self.images is None else min(segment.end, self.images)
        return torch.arange(segment.start, end)

    def batch(self, index: Tensor) -> Batch:
        """The samples at positions `index` [B]."""
        return self.corrupted(self.clean(index))

    def clean(self, index: Tensor) -> Batch:
        """The samples at positions `index` [B] before corruption, with uint8 images.

        Raises HoldfastError if a label is below -1.
        """
        numbers = self.segments_at(index)
        seeds = mix(mix(self.seed, index), 0)
        loaded = [
            (rows, source.load(source_index, seeds[rows]))
            for source, rows, source_index in self.located(index, numbers)
        ]
        images, labels = (put_together((rows, part[k]) for rows, part in loaded) for k in (0, 1))
        return Batch(images, self._checked(labels), index, numbers)

    def encoded(self, index: Tensor) -> Batch:
        """The samples at positions `index` [B] before decoding: `images` are files, packed (uint8 [N]).

        Raises HoldfastError if a source has no files, or a label is below -1.
        """
        numbers, files = self.segments_at(index), [b""] * len(index)
        for source, rows, source_index in self.located(index, numbers):
            if not isinstance(source, ImageFolder):
                raise HoldfastError(
                    f"on_device='decode' needs a source of image files, such as ImageFolder or ImageNet, "
                    f"not {source!r}. Pass on_device=True, with which the workers decode."
                )
            for row, number in zip(
                rows.nonzero().flatten().tolist(), source_index.tolist(), strict=True
            ):
                files[row] = source.file(number)
        return Batch(pack(files), self._checked(self.labels(index)), index, numbers)

    def decoded(self, batch: Batch, device: torch.device) -> Batch:
        """A batch of `encoded` as one of `clean`, on a device."""
        files, index = unpack(batch.images, len(batch.index)), batch.index
        seeds, parts = mix(mix(self.seed, index), 0), []
        for source, rows, source_index in self.located(index, batch.segment):
            chosen = [file for file, row in zip(files, rows.tolist(), strict=True) if row]
            assert isinstance(source, ImageFolder)
            parts.append((rows, source.decoded(chosen, source_index, seeds[rows], device)))
        if not parts:  # of a rank that has no part of a batch
            return batch._replace(images=batch.images.new_empty(0, 3, 1, 1))
        return batch._replace(images=put_together(parts))

    def _checked(self, labels: Tensor) -> Tensor:
        """The labels [B] or [B,K]; raises HoldfastError if one is below -1."""
        if (strange := labels < -1).any():
            raise HoldfastError(
                f"{self.source!r} has the label {int(labels[strange][0])}. Use class numbers from 0 "
                "on, and -1 where the class is not known."
            )
        return labels

    def located(
        self, index: Tensor, numbers: Tensor
    ) -> Iterator[tuple[ImageSource, Tensor, Tensor]]:
        """Each source that the positions [B] in the segments [B] need, with its rows and indices."""
        which = torch.empty_like(index)
        sources: list[ImageSource] = []
        for number, rows in groups(numbers):
            sources += [] if (source := self.source_of(number)) in sources else [source]
            which[rows] = sources.index(source)
        for number, rows in groups(which):
            yield sources[number], rows, self.source_index(index[rows], numbers[rows])

    def labels(self, index: Tensor) -> Tensor:
        """Labels int64 [B] or [B,K] at the positions [B], without decoding images where possible."""
        located = self.located(index, self.segments_at(index))
        return put_together((rows, source.labels_of(i)) for source, rows, i in located)

    def corrupted(self, batch: Batch) -> Batch:
        """A clean batch with its corruptions, on the device of its images: float32 in [0,1].

        Everything but the images stays on the CPU, where it is needed, so that no transfer blocks.
        """
        images, labels, index, numbers = batch
        seeds = mix(self.seed, index)
        for number, which in groups(numbers):
            rows = which.nonzero().squeeze(1)
            device_rows = on_device(rows, images.device)
            applied = () if self.precorrupted else self.segment(number).corruptions
            for slot, (name, severity) in enumerate(applied, start=1):
                images[device_rows] = corrupt(
                    images[device_rows], name, severity, mix(seeds[rows], slot), table=self.table
                )
        if self.quality is not None:
            images = jpeg(images, self.quality)
        return Batch(images.float() / 255, labels, index, numbers)

    def __getstate__(self) -> dict[str, Any]:
        # For workers: a running generator and a Trainer cannot be sent to another process.
        return {**self.__dict__, "_segments": [], "_rest": None, "trainer": None}

    def test_dataloader(self) -> StreamLoader:  # type: ignore[override]
        """Batches from `start` on."""
        return StreamLoader(self.batches(), self.num_workers, self.finished, self.device)

    predict_dataloader = test_dataloader

    def batches(self) -> Batches:
        """What the workers make: batches, or what the device makes them from."""
        return Batches(self.maker(self.device), self.start, self.images, self.batch_size)

    def maker(self, device: torch.device) -> Callable[[Tensor], Batch]:
        """What a worker makes of positions [B] for a device: a batch, or what `finished` makes it from."""
        there = device.type == "cuda" if self.on_device is None else self.on_device
        return self.encoded if there == "decode" else self.clean if there else self.batch

    @property
    def device(self) -> torch.device:
        """The Trainer's device; the CPU without a Trainer."""
        return self.trainer.strategy.root_device if self.trainer else torch.device("cpu")

    def finished(self, batch: Batch, device: torch.device | None = None) -> Batch:
        """A worker's batch, decoded and corrupted on a device if that is still to be done.

        device: by default the Trainer's.
        """
        if batch.images.is_floating_point():
            return batch
        device = device or self.device
        if batch.images.ndim == 1:
            batch = self.decoded(batch, device)
        images = batch.images.to(device, non_blocking=True)
        return self.corrupted(batch._replace(images=images))

    def passed(self, batch: Batch) -> None:
        """Note that a run has used this batch; a resumed run starts after it."""
        self._passed = int(batch.index[-1]) + 1

    def state_dict(self) -> dict[str, Any]:
        return {"position": self._passed}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.start = self._passed = state_dict["position"]


def groups(numbers: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Each number that occurs in numbers [B], in ascending order, with its rows, bool [B]."""
    return ((number, numbers == number) for number in numbers.unique().tolist())


def put_together(parts: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """One tensor [B,...] from parts: their rows, bool [B], and the values there [N,...]."""
    whole = None
    for rows, values in parts:
        whole = values.new_empty(len(rows), *values.shape[1:]) if whole is None else whole
        whole[on_device(rows.nonzero().squeeze(1), values.device)] = values
    assert whole is not None
    return whole
