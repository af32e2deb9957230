"""Tar shards of CCC in the official layout: names, sizes, contents and writing."""

import io
import mmap
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ... import HoldfastError
from ...files import reason, whole_file
from ..corruptions import ALIASES, SHORT

SHARD = 25_000  # smallest number of images; a shard ends with the segment that reaches it


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
    """Images in a shard: whole segments, with `at_least` images or more."""
    return speed * -(-at_least // speed)


def info(folder: str, name: str, pair: Iterable[tuple[str, float]]) -> str:
    """A sample's description; a corruption of severity 0 is named too."""
    text = f"++dir++{folder}++name++{name}"
    for number, (corruption, severity) in enumerate(pair, start=1):
        text += f"++n{number}++{SHORT.get(corruption, corruption)}++s{number}++{severity}"
    return text


def corruptions_in(text: str) -> tuple[tuple[str, float], ...]:
    """The corruptions in a sample's description, without those of severity 0."""
    fields = text.split("++")[-8:]
    named = dict(zip(fields[::2], fields[1::2], strict=False))
    pair = [(named[f"n{k}"], float(named[f"s{k}"])) for k in (1, 2)]
    return tuple((ALIASES.get(name, name), severity) for name, severity in pair if severity > 0)


def _members(number: int) -> list[str]:
    """Names in the archive of a sample's three parts."""
    return [f"sample_{number}.{key}" for key in ("info", "input.jpg", "output.cls")]


def write_shard(path: Path, samples: Iterable[Sample]) -> None:
    """Write a shard: the same bytes for the same samples, and atomically."""
    with (
        whole_file(path) as partial,
        tarfile.open(partial, "w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for number, sample in enumerate(samples):
            contents = (sample.info.encode(), sample.jpeg, str(sample.label).encode())
            for name, content in zip(_members(number), contents, strict=True):
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(content), 0o444
                tar.addfile(member, io.BytesIO(content))


class Shard:
    """A shard opened for reading.

    Raises HoldfastError if it has not `size` complete samples; by default, any number but none.
    """

    def __init__(self, path: Path, size: int | None = None) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self.places = dict(self._members())
            if not all(name in self.places for k in range(len(self)) for name in _members(k)):
                raise ValueError("samples are missing")
        # A ValueError comes of an empty file, too, and of names that are not text.
        except (OSError, ValueError) as error:
            raise _damaged(path, error) from error
        if size not in (None, len(self)) or not len(self):
            raise HoldfastError(
                f"{path} contains {len(self)} images, not {size or 'any'}. If its layout differs, pass "
                "shard_images; otherwise the file is damaged."
            )

    def _members(self) -> Iterator[tuple[str, slice]]:
        """The files in the archive, with the position of their bytes."""
        # Of a header; tarfile takes four times as long, and ends silently at a damaged one.
        start = 0
        while start + 512 <= len(self.bytes) and (head := self.bytes[start : start + 512])[0]:
            size = int(head[124:136].strip(b"\0 ") or b"0", 8)
            stated = int(head[148:156].strip(b"\0 ") or b"0", 8)
            if sum(head) - sum(head[148:156]) + 8 * ord(" ") != stated:
                raise ValueError(f"at byte {start}")
            first = start + 512
            start = first + -(-size // 512) * 512
            if start > len(self.bytes):
                raise ValueError(f"it ends after {len(self.bytes)} bytes")
            if head[156:157] in b"0\0":  # an ordinary file
                yield head[:100].rstrip(b"\0").decode(), slice(first, first + size)

    def __len__(self) -> int:
        return len(self.places) // 3

    def __getitem__(self, number: int) -> Sample:
        info, jpeg, label = (self.bytes[self.places[name]] for name in _members(number))
        try:
            sample = Sample(info.decode(), jpeg, int(label))
            corruptions_in(sample.info)
        except (KeyError, ValueError) as error:
            raise _damaged(self.path, error) from error
        return sample


def _damaged(path: Path, error: Exception) -> HoldfastError:
    """The message for a shard that is cut or changed."""
    return HoldfastError(
        f"The shard {path} is damaged ({reason(error)}). Remove it and download or generate it again."
    )


def decode(sample: Sample) -> Tensor:
    """Pixels [3,H,W] uint8; raises HoldfastError if the JPEG is damaged."""
    try:
        with Image.open(io.BytesIO(sample.jpeg), formats=["JPEG"]) as image:
            return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)
    except Exception as error:  # Pillow raises many types of errors for a damaged image
        raise HoldfastError(
            f"An image in a shard cannot be decoded ({sample.info}, {error}). Generate the shard again."
        ) from error
