"""Blurs: defocus, glass, motion, zoom and Gaussian (see `noise.py`)."""

from __future__ import annotations

import math

import cv2
import numpy as np
import torch
from torch import Tensor

from .image import REPLICATE, correlate, shifted_sum, smooth, truncate, warp
from .random import Rng


def gaussian_blur(x: Tensor, rng: Rng, sigma: float) -> Tensor:
    """Gaussian filter, cut at 4 sigma, borders replicated."""
    return smooth(x, sigma)


def defocus_blur(x: Tensor, rng: Rng, radius: float, alias_sigma: float) -> Tensor:
    """Correlation with an anti-aliased disk."""
    return correlate(x, disk(radius, alias_sigma))


def disk(radius: float, alias_sigma: float) -> np.ndarray:
    """A normalised disk on a 17 x 17 grid, slightly blurred.

    Above radius 8 the grid is -radius, -radius + 1, ..., radius, fractional where the radius is,
    as in CCC.
    """
    line = np.arange(-8, 9) if radius <= 8 else np.arange(-radius, radius + 1)
    inside = (line[:, None] ** 2 + line**2 <= radius**2).astype(np.float32)
    size = 3 if radius <= 8 else 5
    return cv2.GaussianBlur(inside / inside.sum(), (size, size), sigmaX=alias_sigma)


def glass_blur(x: Tensor, rng: Rng, sigma: float, shift: float, iterations: float) -> Tensor:
    """Gaussian filter, 8 bits, local shuffle of the pixels, Gaussian filter."""
    reach = round(max(shift, 1))
    x = truncate(smooth(x, sigma)).div_(255)
    for _ in range(round(iterations)):
        inner = (x.shape[-2] - 2 * reach, x.shape[-1] - 2 * reach)
        if min(inner) > 0:
            x = shuffle(x, *rng.integers(-reach, reach, 2, *inner).unbind(1), reach)
    return smooth(x, sigma)


def shuffle(x: Tensor, dv: Tensor, du: Tensor, reach: int) -> Tensor:
    """Give each pixel (v, u), from the last to the first, the value then at (v + dv, u + du).

    v runs from H - reach down to reach + 1, u likewise; dv and du [B, H - 2 reach, W - 2 reach]
    lie in [-reach, reach). The reference swaps the two pixels through views of one array, which
    copies. So a pixel ends up with the input at the end of a chain of offsets, followed for as
    long as it leads to a pixel that already had its turn. All chains are followed at once.
    """
    height, width = x.shape[-2:]
    source = torch.arange(len(x) * height * width, dtype=torch.int32, device=x.device)
    source = source.view(-1, height, width)
    turn = torch.zeros_like(source, dtype=torch.bool)
    inner = (..., slice(reach + 1, height - reach + 1), slice(reach + 1, width - reach + 1))
    turn[inner] = True
    home = source.clone().view(-1)
    source[inner] += dv * width + du
    step, turn, end = source.view(-1), turn.view(-1), source.view(-1).clone()
    active = ((step > home) & turn.index_select(0, step)).nonzero().squeeze(1).to(torch.int32)
    while len(active):
        here = end.index_select(0, active)
        there = step.index_select(0, here)
        end.index_copy_(0, active.long(), there)
        active = active[(there > here) & turn.index_select(0, there)]
    planes = x.transpose(0, 1).reshape(x.shape[1], -1)
    return planes.index_select(1, end).view(-1, *source.shape).transpose(0, 1).contiguous()


def motion_blur(x: Tensor, rng: Rng, radius: float, sigma: float) -> Tensor:
    """One-sided Gaussian along a line at an angle of U(-45, 45) degrees."""
    return streak(x, rng.uniform(-45, 45, 1), radius, sigma)


def streak(x: Tensor, degrees: Tensor, radius: float, sigma: float) -> Tensor:
    """out(p) = sum_i k_i x(p + i (cos a, sin a)), k_i ~ exp(-i^2 / 2 sigma^2), i <= 2 ceil(radius).

    The steps are rounded to whole pixels and the borders replicated, as in imagecorruptions. Where
    the line leaves the image we go on along the border; imagecorruptions stops there, which
    darkens images smaller than the line.
    """
    steps = np.arange(2 * math.ceil(radius) + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    angle = np.deg2rad(degrees.cpu().numpy().astype(np.float64).reshape(-1, 1))
    dv, du = (np.ceil(steps * way(angle) - 0.5).astype(np.int64) for way in (np.sin, np.cos))
    return shifted_sum(x, dv, du, weights / weights.sum())


def zoom_blur(x: Tensor, rng: Rng, stop: float, step: float) -> Tensor:
    """(x + sum of x zoomed by each factor) / (n + 1), the n factors being arange(1, stop, step)."""
    factors = np.arange(1, stop, step)
    total = x.clone()
    for factor in factors:
        total += zoom(x, factor)
    return total.div_(len(factors) + 1)


def zoom(x: Tensor, factor: float) -> Tensor:
    """Enlarge the central 1 / factor of each side linearly, corners on corners; cut to size."""
    inverse = np.zeros((2, 3))
    for axis, size in enumerate((x.shape[-1], x.shape[-2])):
        kept = math.ceil(size / factor)
        first, enlarged = (size - kept) // 2, round(kept * factor)
        scale = (kept - 1) / max(enlarged - 1, 1)
        inverse[axis, axis] = scale
        inverse[axis, 2] = first + (enlarged - size) // 2 * scale
    return warp(x, inverse, REPLICATE)
