"""CCC as tar shards in the official layout, read at any position from a folder or a server."""

import copy
import re
import time
from itertools import count as naturals
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ... import HoldfastError, in_range
from ...files import locked, whole_file, written
from . import ImageSource
from .tar import SHARD, SHARDS, Sample, Shard, decode, shard_name, shard_size

CACHE = Path("~/.cache/holdfast/ccc")
TRANSIENT = (408, 425, 429, 500, 502, 503, 504)  # another attempt may succeed
ATTEMPTS = 8  # of a download
TIMEOUT = 30.0  # seconds without a byte
PAUSE = 1.0  # seconds before the second attempt; doubled for each further one
KEPT = 3  # downloaded shards of a run that stay on disk


class Shards(ImageSource):
    """The finished images of CCC, from shards in the official layout: ROOT/RUN/serial_00000.tar, ...

    Args:
        root: a folder, or the address of one on a server, from which shards are downloaded as they are
            needed. There is no default: CCC's own server no longer exists.
        shard_images: smallest number of images in a shard, 25,000 in the official ones.
        cache: folder of the downloaded shards, with one sub-folder for each server; three of each run
            stay there.
    """

    classes, size = 1000, 224

    def __init__(
        self,
        root: str = "",
        shard_images: int = SHARD,
        cache: str | Path = CACHE,
    ) -> None:
        if not root:
            raise HoldfastError(
                "Shards needs root, the folder or address of the shards. Generate them with "
                "`holdfast generate`, since CCC's authors no longer host theirs."
            )
        in_range(1, shard_images=shard_images)
        self.root, self.shard_images = root.rstrip("/"), shard_images
        self.cache = Path(cache).expanduser()
        self.remote = self.root.startswith(("http://", "https://"))
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
        number = found.number_of_shards(needed)
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

    def number_of_shards(self, most: int | None) -> int:
        """The number of consecutive shards from the first; a server is first asked for the last one."""
        if self.remote and most is not None and self.has(most - 1):
            return most
        return next(n for n in naturals() if n == most or not self.has(n))

    def place(self, number: int) -> str:
        """The path or address of a shard."""
        return f"{self.root}/{self.run}/{shard_name(number)}"

    def has(self, number: int) -> bool:
        """Whether there is such a shard."""
        return fetch(self.place(number)) if self.remote else Path(self.place(number)).is_file()

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
            path = self.downloaded(number) if self.remote else Path(self.place(number))
            self._opened[number] = Shard(path, self.step)
        sample = self._opened[number][place]
        if not -1 <= sample.label < self.classes:
            raise HoldfastError(
                f"Image {position} of {self.root}/{self.run} has the label {sample.label}, not one "
                f"of 0 to {self.classes - 1}. Download or generate these shards again."
            )
        return sample

    def downloaded(self, number: int) -> Path:
        """A shard in the cache, from which older shards are removed.

        Raises HoldfastError if the server does not have it.
        """
        server = re.sub(r"\W+", "-", self.root.partition("://")[2])
        path = self.cache / server / self.run / shard_name(number)
        with locked(path), written(path):
            if not (path.exists() or fetch(self.place(number), path)):
                raise HoldfastError(f"{self.place(number)} does not exist. Generate it again.")
        for old in sorted(path.parent.glob(SHARDS))[:-KEPT]:
            if old < path:
                old.unlink(missing_ok=True)
        return path

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": {}}  # a map of memory cannot be sent to a worker


def fetch(url: str, path: Path | None = None) -> bool:
    """Whether the server has a file, which is downloaded if a path is given, whole or not at all.

    Raises HoldfastError if the server refuses it, or after eight attempts (three without a path: of a
    stream that does not start yet).
    """
    import requests  # loaded when something is downloaded

    # Not every server answers HEAD.
    options: dict[str, Any] = {"headers": {"Range": "bytes=0-0"}} if path is None else {}
    attempts = ATTEMPTS if path else 3
    for attempt in range(attempts):
        time.sleep(PAUSE * 2 ** (attempt - 1) if attempt else 0)
        try:
            with requests.get(url, stream=True, timeout=TIMEOUT, **options) as answer:
                if answer.status_code in (404, 410):
                    return False
                if answer.status_code not in TRANSIENT and not answer.ok:
                    why = f"{answer.status_code} {answer.reason}"
                    raise HoldfastError(f"{url} is refused ({why}). Check the address.")
                answer.raise_for_status()
                if path is not None:
                    with whole_file(path) as partial, partial.open("wb") as file:
                        file.writelines(answer.iter_content(2**20))
                return True
        except requests.RequestException as error:
            problem = error
    raise HoldfastError(
        f"{url} could not be read in {attempts} attempts ({problem}). Try again later."
    )
