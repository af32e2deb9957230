"""CCC as tar shards in the official layout, read at any position."""

import copy
from itertools import count as naturals
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ... import HoldfastError, in_range
from . import ImageSource
from .tar import SHARD, Sample, Shard, decode, shard_name, shard_size


class Shards(ImageSource):
    """The finished images of CCC, from shards in the official layout: ROOT/RUN/serial_00000.tar, ...

    Args:
        root: their folder. There is no default: CCC's own server no longer exists.
        shard_images: smallest number of images in a shard, 25,000 in the official ones.
    """

    classes, size = 1000, 224

    def __init__(self, root: str = "", shard_images: int = SHARD) -> None:
        if not root or "://" in root:
            raise HoldfastError(
                f"root={root!r}: pass Shards the folder of the shards. Generate them with `holdfast "
                "generate`, since CCC's authors no longer host theirs, or download them first."
            )
        in_range(1, shard_images=shard_images)
        self.root, self.shard_images = root.rstrip("/"), shard_images
        self.run, self.step, self.count = "", 0, 0
        self._opened: dict[int, Shard] = {}

    def __repr__(self) -> str:
        return f"Shards({self.root})"

    def __len__(self) -> int:
        return self.count

    def open(self, run: str, speed: int, images: int | None) -> "Shards":
        """The shards of one run, checked to contain `images` images; all shards if that is None.

        Raises HoldfastError if there are none, or too few.
        """
        found = copy.copy(self)
        found.run, found.step = run, shard_size(speed, self.shard_images)
        needed = None if images is None else -(-images // found.step)
        number = next(n for n in naturals() if n == needed or not found.path(n).is_file())
        found.count = number * found.step
        if not number:
            raise HoldfastError(
                f"{self.root}/{run} contains no shards. Expected {shard_name(0)}, {shard_name(1)}, ..., "
                "which `holdfast generate` writes."
            )
        if needed is not None and number < needed:
            raise HoldfastError(
                f"The {number} shards in {self.root}/{run} end after {found.count} images. "
                f"Generate more, or pass images={found.count} or less (null for all of them)."
            )
        return found

    def path(self, number: int) -> Path:
        """The path of a shard."""
        return Path(self.root, self.run, shard_name(number))

    # ---- reading ----------------------------------------------------------------------------------

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
        number, place = divmod(position, self.step)
        if number not in self._opened:
            self._opened = {n: s for n, s in self._opened.items() if n == number - 1}
            self._opened[number] = Shard(self.path(number), self.step)
        sample = self._opened[number][place]
        if not -1 <= sample.label < self.classes:
            raise HoldfastError(
                f"Image {position} of {self.root}/{self.run} has the label {sample.label}, not one "
                f"of 0 to {self.classes - 1}. Download or generate these shards again."
            )
        return sample

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": {}}  # a map of memory cannot be sent to a worker
