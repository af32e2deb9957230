"""CCC as tar shards in the official layout, read at any position from a folder or a server."""

import re
from itertools import count as naturals
from pathlib import Path
from threading import Thread

import torch
from torch import Tensor

from ... import HoldfastError, in_range
from ...files import locked
from .download import Patience, exists, fetch
from .image_source import ImageSource
from .tar import (
    SHARD,
    SHARDS,
    Sample,
    Shard,
    checksum_file,
    decode,
    shard_name,
    shard_size,
    verify,
)

CACHE = Path("~/.cache/holdfast/ccc")


class Shards(ImageSource):
    """The finished images of CCC, from shards in the official layout: ROOT/RUN/serial_00000.tar, ...

    Args:
        root: a folder, or the address of one on a server, from which shards are downloaded as they are
            needed. Its runs have the names that `holdfast generate` gives them, or the difficulty as a
            decimal (baseline_20.0), as in some copies. There is no default: CCC's own server no longer
            exists.
        shard_images: smallest number of images in a shard, 25,000 in the official ones.
        cache: folder of the downloaded shards, with one sub-folder for each server.
        keep: number of a run's downloaded shards that stay on disk, at least 1; None for all.
        timeout: seconds without a byte, after which a download is cut and continued.
        attempts: number of attempts to read from a server, in a row and without progress.
        pause: seconds before the second attempt; doubles for each further one.
        verify: compare each shard with the checksum that `holdfast generate` wrote. Without it, only damage
            to a shard's layout is detected, not altered pixels.
    """

    classes, size = 1000, 224

    def __init__(
        self,
        root: str = "",
        shard_images: int = SHARD,
        cache: str | Path = CACHE,
        keep: int | None = 3,
        timeout: float = 30.0,
        attempts: int = 8,
        pause: float = 1.0,
        verify: bool = False,
    ) -> None:
        if not root:
            raise HoldfastError(
                "Shards needs root, the folder or address of the shards. Generate them with "
                "`holdfast generate`, since CCC's authors no longer host theirs."
            )
        in_range(1, shard_images=shard_images, keep=keep, attempts=attempts)
        self.root, self.shard_images, self.keep = root.rstrip("/"), shard_images, keep
        self.cache = Path(cache).expanduser()
        self.patience, self.verify = Patience(timeout, attempts, pause), verify
        self.remote = self.root.startswith(("http://", "https://"))
        self.run, self.step, self.count = "", 0, 0
        self._opened: dict[int, Shard] = {}

    def __repr__(self) -> str:
        return f"Shards({self.root})"

    def __len__(self) -> int:
        return self.count

    def open(self, run: str, speed: int, images: int | None) -> "Shards":
        """The shards of one run, checked to contain `images` images; all shards if that is None."""
        run_shards = Shards(
            self.root,
            shard_images=self.shard_images,
            cache=self.cache,
            keep=self.keep,
            verify=self.verify,
            **self.patience._asdict(),
        )
        run_shards.run, run_shards.step = run, shard_size(speed, self.shard_images)
        run_shards._check(images)
        return run_shards

    def _check(self, images: int | None) -> None:
        """Count the shards, as far as they are needed, and refuse too few before anything starts."""
        needed = None if images is None else -(-images // self.step)
        official = self.run
        if not (found := self._count(needed)):
            self.run = re.sub(r"^baseline_(\d+)_", r"baseline_\1.0_", official)
            found = self._count(needed)
            self.run = self.run if found else official
        self.count = found * self.step
        if not found:
            raise HoldfastError(
                f"{self.root}/{self.run} contains no shards. Expected {shard_name(0)}, "
                f"{shard_name(1)}, ..., which `holdfast generate` writes."
            )
        if needed is not None and found < needed:
            raise HoldfastError(
                f"The {found} shards in {self.root}/{self.run} end after {self.count} images. "
                f"Generate more, or pass images={self.count} or less (null for all of them)."
            )

    def _count(self, limit: int | None) -> int:
        """The number of consecutive shards from the first, up to a limit; sends a server few requests."""
        if not self.remote:
            return next(n for n in naturals() if n == limit or not self._has(n))
        if limit is not None and self._has(limit - 1):
            return limit
        high = 1
        while self._has(high - 1):
            high *= 2
        low = high // 2
        while low < high - 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._has(middle - 1) else (low, middle)
        return low

    def _has(self, number: int) -> bool:
        place = f"{self.root}/{self.run}/{shard_name(number)}"
        return exists(place, self.patience) if self.remote else Path(place).is_file()

    # ---- reading ----------------------------------------------------------------------------------

    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        """index: positions in the stream, int64 [B] -> images uint8 [B,3,H,W], labels int64 [B].

        Raises HoldfastError if they differ in size.
        """
        samples = [self.sample(position) for position in index.tolist()]
        images = [decode(sample) for sample in samples]
        if len(sizes := {tuple(image.shape) for image in images}) > 1:
            raise HoldfastError(
                f"The images of a batch of {self.root}/{self.run} have {len(sizes)} different "
                "sizes. Download or generate these shards again."
            )
        return torch.stack(images), torch.tensor([sample.label for sample in samples])

    def labels_of(self, index: Tensor) -> Tensor:
        return torch.tensor([self.sample(position).label for position in index.tolist()])

    def sample(self, position: int) -> Sample:
        """The samples of the shards at positions of the stream.

        Raises HoldfastError if a shard has another layout or label.
        """
        number, place = divmod(position, self.step)
        sample = self._open(number)[place]
        if not -1 <= sample.label < self.classes:
            raise HoldfastError(
                f"Image {position} of {self.root}/{self.run} has the label {sample.label}, not one "
                f"of 0 to {self.classes - 1}. Download or generate these shards again."
            )
        return sample

    def _open(self, number: int) -> Shard:
        if number not in self._opened:
            path = Path(self.root, self.run, shard_name(number))
            shard = self._downloaded(number) if self.remote else Shard(path)
            if self.verify:
                self._verify(shard.path)
            if len(shard) != self.step:
                raise HoldfastError(
                    f"{shard.path} contains {len(shard)} images, not {self.step}. If its layout is "
                    "another, pass shard_images; otherwise it is damaged."
                )
            self._opened = {n: s for n, s in self._opened.items() if n == number - 1}
            self._opened[number] = shard
        return self._opened[number]

    def _verify(self, path: Path) -> None:
        """Compare a shard with its checksum, read from the same folder or server."""
        stated = checksum_file(path)
        if self.remote and not stated.exists():
            fetch(f"{self.root}/{self.run}/{stated.name}", stated, self.patience)
        verify(path)

    def _downloaded(self, number: int) -> Shard:
        """A shard from the server or from the cache; the next one is downloaded meanwhile."""
        path = self._cached(number)
        with locked(path):
            shard = self._fetched(number, path)
        if self.keep is not None:
            for old in sorted(path.parent.glob(SHARDS))[: -self.keep]:
                if old < path:
                    old.unlink(missing_ok=True)
                    checksum_file(old).unlink(missing_ok=True)
        if (number + 1) * self.step < self.count:
            Thread(target=self._ahead, args=(number + 1,), daemon=True).start()
        return shard

    def _cached(self, number: int) -> Path:
        server = re.sub(r"\W+", "-", self.root.partition("://")[2])
        return self.cache / server / self.run / shard_name(number)

    def _fetched(self, number: int, path: Path) -> Shard:
        url = f"{self.root}/{self.run}/{shard_name(number)}"
        for attempt in range(2):
            if not path.exists():
                fetch(url, path, self.patience)
            try:
                return Shard(path)
            except HoldfastError:
                if attempt:
                    raise
                path.unlink()  # the cached file is damaged; the second time, the server's is
        raise AssertionError

    def _ahead(self, number: int) -> None:
        path = self._cached(number)
        try:
            with locked(path):
                if not path.exists():
                    fetch(f"{self.root}/{self.run}/{shard_name(number)}", path, self.patience)
        except (HoldfastError, OSError):
            return  # the reader that needs this shard gets the same error and reports it

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_opened": {}}  # a map of memory cannot be sent to a worker
