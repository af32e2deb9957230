"""Batches that one run has made, on disk for all others that need them."""

import contextlib
import json
import platform
import re
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from .. import HoldfastError
from ..batch import Batch
from ..files import locked, reason, whole_file, without, write_json
from .stream import Stream

KEY = "stream.json"  # in a stream's folder; its age tells when the stream was last used
FOLDER = re.compile(r"[0-9a-f]{16}")  # how a stream's folder is called
SLOTS = 64  # locks of a stream: this many of its batches can be made at the same time
STEPS = 64  # a process looks again after it has filled this fraction of the room
USED = 600  # seconds for which a stream counts as in use
CODE = Path(__file__).parent
PIXELS = ("torch", "torchvision", "numpy", "scipy", "pillow")  # whose versions may change a pixel


class BatchCache:
    """The batches of one stream, shared by all processes that see the folder.

    A batch is written whole or not at all, and made again if it is missing or damaged. While a process
    makes a batch, others that need it wait. A batch that lacks unreadable images is not written. At
    `size`, streams not in use are removed, least recently used first; of a stream that does not fit, the
    beginning stays.

    Args:
        folder: of all streams.
        size: bytes that all streams may take.
        key: what the pixels depend on, see `key_of`.
    """

    def __init__(self, folder: Path, size: int, key: dict[str, Any]) -> None:
        self.key, self.size = key, size
        self.folder = folder / sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
        self._room = 0  # bytes to write before looking again
        self._full = False
        self._used = -float("inf")

    def batch(self, index: Tensor, make: Callable[[Tensor], Batch]) -> Batch:
        """The batch at consecutive positions `index` [B]: read, or made and written."""
        first, count = int(index[0]), len(index)
        slot = self.folder / f"{first // count % SLOTS:02}"
        path = slot.with_name(f"{slot.name}.{first}-{count}.npz")
        self._note_use()
        if (found := read(path, index)) is not None:
            return found
        if self._full:
            return make(index)
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locked(slot))
            except (OSError, HoldfastError) as error:
                self._stop(error)
            if (found := read(path, index)) is None:
                found = make(index)
                if len(found.index) == count and not self._full:
                    self._write(path, found)
        return found

    def _write(self, path: Path, batch: Batch) -> None:
        arrays = {name: value.numpy() for name, value in zip(Batch._fields, batch, strict=True)}
        scaled = bytes_of(batch.images)
        arrays["scaled"] = np.array(scaled is not None)
        if scaled is not None:
            arrays["images"] = scaled.numpy()
        size = sum(array.nbytes for array in arrays.values())
        try:
            if size > self._room and not self._make_room(size):
                self._full = True
                return
            with whole_file(path, durable=False) as partial, partial.open("wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
            self._room -= size
        except OSError as error:
            self._stop(error)

    def _make_room(self, size: int) -> bool:
        """Ensure space for a batch of this many bytes; remove other streams if necessary."""
        streams = [
            path
            for path in self.folder.parent.iterdir()
            if FOLDER.fullmatch(path.name) and (path / KEY).exists()
        ]
        sizes = {path: sum(file.stat().st_size for file in files(path)) for path in streams}
        left = self.size - sum(sizes.values())
        for path in sorted(streams, key=last_used):
            if left >= size * STEPS or time.time() - last_used(path) < USED:
                break
            shutil.rmtree(path, ignore_errors=True)
            left += sizes[path]
        self._room = max(left // STEPS, size)
        return left >= size

    def _note_use(self) -> None:
        if time.monotonic() - self._used < USED / 10:
            return
        self._used = time.monotonic()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(self.folder / KEY, self.key)
        except OSError as error:
            self._stop(error)

    def _stop(self, error: Exception) -> None:
        if not self._full:
            warnings.warn(
                f"{self.folder.parent} cannot be written ({reason(error)}): this process reads from the "
                "cache, and adds nothing to it.",
                stacklevel=2,
            )
        self._full = True


def read(path: Path, index: Tensor) -> Batch | None:
    """The batch in that file; None if there is none, it is damaged, or its positions are others."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            batch = Batch(*(torch.from_numpy(arrays[name]) for name in Batch._fields))
            scaled = bool(arrays["scaled"])
    except (OSError, ValueError, TypeError, LookupError, EOFError, BadZipFile, NotImplementedError):
        return None
    if not torch.equal(batch.index, index):
        return None
    return batch._replace(images=batch.images.float() / 255) if scaled else batch


def bytes_of(images: Tensor) -> Tensor | None:
    """Images in [0,1] as uint8, where that gives the same numbers back; else None."""
    if not images.is_floating_point():
        return None
    values = (images * 255).round().to(torch.uint8)
    return values if torch.equal(values.float() / 255, images) else None


def key_of(stream: Stream, config: Any) -> dict[str, Any]:
    """What the pixels of a stream depend on.

    Args:
        config: the arguments that made it, as a run's configuration has them: a mapping of plain values.
    """
    config = json.loads(json.dumps(without(config, "num_workers"), default=str))
    texts = set(texts_in(config))
    modules = [sys.modules[name] for name in map(module_name, texts) if name in sys.modules]
    own = [Path(file) for module in modules if (file := getattr(module, "__file__", None))]
    return {
        "arguments": config,
        "identity": json.loads(json.dumps(stream.identity, default=str)),
        "corrupted": not stream.on_device,
        "files": {text: state for text in sorted(texts) if (state := state_of(Path(text)))},
        "code": digest([*sorted(CODE.rglob("*.py")), *sorted(set(own))]),
        "versions": {name: version(name) for name in PIXELS},
        "processor": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
    }


def texts_in(config: Any) -> Iterator[str]:
    """All texts among the values of a configuration."""
    if isinstance(config, str):
        yield config
    elif isinstance(config, dict | list):
        for value in config.values() if isinstance(config, dict) else config:
            yield from texts_in(value)


def module_name(class_path: str) -> str:
    return class_path.rpartition(".")[0]


def state_of(path: Path) -> list[Any] | None:
    """Where a file or folder lies, its size, and when it was changed; None if there is none."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return [str(path.resolve()), found.st_size, found.st_mtime_ns]


def digest(paths: list[Path]) -> str:
    """Of the contents of files."""
    return sha256(b"".join(sha256(path.read_bytes()).digest() for path in paths)).hexdigest()


def files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.is_file())


def last_used(folder: Path) -> float:
    return (folder / KEY).stat().st_mtime
