"""The corruption engine: the 15 corruptions of ImageNet-C and the 4 extra ones, batched and seeded.

>>> images = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
>>> corrupt(images, "fog", severity=2.5, seed=7, table="cifar").shape
torch.Size([2, 3, 32, 32])
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from ... import HoldfastError
from . import blur, digital, noise, weather
from .codec import jpeg
from .image import to_bytes, truncate
from .parameters import parameters
from .random import Rng

__all__ = ["CORRUPTIONS", "EXTRA", "check", "corrupt", "jpeg"]

_COMMON = (
    noise.gaussian_noise,
    noise.shot_noise,
    noise.impulse_noise,
    blur.defocus_blur,
    blur.glass_blur,
    blur.motion_blur,
    blur.zoom_blur,
    weather.snow,
    weather.frost,
    weather.fog,
    weather.brightness,
    digital.contrast,
    digital.elastic_transform,
    digital.pixelate,
    digital.jpeg_compression,
)
_HELD_OUT = (noise.speckle_noise, blur.gaussian_blur, weather.spatter, digital.saturate)

_FUNCTIONS = {function.__name__: function for function in _COMMON + _HELD_OUT}
_ALIASES = {"elastic": "elastic_transform", "jpeg": "jpeg_compression"}  # CCC's short names

CORRUPTIONS = tuple(function.__name__ for function in _COMMON)
EXTRA = tuple(function.__name__ for function in _HELD_OUT)

# These two are made of 8-bit steps: they take and return uint8, and float images are rounded first.
_IN_BYTES = ("pixelate", "jpeg_compression")

# On the CPU a batch is worked through in pieces of about this many values, which stay in its cache.
_PIECE = 3 * 2**17


@torch.no_grad()
def corrupt(
    images: Tensor,
    name: str,
    severity: float | Tensor,
    seed: int | Tensor,
    table: str = "imagenet",
) -> Tensor:
    """Corrupt each image [B, 3, H, W] by its pixels, its severity in [0, 5] and its seed alone.

    uint8 images come back as uint8, truncated as in CCC; float images in [0, 1] come back clipped
    and unquantised (but `pixelate` and `jpeg_compression` work in 8 bits by nature). Severity 0
    returns the images unchanged; fractional severities interpolate the table (`parameters.py`).
    Severities and seeds are one number or [B]; raises HoldfastError where they or the images are not.
    """
    name = _named(name)
    kind = images.dtype == torch.uint8 or images.is_floating_point()
    if images.ndim != 4 or images.shape[1] != 3 or not kind:
        shape = f"{list(images.shape)} {str(images.dtype).removeprefix('torch.')}"
        raise HoldfastError(f"Images to corrupt are [B, 3, H, W], uint8 or float, not {shape}.")
    count, device = len(images), images.device
    severities = torch.as_tensor(severity, dtype=torch.float64)
    seeds = torch.as_tensor(seed, dtype=torch.int64, device=device)
    if any(numbers.shape not in ((), (1,), (count,)) for numbers in (severities, seeds)):
        raise HoldfastError(f"Give one severity and one seed, or {count}, one for each image.")
    severities, seeds = severities.expand(count), seeds.expand(count)
    out = torch.empty_like(images)
    for level in severities.unique().tolist():
        values = parameters(name, level, table)
        for part in _parts(severities == level, images):
            if level == 0:
                out[part] = images[part]
                continue
            x = _as_bytes(images[part]) if name in _IN_BYTES else _as_float(images[part])
            x = _FUNCTIONS[name](x, Rng(seeds[part], name), *values)
            if images.dtype == torch.uint8:
                out[part] = x if name in _IN_BYTES else truncate(x)
            else:
                out[part] = _as_float(x).clamp(0, 1)
    return out


def check(name: str, severity: float, table: str) -> None:
    """Raise HoldfastError where there is no such corruption, severity or table."""
    parameters(_named(name), severity, table)


def _named(name: str) -> str:
    """The full name of a corruption."""
    name = _ALIASES.get(name, name)
    if name not in _FUNCTIONS:
        raise HoldfastError(f"There is no corruption {name!r}; use one of {', '.join(_FUNCTIONS)}.")
    return name


def _parts(chosen: Tensor, images: Tensor) -> Iterable[slice | Tensor]:
    """Indices of the chosen images, in pieces of a good size for their device."""
    piece = len(images)
    if images.device.type == "cpu":
        piece = max(1, _PIECE // max(1, images[:1].numel()))
    if chosen.all():
        return (slice(start, start + piece) for start in range(0, len(images), piece))
    return chosen.nonzero().squeeze(1).to(images.device).split(piece)


def _as_float(images: Tensor) -> Tensor:
    x = images.contiguous().to(torch.float32)
    return x.div(255) if images.dtype == torch.uint8 else x


def _as_bytes(images: Tensor) -> Tensor:
    x = images.contiguous()
    return x if x.dtype == torch.uint8 else to_bytes(x)
