"""Digital: contrast, saturation, elastic transform, pixelation and JPEG (see `noise.py`)."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from .codec import each, jpeg
from .image import REFLECT, REFLECT_101, displace, opencv, smooth, warp
from .random import Rng


def contrast(x: Tensor, rng: Rng, factor: float) -> Tensor:
    """(x - mean) factor + mean, with each channel's mean."""
    # A sum of integers is the same in any order, whatever the batch and the threads.
    total = x.mul(2**24).to(torch.int64).sum((2, 3), keepdim=True)
    mean = total.to(torch.float64).div_(2**24 * x.shape[2] * x.shape[3]).to(x.dtype)
    return (x - mean).mul_(factor).add_(mean)


def saturate(x: Tensor, rng: Rng, factor: float, offset: float) -> Tensor:
    """S factor + offset in HSV, within [0, 1]: x' = V (1 - S' (V - x) / (V - min)).

    Grey pixels have no hue; the offset colours them red, as hue 0 does in scikit-image.
    """
    value, low = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
    range_ = value - low
    saturation = (range_ / value.clamp(min=1e-12)).mul_(factor).add_(offset).clamp_(0, 1)
    red = x.new_tensor((0, 1, 1)).view(3, 1, 1)
    distance = torch.where(range_ > 0, (value - x) / range_, red)
    return value - value * saturation * distance


def elastic_transform(x: Tensor, rng: Rng, strength: float, sigma: float, jitter: float) -> Tensor:
    """Affine jitter of three points by U(-jitter, jitter), then displacement by smoothed U(-1, 1).

    (dv, du) = strength gauss_sigma(U(-1, 1)), cut at 3 sigma; parameters are pixels at every size.
    """
    height, width = x.shape[-2:]
    moved = rng.uniform(-1, 1, 3, 2).cpu().numpy().astype(np.float64) * jitter
    x = warp(x, jitter_matrix(moved, height, width), REFLECT_101)
    du, dv = blurred_field(rng.uniform(-1, 1, 2, height, width), sigma).mul_(strength).unbind(1)
    return displace(x, dv, du, REFLECT)


def jitter_matrix(moved: np.ndarray, height: int, width: int) -> np.ndarray:
    """The affine maps [B, 2, 3] that undo moving three points about the centre by [B, 3, 2]."""
    centre, reach = np.array([width // 2, height // 2]), min(height, width) // 3
    points = centre + reach * np.array([[1, 1], [1, -1], [-1, -1]])
    ones = np.ones((len(moved), 3, 1))
    return np.linalg.solve(
        np.concatenate([points + moved, ones], axis=2), np.broadcast_to(points, moved.shape)
    ).transpose(0, 2, 1)


def blurred_field(noise: Tensor, sigma: float) -> Tensor:
    """Gaussian filter of [B, C, H, W], cut at 3 sigma, borders reflected.

    A filter wider than the image leaves only its lowest frequencies. It is then applied in the
    cosine basis, where reflection makes it diagonal; components below 1/1000 are dropped.
    """
    height, width = noise.shape[-2:]
    if 6 * sigma < min(height, width):
        return smooth(noise, sigma, cut=3.0, border=REFLECT)
    down = _cosine_filter(height, sigma, noise.device)
    right = _cosine_filter(width, sigma, noise.device)
    # One image after the other: the order of a matrix product's sums may change with its shape.
    images = [down[0] @ (down[1] @ image @ right[1].T) @ right[0].T for image in noise.double()]
    return torch.stack(images).to(noise.dtype)


@lru_cache(maxsize=64)
def _cosine_filter(size: int, sigma: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """A, B [size, rank] -> A [size, rank], B [rank, size]: the Gaussian filter of a line is A B."""
    radius = int(3 * sigma + 0.5)
    taps = np.arange(-radius, radius + 1)
    kernel = np.exp(-0.5 * (taps / sigma) ** 2)
    kernel /= kernel.sum()
    order = np.arange(size)
    response = (kernel[:, None] * np.cos(np.pi * taps[:, None] * order / size)).sum(0)
    order = order[np.abs(response) >= 1e-3]
    basis = np.cos(np.pi * (np.arange(size)[:, None] + 0.5) * order / size)
    basis *= np.where(order == 0, 1, 2**0.5) / size**0.5
    analysis, synthesis = basis.T * response[order][:, None], basis
    return torch.from_numpy(synthesis).to(device), torch.from_numpy(analysis).to(device)


def pixelate(x: Tensor, rng: Rng, scale: float) -> Tensor:
    """Shrink by averaging over boxes and enlarge again, in uint8."""
    height, width = x.shape[-2:]
    rows, columns = int(height * scale), int(width * scale)
    if not opencv(x):
        return shrink_and_enlarge(x, rows, columns)
    # Enlarging by boxes is taking the nearest pixel, which is faster; but it splits ties otherwise.
    ties = any(2 * a // math.gcd(2 * a, b) % 2 for a, b in ((height, rows), (width, columns)))
    enlarge = Image.Resampling.BOX if ties else Image.Resampling.NEAREST

    def resize(image: np.ndarray) -> np.ndarray:
        large = Image.frombuffer("RGBX", (width, height), image, "raw", "RGBX", 0, 1)
        small = large.resize((columns, rows), Image.Resampling.BOX)
        return np.asarray(small.resize((width, height), enlarge))

    return each(resize, x, fourth=True)  # Pillow keeps four channels and would copy three


def shrink_and_enlarge(x: Tensor, rows: int, columns: int) -> Tensor:
    """Pillow's box filter of uint8 [B, C, H, W] to [rows, columns] and back.

    A small pixel is the mean of the pixels whose centres lie in its box, rounded after each
    direction; a large one is the small pixel that its centre lies in. Pillow takes the vertical
    direction first in images much higher than wide; there a rounding may differ.
    """
    old, x = x.shape, x.double()
    for dim, size in ((3, columns), (2, rows)):
        scale, pixels = old[dim] / size, torch.arange(old[dim], dtype=torch.float64)
        centre = (torch.arange(size, dtype=torch.float64) + 0.5) * scale
        offset = (pixels[:, None] - centre + 0.5) * (1 / scale)
        inside = ((offset > -0.5) & (offset <= 0.5)).double()
        weights = (inside * (2**22 / inside.sum(0) + 0.5).floor()).to(x.device)
        # Integers in float64: exact, whatever the order of the sums.
        x = x @ weights if dim == 3 else weights.T @ x
        x = (x + 2**21).mul_(2.0**-22).floor_()
    for dim, size in ((3, columns), (2, rows)):
        centre = (torch.arange(old[dim], dtype=torch.float64) + 0.5) * (size / old[dim])
        x = x.index_select(dim, centre.long().to(x.device))
    return x.to(torch.uint8)


def jpeg_compression(x: Tensor, rng: Rng, quality: float) -> Tensor:
    """JPEG at a rounded quality, in uint8."""
    return jpeg(x, round(quality))
