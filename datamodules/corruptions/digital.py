"""Digital, on images x [B,3,H,W]: contrast, saturation, elastic, pixelation, JPEG (see `noise.py`)."""

from functools import lru_cache

import cv2
import numpy as np
import torch
from torch import Tensor

from ...tensors import on_device
from .codec import jpeg
from .image import REFLECT, REFLECT_101, displace, opencv, smooth, warp
from .random import Rng


def contrast(x: Tensor, rng: Rng, factor: float) -> Tensor:
    """(x - mean) factor + mean, with each channel's mean."""
    # A sum of integers is the same in any order, whatever the batch and the threads.
    total = x.mul(2**24).to(torch.int64).sum((2, 3), keepdim=True)
    mean = total.to(torch.float64).div_(2**24 * x.shape[2] * x.shape[3]).to(x.dtype)
    return (x - mean).mul_(factor).add_(mean)


def saturate(x: Tensor, rng: Rng, factor: float, offset: float) -> Tensor:
    """S factor + offset in HSV, within [0,1]: x' = V (1 - S' (V - x) / (V - min)).

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
    moved = rng.for_host().uniform(-1, 1, 3, 2).numpy().astype(np.float64) * jitter
    x = warp(x, _jitter_matrix(moved, height, width), REFLECT_101)
    du, dv = _blurred_field(rng.uniform(-1, 1, 2, height, width), sigma).mul_(strength).unbind(1)
    return displace(x, dv, du, REFLECT)


def _jitter_matrix(moved: np.ndarray, height: int, width: int) -> np.ndarray:
    """The affine maps [B,2,3] that undo moving three points about the centre by [B,3,2]."""
    centre, reach = np.array([width // 2, height // 2]), min(height, width) // 3
    points = centre + reach * np.array([[1, 1], [1, -1], [-1, -1]])
    ones = np.ones((len(moved), 3, 1))
    return np.linalg.solve(
        np.concatenate([points + moved, ones], axis=2), np.broadcast_to(points, moved.shape)
    ).transpose(0, 2, 1)


def _blurred_field(noise: Tensor, sigma: float) -> Tensor:
    """Gaussian filter of [B,C,H,W], cut at 3 sigma, borders reflected.

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
    """A, B [size,rank] -> A [size,rank], B [rank,size]: the Gaussian filter of a line is A B."""
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
    """Shrink by averaging over boxes and enlarge again, in uint8, with the pixels of Pillow's BOX.

    Columns come before rows, rounded in between; Pillow begins with the rows in tall images.
    """
    old = tuple(x.shape[-2:])
    small = tuple(max(1, int(size * scale)) for size in old)
    return (_resample if opencv(x) else _resample_on_device)(x, old, small)


def _resample(x: Tensor, old: tuple[int, ...], small: tuple[int, ...]) -> Tensor:
    """By OpenCV and numpy: columns are processed as rows of the transposed planes."""
    planes, (rows, columns) = x.numel() // (old[0] * old[1]), small
    image = cv2.transpose(x.numpy().reshape(-1, old[1]))
    image = cv2.transpose(_box_means(image, *_boxes(old[1], columns), axis=0))
    image = _box_means(image.reshape(planes, old[0], columns), *_boxes(old[0], rows), axis=1)
    image = cv2.transpose(image.reshape(-1, columns)).take(_nearest(columns, old[1]), axis=0)
    image = cv2.transpose(image).reshape(planes, rows, old[1])
    return torch.from_numpy(image.take(_nearest(rows, old[0]), axis=1)).view(x.shape)


def _box_means(x: np.ndarray, first: np.ndarray, count: np.ndarray, axis: int) -> np.ndarray:
    """Means of `count` neighbours from `first` on, along axis 0 or 1 of a uint8 array, half up."""
    out = np.empty((*x.shape[:axis], len(first), *x.shape[axis + 1 :]), np.uint8)
    for n in set(count.tolist()):
        here = np.flatnonzero(count == n)
        total = x.take(first[here], axis).astype(np.uint16)
        for k in range(1, n):
            total += x.take(first[here] + k, axis)
        total += n // 2
        out[(slice(None),) * axis + (here,)] = total // n
    return out


def _resample_on_device(x: Tensor, old: tuple[int, ...], small: tuple[int, ...]) -> Tensor:
    """By torch: integers in float64, which is exact whatever the order of the sums."""
    x = x.double()
    for dim in (1, 0):
        first, count = _boxes(old[dim], small[dim])
        pixels = np.arange(old[dim])[:, None]
        within = (pixels >= first) & (pixels < first + count)
        inside, n = (on_device(torch.from_numpy(v).double(), x.device) for v in (within, count))
        x = x @ inside if dim == 1 else inside.T @ x
        n = n if dim == 1 else n[:, None]
        x = (x + (n / 2).floor()).div_(n).floor_()
    for dim in (1, 0):
        chosen = on_device(torch.from_numpy(_nearest(small[dim], old[dim])), x.device)
        x = x.index_select(dim - 2, chosen)
    return x.to(torch.uint8)


@lru_cache(maxsize=64)
def _boxes(old: int, small: int) -> tuple[np.ndarray, np.ndarray]:
    """The first pixel whose centre lies in each box of width old / small, and the number of such pixels.

    In the arithmetic of Pillow, whose window and filter both decide on a centre at a box's edge.
    """
    scale, pixels = old / small, np.arange(old, dtype=np.float64)[:, None]
    centres = (np.arange(small) + 0.5) * scale
    offset = (pixels - centres + 0.5) * (1 / scale)
    inside = (offset > -0.5) & (offset <= 0.5) & (pixels >= np.floor(centres - scale / 2 + 0.5))
    return inside.argmax(0), inside.sum(0)


@lru_cache(maxsize=64)
def _nearest(small: int, old: int) -> np.ndarray:
    """The small pixel in which the centre of each large one lies."""
    return ((np.arange(old) + 0.5) * (small / old)).astype(np.int64)


def jpeg_compression(x: Tensor, rng: Rng, quality: float) -> Tensor:
    """JPEG at a rounded quality, in uint8."""
    return jpeg(x, round(quality))
