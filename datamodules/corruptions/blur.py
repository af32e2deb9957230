"""Blurs of images x [B,3,H,W]: defocus, glass, motion, zoom and Gaussian (see `noise.py`)."""

import math

import cv2
import numpy as np
import torch
from torch import Tensor

from .image import add_warps, correlate, shifted_sum, smooth, truncate
from .random import Rng


def gaussian_blur(x: Tensor, rng: Rng, sigma: float) -> Tensor:
    """Gaussian filter, cut at 4 sigma, borders replicated."""
    return smooth(x, sigma)


def defocus_blur(x: Tensor, rng: Rng, radius: float, alias_sigma: float) -> Tensor:
    """Correlation with an anti-aliased disk."""
    return correlate(x, disk(radius, alias_sigma))


def disk(radius: float, alias_sigma: float) -> np.ndarray:
    """A normalised disk on a 17 x 17 grid, slightly blurred.

    Above radius 8 the grid is -radius, -radius + 1, ..., radius, maybe fractional, as in CCC.
    """
    line = np.arange(-8, 9) if radius <= 8 else np.arange(-radius, radius + 1)
    inside = (line[:, None] ** 2 + line**2 <= radius**2).astype(np.float32)
    size = 3 if radius <= 8 else 5
    return cv2.GaussianBlur(inside / inside.sum(), (size, size), sigmaX=alias_sigma)


def glass_blur(x: Tensor, rng: Rng, sigma: float, shift: float, iterations: float) -> Tensor:
    """Gaussian filter, 8 bits, local shuffle of the pixels, Gaussian filter."""
    reach = round(max(shift, 1))
    x = truncate(smooth(x, sigma)).to(torch.float32).div_(255)
    inner = (x.shape[-2] - 2 * reach, x.shape[-1] - 2 * reach)
    if min(inner) > 0:
        pixels = torch.arange(x[:, 0].numel(), dtype=torch.int32, device=x.device)
        pixels = pixels.view(-1, *x.shape[2:])
        for _ in range(round(iterations)):
            dv, du = rng.integers(-reach, reach, 2, *inner).unbind(1)
            pixels = _shuffle(pixels, dv, du, reach)
        planes = x.transpose(0, 1).flatten(1)
        shuffled = [plane.index_select(0, pixels.view(-1)) for plane in planes]
        x = torch.stack(shuffled).view(-1, *pixels.shape).transpose(0, 1).contiguous()
    return smooth(x, sigma)


def _shuffle(x: Tensor, dv: Tensor, du: Tensor, reach: int) -> Tensor:
    """Give each pixel (v, u) of [B,H,W], the last one first, the value at (v + dv, u + du).

    v runs from H - reach down to reach + 1, u likewise; dv and du [B,H-2*reach,W-2*reach]
    lie in [-reach, reach). The reference swaps the two pixels through views of one array, so both get
    the same value. Where (v + dv, u + du) was processed before, its new value is copied: each pixel's
    value is thus the input at the end of a chain of copies. Pointer doubling finds all ends together.
    """
    height, width = x.shape[-2:]
    home = torch.arange(x.numel(), dtype=torch.int32, device=x.device).view_as(x)
    source = home.clone()
    source[..., reach + 1 : height - reach + 1, reach + 1 : width - reach + 1] += dv * width + du
    link = torch.maximum(source, home).view(-1)
    # A chain has fewer copies than an image has pixels. Only a CPU asks whether all have ended before.
    for _ in range((height * width).bit_length()):
        before, link = link, link.index_select(0, link)
        if x.device.type == "cpu" and torch.equal(before, link):
            break
    origin = source.view(-1).index_select(0, link)
    return x.view(-1).index_select(0, origin).view_as(x)


def motion_blur(x: Tensor, rng: Rng, radius: float, sigma: float) -> Tensor:
    """One-sided Gaussian along a line at an angle of U(-45, 45) degrees."""
    return streak(x, rng.for_host().uniform(-45, 45, 1), radius, sigma)


def streak(x: Tensor, degrees: Tensor, radius: float, sigma: float) -> Tensor:
    """Blur along a line of an angle [B,1], on the CPU.

    out(p) = sum_i k_i x(p + i (cos a, sin a)), k_i ~ exp(-i^2 / 2 sigma^2), i <= 2 ceil(radius).

    The steps are rounded to whole pixels and the borders replicated, as in imagecorruptions. Where
    the line leaves the image we go on along the border; imagecorruptions stops there, which
    darkens images smaller than the line.
    """
    steps = np.arange(2 * math.ceil(radius) + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    angle = np.deg2rad(degrees.numpy().astype(np.float64).reshape(-1, 1))
    dv, du = (np.ceil(steps * way(angle) - 0.5).astype(np.int64) for way in (np.sin, np.cos))
    return shifted_sum(x, dv, du, weights / weights.sum())


def zoom_blur(x: Tensor, rng: Rng, stop: float, step: float) -> Tensor:
    """(x + sum of x zoomed by each factor) / (n + 1), the n factors being arange(1, stop, step)."""
    height, width = x.shape[-2:]
    factors = np.arange(1, stop, step)
    inverses = np.stack([zoom_out(height, width, factor) for factor in factors])
    return add_warps(x, inverses).div_(len(factors) + 1)


def zoom_out(height: int, width: int, factor: float) -> np.ndarray:
    """The inverse of a bilinear zoom with aligned corners, cropped to the original size.

    Only the central 1 / factor of each side is enlarged, rounded up to whole pixels.
    """
    inverse = np.zeros((2, 3))
    for axis, size in enumerate((width, height)):
        centre = math.ceil(size / factor)
        first, enlarged = (size - centre) // 2, round(centre * factor)
        scale = (centre - 1) / max(enlarged - 1, 1)
        inverse[axis, axis] = scale
        inverse[axis, 2] = first + (enlarged - size) // 2 * scale
    return inverse
