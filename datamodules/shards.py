"""CCC as tar shards in the official layout: written, verified, and read at any position."""

import io
import mmap
import os
import tarfile
from collections.abc import Iterable, Iterator
from itertools import count as naturals
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from .. import HoldfastError
from .fetch import Patience, exists, fetch, locked
from .sources import ImageSource

HOSTED = "https://mlcloud.uni-tuebingen.de:7443/datasets/CCC"
CACHE = Path("~/.cache/holdfast/ccc")
SHARD = 25_000  # images at least; a shard ends with the cell that reaches them
OURS = {"elastic": "elastic_transform", "jpeg": "jpeg_compression"}  # CCC's names, and ours
THEIRS = {ours: theirs for theirs, ours in OURS.items()}


class Sample(NamedTuple):
    """What a shard holds of an image."""

    info: str  # ++dir++...++name++...++n1++...++s1++...++n2++...++s2++...
    jpeg: bytes
    label: int


def run_name(target: float, speed: int, seed: int) -> str:
    """The official name of a run: its difficulty is the accuracy aimed at, in percent."""
    return f"baseline_{target:g}_transition+speed_{speed}_seed_{seed}"


def shard_name(number: int) -> str:
    return f"serial_{number:05d}.tar"


def shard_size(speed: int, least: int = SHARD) -> int:
    """Images in a shard: whole cells, at least `least` images."""
    return speed * -(-least // speed)


def info(folder: str, name: str, pair: Iterable[tuple[str, float]]) -> str:
    """A sample's description; a corruption of severity 0 is named too."""
    text = f"++dir++{folder}++name++{name}"
    for number, (corruption, severity) in enumerate(pair, start=1):
        text += f"++n{number}++{THEIRS.get(corruption, corruption)}++s{number}++{severity}"
    return text


def cell(text: str) -> tuple[tuple[str, float], ...]:
    """The corruptions in a sample's description, without those of severity 0."""
    fields = text.split("++")[1:]
    named = dict(zip(fields[::2], fields[1::2], strict=False))
    pair = [(named[f"n{k}"], float(named[f"s{k}"])) for k in (1, 2)]
    return tuple((OURS.get(name, name), severity) for name, severity in pair if severity > 0)


def members(number: int) -> list[str]:
    """Names in the archive of a sample's three parts."""
    return [f"sample_{number}.{key}" for key in ("info", "input.jpg", "output.cls")]


def write_shard(path: Path, samples: Iterable[Sample]) -> None:
    """One shard, the same bytes for the same samples; the file appears when it is whole."""
    partial = path.with_name(f"{path.name}.partial")
    with tarfile.open(partial, "w", format=tarfile.USTAR_FORMAT) as tar:
        for number, sample in enumerate(samples):
            contents = (sample.info.encode(), sample.jpeg, str(sample.label).encode())
            for name, content in zip(members(number), contents, strict=True):
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(content), 0o444
                tar.addfile(member, io.BytesIO(content))
    partial.replace(path)


class Shard:
    """A shard opened for reading; raises HoldfastError if it is cut or damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                raise HoldfastError(f"the shard {path} is empty.")
            self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.places: dict[str, slice] = dict(self._members())
        if len(self.places) % 3 or not all(self._whole(k) for k in range(len(self))):
            raise HoldfastError(f"the shard {path} is damaged: remove it and get or make it again.")

    def _members(self) -> Iterator[tuple[str, slice]]:
        """Names of the files in the archive, and where their bytes lie."""
        offset, end = 0, len(self.bytes)
        while offset + 512 <= end and (head := self.bytes[offset : offset + 512])[0]:
            stated = head[148:156].strip(b"\0 ") or b"0"
            size = head[124:136].strip(b"\0 ") or b"0"
            start = offset + 512
            if not (stated + size).isdigit() or sum(head) - sum(head[148:156]) + 256 != int(
                stated, 8
            ):
                raise HoldfastError(f"the shard {self.path} is damaged at byte {offset}.")
            if head[156:157] in b"0\0":  # an ordinary file, not a header of its own
                yield head[:100].rstrip(b"\0").decode(), slice(start, start + int(size, 8))
            offset = start + -(-int(size, 8) // 512) * 512
        if offset + 1024 > end:
            raise HoldfastError(f"the shard {self.path} is cut after {end} bytes.")

    def _whole(self, number: int) -> bool:
        """Whether a sample has its three parts and its JPEG both ends."""
        names = members(number)
        if not all(name in self.places for name in names):
            return False
        place = self.places[names[1]]
        first, last = slice(place.start, place.start + 2), slice(place.stop - 2, place.stop)
        return self.bytes[first] == b"\xff\xd8" and self.bytes[last] == b"\xff\xd9"

    def __len__(self) -> int:
        return len(self.places) // 3

    def __getitem__(self, number: int) -> Sample:
        info, jpeg, label = (self.bytes[self.places[name]] for name in members(number))
        return Sample(info.decode(), jpeg, int(label))


class Shards(ImageSource):
    """The finished images of CCC, from shards in the official layout: ROOT/RUN/serial_00000.tar, ...

    Args:
        root: a folder, or the address of one on a server, from which shards are downloaded as they are
            needed; default: the published ones.
        shard_images: images at least in a shard, 25,000 in the official ones.
        cache: where downloaded shards lie.
        keep: downloaded shards of a run that stay on disk; None for all.
        timeout: seconds without a byte, after which a download is cut and continued.
        attempts: of reading from a server, in a row and without progress.
        pause: seconds before the second attempt; doubled for each further one.
    """

    classes, size = 1000, 224

    def __init__(
        self,
        root: str = HOSTED,
        shard_images: int = SHARD,
        cache: str | Path = CACHE,
        keep: int | None = 3,
        timeout: float = 30.0,
        attempts: int = 8,
        pause: float = 1.0,
    ) -> None:
        self.root, self.shard_images, self.keep = root.rstrip("/"), shard_images, keep
        self.cache = Path(cache).expanduser()
        self.patience = Patience(timeout, attempts, pause)
        self.remote = self.root.startswith(("http://", "https://"))
        self.run, self.step, self.count = "", 0, 0
        self._opened: dict[int, Shard] = {}

    def __repr__(self) -> str:
        return f"Shards({self.root})"

    def __len__(self) -> int:
        return self.count

    def open(self, run: str, speed: int, images: int | None) -> "Shards":
        """The shards of one run, checked to reach `images`, or all there are."""
        run_shards = Shards(self.root, self.shard_images, self.cache, self.keep, *self.patience)
        run_shards.run, run_shards.step = run, shard_size(speed, self.shard_images)
        run_shards._check(images)
        return run_shards

    def _check(self, images: int | None) -> None:
        """Count the shards, as far as they are needed, and refuse too few before anything starts."""
        needed = None if images is None else -(-images // self.step)
        found = self._shards(needed)
        self.count = found * self.step
        if not found:
            raise HoldfastError(
                f"there are no shards at {self.root}/{self.run}: expected {shard_name(0)}, "
                f"{shard_name(1)}, ... there; `holdfast generate` makes them, and the published ones "
                f"are at {HOSTED}."
            )
        if needed is not None and found < needed:
            raise HoldfastError(
                f"the {found} shards at {self.root}/{self.run} end after {self.count} images: make "
                f"more, or ask for images={self.count} at most (null for all of them)."
            )

    def _shards(self, most: int | None) -> int:
        """The number of shards from the first on, `most` at most; asks a server few questions."""
        if not self.remote:
            return next(n for n in naturals() if n == most or not self._has(n))
        if most is not None and self._has(most - 1):
            return most
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
        """index: positions in the stream, int64 [B] -> images uint8 [B,3,H,W], labels int64 [B]."""
        samples = [self.sample(position) for position in index.tolist()]
        return torch.stack([decoded(s) for s in samples]), torch.tensor([s.label for s in samples])

    def sample(self, position: int) -> Sample:
        """What the shards hold at a position of the stream."""
        number, place = divmod(position, self.step)
        return self._open(number)[place]

    def _open(self, number: int) -> Shard:
        if number not in self._opened:
            path = Path(self.root, self.run, shard_name(number))
            shard = self._downloaded(number) if self.remote else Shard(path)
            if len(shard) != self.step:
                raise HoldfastError(
                    f"{shard.path} holds {len(shard)} images, not {self.step}: it is of another "
                    "layout (say so with shard_images=), or damaged."
                )
            self._opened = {n: s for n, s in self._opened.items() if n == number - 1}
            self._opened[number] = shard
        return self._opened[number]

    def _downloaded(self, number: int) -> Shard:
        """A shard from the server or from the cache; the next one is downloaded meanwhile."""
        folder = self.cache / self.run
        path = folder / shard_name(number)
        with locked(path):
            shard = self._fetched(number, path)
        if self.keep is not None:
            for old in sorted(folder.glob("serial_*.tar"))[: -self.keep]:
                if old < path:
                    old.unlink(missing_ok=True)
        if (number + 1) * self.step < self.count:
            Thread(target=self._ahead, args=(number + 1,), daemon=True).start()
        return shard

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
                path.unlink()  # a torn cache; a second time it is the server's own
        raise AssertionError

    def _ahead(self, number: int) -> None:
        path = self.cache / self.run / shard_name(number)
        try:
            with locked(path):
                if not path.exists():
                    fetch(f"{self.root}/{self.run}/{shard_name(number)}", path, self.patience)
        except (HoldfastError, OSError):
            return  # whoever needs this shard meets the same, and says so

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_opened": {}}  # a map of memory cannot be sent to a worker


def decoded(sample: Sample) -> Tensor:
    """Pixels [3,H,W] uint8; raises HoldfastError if the JPEG is damaged."""
    try:
        with Image.open(io.BytesIO(sample.jpeg)) as image:
            return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)
    except (OSError, SyntaxError, ValueError) as error:
        raise HoldfastError(f"an image in a shard cannot be decoded ({sample.info}).") from error
