"""CCC as tar shards in the official layout, read at any position."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import HoldfastError, in_range
from .ccc import target_of
from .sources import ImageSource
from .sources.tar import (
    SHARD,
    Sample,
    Shard,
    corruptions_in,
    decode,
    run_name,
    shard_name,
    shard_size,
)
from .stream import INDEPENDENT, Corruptions, Segment, Stream


class CCCShards(Stream):
    """The corrupted images of a CCC stream, from shards in the official layout.

    They lie in ROOT/baseline_20_transition+speed_1000_seed_43/serial_00000.tar, ...; each image says
    which corruptions it shows.

    Args:
        root: the folder. There is no default: CCC's own server no longer exists.
        difficulty: as in `CCC`, like the next three.
        speed: images for each step of severity.
        images: length; None for all shards.
        seed: of the sequence of corruptions.
        shard_images: smallest number of images in a shard, 25,000 in the official ones.
        **kwargs: see `Stream`.

    Raises HoldfastError if there are no shards, or too few.
    """

    precorrupted = True

    def __init__(
        self,
        root: str,
        difficulty: float | str = "medium",
        speed: int = 1000,
        images: int | None = 7_500_000,
        seed: int = 43,
        shard_images: int = SHARD,
        **kwargs: Any,
    ) -> None:
        in_range(1, speed=speed, shard_images=shard_images)
        self.target, self.speed = target_of(difficulty), speed
        run = run_name(self.target, speed, seed)
        shards = _Shards(root, run, shard_size(speed, shard_images), images)
        super().__init__(shards, images=images or len(shards), seed=seed, **kwargs)

    @property
    def identity(self) -> dict[str, Any]:
        # The stream that the shards were made of, whichever class reads them.
        return super().identity | {"stream": "CCC", "target": self.target, "speed": self.speed}

    def seedless(self, facts: dict[str, Any]) -> dict[str, Any]:
        return facts | {"source": ""}  # which names the seed

    @property
    def order(self) -> str:
        return INDEPENDENT

    def segments(self) -> Iterator[tuple[Corruptions, int]]:
        return ((self.segment(number).corruptions, self.speed) for number in count())

    def segment(self, number: int) -> Segment:
        assert isinstance(self.source, _Shards)
        start = number * self.speed
        return Segment(corruptions_in(self.source.sample(start).info), start, self.speed)

    def segment_at(self, position: int) -> int:
        return position // self.speed

    def source_index(self, index: Tensor, numbers: Tensor) -> Tensor:
        return index


class _Shards(ImageSource):
    """The images of ROOT/RUN, `step` in each shard, checked to be `images`; None: all of them."""

    classes, size = 1000, 224

    def __init__(self, root: str, run: str, step: int, images: int | None) -> None:
        if not root or "://" in root:
            raise HoldfastError(
                f"root={root!r}: pass the folder of the shards. Generate them with `holdfast "
                "generate`, since CCC's authors no longer host theirs, or download them first."
            )
        self.root, self.run, self.step = root.rstrip("/"), run, step
        self._opened: dict[int, Shard] = {}
        needed = None if images is None else -(-images // step)
        number = next(n for n in count() if n == needed or not self._path(n).is_file())
        self.length = number * step
        if not number:
            raise HoldfastError(
                f"{self.root}/{run} contains no shards. Expected {shard_name(0)}, {shard_name(1)}, ..., "
                "which `holdfast generate` writes."
            )
        if needed is not None and number < needed:
            raise HoldfastError(
                f"The {number} shards in {self.root}/{run} end after {self.length} images. "
                f"Generate more, or pass images={self.length} or less (null for all of them)."
            )

    def __repr__(self) -> str:
        return f"Shards({self.root})"

    def __len__(self) -> int:
        return self.length

    def _path(self, number: int) -> Path:
        return Path(self.root, self.run, shard_name(number))

    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        """index: positions in the stream, int64 [B] -> images uint8 [B,3,H,W], labels int64 [B]."""
        samples = [self.sample(position) for position in index.tolist()]
        images = torch.stack([decode(sample) for sample in samples])
        return images, torch.tensor([sample.label for sample in samples])

    def labels_of(self, index: Tensor) -> Tensor:
        return torch.tensor([self.sample(position).label for position in index.tolist()])

    def sample(self, position: int) -> Sample:
        """The sample at a position of the stream.

        Raises HoldfastError if its shard has another layout, or the label is none of ImageNet's.
        """
        number, row = divmod(position, self.step)
        if number not in self._opened:
            self._opened = {n: s for n, s in self._opened.items() if n == number - 1}
            self._opened[number] = Shard(self._path(number), self.step)
        sample = self._opened[number][row]
        if not -1 <= sample.label < self.classes:
            raise HoldfastError(
                f"Image {position} of {self.root}/{self.run} has the label {sample.label}, not one "
                f"of 0 to {self.classes - 1}. Download or generate these shards again."
            )
        return sample

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": {}}  # a map of memory cannot be sent to a worker
