"""Tar shards of CCC in the official layout: names, sizes, contents, writing and verification."""

import hashlib
import io
import mmap
import os
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ... import HoldfastError
from ...files import whole_file
from ..corruptions import ALIASES

SHARD = 25_000  # smallest number of images; a shard ends with the segment that reaches it
SHARDS = "serial_*.tar"  # the pattern of `shard_name`
THEIRS = {name: alias for alias, name in ALIASES.items()}  # CCC's short names of our corruptions


class Sample(NamedTuple):
    """The parts of an image's sample in a shard."""

    info: str  # ++dir++...++name++...++n1++...++s1++...++n2++...++s2++...
    jpeg: bytes
    label: int


def run_name(target: float, speed: int, seed: int) -> str:
    """The official name of a run, in which the difficulty is the target accuracy in percent."""
    return f"baseline_{target:g}_transition+speed_{speed}_seed_{seed}"


def shard_name(number: int) -> str:
    return f"serial_{number:05d}.tar"


def shard_size(speed: int, at_least: int = SHARD) -> int:
    """Images in a shard: whole segments, at least `least` images."""
    return speed * -(-at_least // speed)


def info(folder: str, name: str, pair: Iterable[tuple[str, float]]) -> str:
    """A sample's description; a corruption of severity 0 is named too."""
    text = f"++dir++{folder}++name++{name}"
    for number, (corruption, severity) in enumerate(pair, start=1):
        text += f"++n{number}++{THEIRS.get(corruption, corruption)}++s{number}++{severity}"
    return text


def corruptions_in(text: str) -> tuple[tuple[str, float], ...]:
    """The corruptions in a sample's description, without those of severity 0."""
    fields = text.split("++")[-8:]
    named = dict(zip(fields[::2], fields[1::2], strict=False))
    pair = [(named[f"n{k}"], float(named[f"s{k}"])) for k in (1, 2)]
    return tuple((ALIASES.get(name, name), severity) for name, severity in pair if severity > 0)


def members(number: int) -> list[str]:
    """Names in the archive of a sample's three parts."""
    return [f"sample_{number}.{key}" for key in ("info", "input.jpg", "output.cls")]


def write_shard(path: Path, samples: Iterable[Sample]) -> None:
    """Write a shard and its checksum: the same bytes for the same samples, and atomically."""
    checksum_file(path).unlink(missing_ok=True)  # of another shard
    with (
        whole_file(path) as partial,
        tarfile.open(partial, "w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for number, sample in enumerate(samples):
            contents = (sample.info.encode(), sample.jpeg, str(sample.label).encode())
            for name, content in zip(members(number), contents, strict=True):
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(content), 0o444
                tar.addfile(member, io.BytesIO(content))
    with whole_file(checksum_file(path)) as partial:
        partial.write_text(checksum(path))


def checksum_file(path: Path) -> Path:
    """The file with a shard's SHA-256, in the format of `sha256sum --check`."""
    return path.with_name(f"{path.name}.sha256")


def checksum(path: Path) -> str:
    """The SHA-256 of a file and its name, as in `checksum_file`."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(2**20):
            digest.update(piece)
    return f"{digest.hexdigest()}  {path.name}\n"


def verify(path: Path) -> None:
    """Raise HoldfastError if a shard differs from its checksum, or has none."""
    stated = checksum_file(path)
    try:
        known = stated.read_text(errors="replace")
    except FileNotFoundError:
        raise HoldfastError(
            f"{stated}, which contains the shard's checksum, does not exist. Generate the shard "
            "again, or do not verify it."
        ) from None
    if known != checksum(path):
        raise HoldfastError(
            f"The shard {path} has changed since it was generated (its SHA-256 is not the one in "
            f"{stated.name}). Remove it and download or generate it again."
        )


class Shard:
    """A shard opened for reading; raises HoldfastError if it is cut or damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                raise HoldfastError(f"The shard {path} is empty.")
            self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            self.places: dict[str, slice] = dict(self._members())
            whole = len(self) * 3 == len(self.places) and all(map(self._complete, range(len(self))))
        except ValueError:  # a name that is not text, a number that is not octal
            whole = False
        if not whole:
            raise HoldfastError(
                f"The shard {path} is damaged. Remove it and download or generate it again."
            )

    def _members(self) -> Iterator[tuple[str, slice]]:
        """The files in the archive, with the position of their bytes."""
        offset, end = 0, len(self.bytes)
        while offset + 512 <= end and (head := self.bytes[offset : offset + 512])[0]:
            stated = head[148:156].strip(b"\0 ") or b"0"
            size = head[124:136].strip(b"\0 ") or b"0"
            start = offset + 512
            if not (stated + size).isdigit() or sum(head) - sum(head[148:156]) + 256 != int(
                stated, 8
            ):
                raise HoldfastError(f"The shard {self.path} is damaged at byte {offset}.")
            if head[156:157] in b"0\0":  # an ordinary file, not a header of its own
                yield head[:100].rstrip(b"\0").decode(), slice(start, start + int(size, 8))
            offset = start + -(-int(size, 8) // 512) * 512
        if offset + 1024 > end:
            raise HoldfastError(f"The shard {self.path} ends too early, after {end} bytes.")

    def _complete(self, number: int) -> bool:
        """Whether a sample has its three parts and its JPEG is complete."""
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
        try:
            sample = Sample(info.decode(), jpeg, int(label))
            corruptions_in(sample.info)
        except (KeyError, ValueError) as error:
            raise HoldfastError(
                f"Sample {number} of the shard {self.path} is damaged ({error}). Remove the shard "
                "and download or generate it again."
            ) from error
        return sample


def decode(sample: Sample) -> Tensor:
    """Pixels [3,H,W] uint8; raises HoldfastError if the JPEG is damaged."""
    try:
        with Image.open(io.BytesIO(sample.jpeg), formats=["JPEG"]) as image:
            return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)
    except Exception as error:  # Pillow raises many types of errors for a damaged image
        raise HoldfastError(
            f"An image in a shard cannot be decoded ({sample.info}, {error}). Download or generate "
            "the shard again."
        ) from error
