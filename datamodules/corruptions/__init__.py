"""The corruption engine: the 15 corruptions of ImageNet-C and the 4 extra ones, batched and seeded.

>>> images = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
>>> corrupt(images, "fog", severity=2.5, seed=7, table="cifar").shape
torch.Size([2, 3, 32, 32])
"""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TypeVar

import torch
from torch import Tensor

from ... import HoldfastError
from ...imagenet import CORRUPTIONS, EXTRA
from ...tensors import on_device
from . import blur, digital, noise, weather
from .codec import jpeg
from .image import to_bytes, truncate
from .parameters import TABLES, Rows, add_rows, parameters
from .random import Rng

__all__ = ["ALIASES", "CORRUPTIONS", "EXTRA", "SHORT", "check", "corrupt", "jpeg", "register"]

_Function = TypeVar("_Function", bound=Callable[..., Tensor])

ALIASES = {"elastic": "elastic_transform", "jpeg": "jpeg_compression"}  # CCC's short names
SHORT = {name: alias for alias, name in ALIASES.items()}

# Whatever has parameters is a corruption: the function of that name.
_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    name: getattr(module, name)
    for table in TABLES.values()
    for name in table
    for module in (noise, blur, weather, digital)
    if hasattr(module, name)
}

# These two consist of 8-bit steps: they take and return uint8, and float images are rounded first.
_IN_BYTES = ("pixelate", "jpeg_compression")

# On the CPU a batch is worked through in pieces of about this many values, which stay in its cache.
_PIECE = 3 * 2**17


@torch.no_grad()
def corrupt(
    images: Tensor, name: str, severity: float | Tensor, seed: int | Tensor, table: str = "imagenet"
) -> Tensor:
    """Corrupt each image [B,3,H,W] by its pixels, its severity in [0,5] and its seed alone.

    uint8 images come back as uint8, truncated as in CCC; float images in [0,1] come back clipped
    and unquantised (but `pixelate` and `jpeg_compression` work in 8 bits by nature). Severity 0
    returns the images unchanged; fractional severities interpolate the table (`parameters.txt`).
    Severities and seeds are one number or [B]; all other forms raise HoldfastError.
    """
    name = _full_name(name)
    kind = images.dtype == torch.uint8 or images.is_floating_point()
    if images.ndim != 4 or images.shape[1] != 3 or not kind:
        shape = f"{list(images.shape)} {str(images.dtype).removeprefix('torch.')}"
        raise HoldfastError(f"Images to corrupt must be [B,3,H,W], uint8 or float, not {shape}.")
    count, device = len(images), images.device
    severities = torch.as_tensor(severity, dtype=torch.float64)
    seeds = torch.as_tensor(seed, dtype=torch.int64)
    if any(numbers.shape not in ((), (1,), (count,)) for numbers in (severities, seeds)):
        raise HoldfastError(f"Pass one severity and one seed, or {count} of each, one per image.")
    severities, seeds = severities.expand(count), seeds.expand(count)
    out = torch.empty_like(images)
    for level in severities.unique().tolist():
        values = parameters(name, level, table)
        for piece in _pieces(severities == level, images):
            rows = on_device(piece, device) if isinstance(piece, Tensor) else piece
            if level == 0:
                out[rows] = images[rows]
                continue
            x = _as_bytes(images[rows]) if name in _IN_BYTES else _as_float(images[rows])
            x = _FUNCTIONS[name](x, Rng(seeds[piece], name, device), *values)
            if images.dtype == torch.uint8:
                out[rows] = x if name in _IN_BYTES else truncate(x)
            else:
                out[rows] = _as_float(x).clamp(0, 1)
    return out


def check(name: str, severity: float, table: str) -> None:
    """Raise HoldfastError if a corruption, severity or table does not exist."""
    parameters(_full_name(name), severity, table)


def register(**tables: Rows) -> Callable[[_Function], _Function]:
    """Decorator that registers a custom corruption, with its parameters at severities 0 to 5 in tables.

    The function takes images float32 [B,3,H,W] in [0,1], an `Rng` and a row of parameters, as those in
    `noise.py` do. Streams find it by its path, "my_module.my_function", without an import.

    Raises HoldfastError if the name is taken.
    """

    def enter(function: _Function) -> _Function:
        name = function.__name__
        known = _FUNCTIONS.get(name)
        if known and known.__module__ != function.__module__:
            raise HoldfastError(f"A corruption named {name} exists already. Choose another name.")
        add_rows(name, tables)
        _FUNCTIONS[name] = function
        return function

    return enter


def _full_name(name: str) -> str:
    """The name under which a corruption is registered; raises HoldfastError if there is none."""
    name = ALIASES.get(name, name)
    module, _, function = name.rpartition(".")
    if module:
        try:
            import_module(module)
        except (ImportError, TypeError) as error:
            raise HoldfastError(f"The corruption {name} cannot be imported ({error}).") from error
        name = function
    if name not in _FUNCTIONS:
        raise HoldfastError(f"Unknown corruption {name!r}. Choose from {', '.join(_FUNCTIONS)}.")
    return name


def _pieces(wanted: Tensor, images: Tensor) -> Iterable[slice | Tensor]:
    """Indices of the images, on the CPU, in chunks whose size suits the images' device."""
    size = len(images)
    if images.device.type == "cpu":
        size = max(1, _PIECE // max(1, images[:1].numel()))
    if wanted.all():
        return (slice(start, start + size) for start in range(0, len(images), size))
    return wanted.nonzero().squeeze(1).split(size)


def _as_float(images: Tensor) -> Tensor:
    x = images.contiguous().to(torch.float32)
    return x.div(255) if images.dtype == torch.uint8 else x


def _as_bytes(images: Tensor) -> Tensor:
    x = images.contiguous()
    return x if x.dtype == torch.uint8 else to_bytes(x)
