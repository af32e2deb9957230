"""Operations on images [B,C,H,W] that the corruptions share: filters, warps, conversion to 8 bits and back.

Each has two backends. On the CPU OpenCV works plane by plane, several times faster than torch
there; elsewhere elementwise torch operations do the same. Both treat every image by itself and in
a fixed order, so a pixel does not depend on the batch around it. Warps by OpenCV are exact from
version 5; earlier ones round positions to 1/32 pixel.
"""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ... import HoldfastError
from ...tensors import on_device

_Array = np.ndarray

# What lies beyond the edge of a b c: a a | a b c, b a | a b c, c b | a b c.
REPLICATE, REFLECT, REFLECT_101 = cv2.BORDER_REPLICATE, cv2.BORDER_REFLECT, cv2.BORDER_REFLECT_101


def opencv(x: Tensor) -> bool:
    """Whether OpenCV is used for x."""
    return x.device.type == "cpu"


def read(path: Path) -> _Array:
    """The RGB image uint8 [H,W,3] of a PNG or JPEG file.

    Raises:
        HoldfastError: if it cannot be read.
    """
    pixels = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if pixels is None:
        raise HoldfastError(
            f"Cannot read the image {path}. Reinstall the package that contains it."
        )
    return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)


def to_bytes(x: Tensor) -> Tensor:
    """Round [0,1] to uint8."""
    return x.mul(255).add_(0.5).clamp_(0, 255).to(torch.uint8)


def truncate(x: Tensor) -> Tensor:
    """Truncate [0,1] to uint8, like numpy.

    Values within a thousandth below a level count as that level: float32 here, float64 there.
    """
    # Both conversions together take a third of the time of the one from float32 to uint8.
    return x.mul(255).add_(1e-3).clamp_(0, 255).to(torch.int32).to(torch.uint8)


def from_threshold(x: Tensor, threshold: float) -> Tensor:
    """x where it is at least `threshold`, else 0; `masked_fill` takes thirty times as long."""
    below = np.nextafter(np.float32(threshold), np.float32(-np.inf))
    return F.threshold(x, float(below), 0)


def correlate(x: Tensor, kernel: _Array) -> Tensor:
    """Correlate every plane with one 2-D kernel (borders reflect_101, anchor at size // 2)."""
    kernel = _trim(kernel)
    if opencv(x):
        return _planes(lambda plane, out: cv2.filter2D(plane, -1, kernel, dst=out), x)
    height, width = kernel.shape
    top, left = height // 2, width // 2
    padded = pad(x, (left, width - 1 - left, top, height - 1 - top), REFLECT_101)
    out = torch.zeros_like(x)
    for row, column in zip(*np.nonzero(kernel), strict=True):
        window = padded[..., row : row + x.shape[-2], column : column + x.shape[-1]]
        out += window * float(kernel[row, column])
    return out


def smooth(x: Tensor, sigma: float, cut: float = 4.0, border: int = REPLICATE) -> Tensor:
    """Gaussian filter, truncated at a number of sigmas as in SciPy; scikit-image's defaults."""
    radius = int(cut * sigma + 0.5)
    if radius == 0:
        return x
    kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    kernel = (kernel / kernel.sum()).astype(np.float32)
    if opencv(x):
        return _planes(
            lambda plane, out: cv2.sepFilter2D(
                plane, -1, kernel, kernel, dst=out, borderType=border
            ),
            x,
        )
    for dim in (-1, -2):
        sides = (radius, radius, 0, 0) if dim == -1 else (0, 0, radius, radius)
        padded, size = pad(x, sides, border), x.shape[dim]
        x = padded.narrow(dim, 0, size) * float(kernel[0])
        for i, weight in enumerate(kernel.tolist()[1:], start=1):
            x += padded.narrow(dim, i, size) * weight
    return x


def warp(x: Tensor, inverse: _Array, border: int = REPLICATE) -> Tensor:
    """Bilinear warp: out[b, :, v, u] = x[b, :, v', u'] with (u', v') = inverse[b] (u, v, 1)."""
    inverse = np.broadcast_to(inverse, (len(x), 2, 3))
    height, width = x.shape[-2:]
    if opencv(x):
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        return interleaved(
            lambda image, b: cv2.warpAffine(
                image, inverse[b], (width, height), flags=flags, borderMode=border
            ),
            x,
        )
    a = on_device(torch.from_numpy(inverse.astype(np.float32)), x.device)[..., None, None]
    v, u = _grid(height, width, x.device)
    columns = a[:, 0, 0] * u + a[:, 0, 1] * v + a[:, 0, 2]
    rows = a[:, 1, 0] * u + a[:, 1, 1] * v + a[:, 1, 2]
    return _gather(x, rows, columns, border)


def add_warps(x: Tensor, inverses: _Array) -> Tensor:
    """x + the sum of its warps by each of inverses [n,2,3]."""
    if opencv(x):
        size, flags = x.shape[:-3:-1], cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP

        def add(image: _Array, b: int) -> _Array:
            total = image.copy()
            for inverse in inverses:
                warped = cv2.warpAffine(
                    image, inverse, size, flags=flags, borderMode=cv2.BORDER_REPLICATE
                )
                cv2.add(total, warped, dst=total)
            return total

        return interleaved(add, x)
    total = x.clone()
    for inverse in inverses:
        total += warp(x, inverse)
    return total


def displace(x: Tensor, dv: Tensor, du: Tensor, border: int = REFLECT) -> Tensor:
    """Bilinear displacement: out[b, :, v, u] = x[b, :, (v + dv[b,v,u], u + du[b,v,u])]."""
    v, u = _grid(x.shape[-2], x.shape[-1], x.device)
    rows, columns = dv + v, du + u
    if opencv(x):
        maps = list(zip(columns.numpy(), rows.numpy(), strict=True))
        return interleaved(
            lambda image, b: cv2.remap(image, *maps[b], cv2.INTER_LINEAR, borderMode=border), x
        )
    return _gather(x, rows, columns, border)


def shifted_sum(x: Tensor, dv: _Array, du: _Array, weights: _Array) -> Tensor:
    """out[b, :, v, u] = sum_i weights[i] x[b, :, v + dv[b,i], u + du[b,i]], edges repeated."""
    height, width = x.shape[-2:]
    top, left = max(0, -dv.min()), max(0, -du.min())
    sides = (left, max(0, du.max()), top, max(0, dv.max()))
    padded = pad(x, sides, REPLICATE)
    dv, du = dv + top, du + left
    if opencv(x):
        # All planes of an image at once, one below the other with their borders.
        stacked = padded.flatten(1, 2).numpy()
        rows = stacked.shape[1] - (padded.shape[2] - height)
        out = np.zeros((len(x), stacked.shape[1], width), np.float32)
        for image, total, down, right in zip(stacked, out, dv.tolist(), du.tolist(), strict=True):
            total = total[:rows]
            for v, u, weight in zip(down, right, weights.tolist(), strict=True):
                cv2.scaleAdd(image[v : v + rows, u : u + width], weight, total, dst=total)
        return torch.from_numpy(out).view(*padded.shape[:3], width)[:, :, :height]
    flat = padded.flatten(2)
    v, u = _grid(height, width, x.device)
    home = v * padded.shape[3] + u
    offsets = on_device(torch.from_numpy(dv * padded.shape[3] + du), x.device)
    result = torch.zeros_like(x)
    for i, weight in enumerate(weights.tolist()):
        index = (home + offsets[:, i, None, None]).flatten(1)[:, None].expand(-1, x.shape[1], -1)
        result += flat.gather(2, index).view_as(x) * weight
    return result


def pad(x: Tensor, sides: tuple[int, int, int, int], border: int) -> Tensor:
    """Extend [B,C,H,W] by (left, right, top, bottom); a border may exceed the image."""
    left, right, top, bottom = sides
    if border == REPLICATE:
        return F.pad(x, sides, mode="replicate")
    height, width = x.shape[-2:]
    rows = _fold(torch.arange(-top, height + bottom, device=x.device), height, border)
    columns = _fold(torch.arange(-left, width + right, device=x.device), width, border)
    return x[..., rows[:, None], columns]


def _fold(index: Tensor, size: int, border: int) -> Tensor:
    """Map indices outside [0, size) back into it by the border rule."""
    if border == REPLICATE or size == 1:
        return index.clamp(0, size - 1)
    if border == REFLECT:  # c b a | a b c | c b a
        index = index.remainder(2 * size)
        return torch.minimum(index, 2 * size - 1 - index)
    index = index.remainder(2 * size - 2)  # c b | a b c | b a
    return torch.minimum(index, 2 * size - 2 - index)


def _gather(x: Tensor, rows: Tensor, columns: Tensor, border: int) -> Tensor:
    """Bilinear interpolation of x [B,C,H,W] at (rows, columns) [B,H,W]."""
    height, width = x.shape[-2:]
    top, left = rows.floor(), columns.floor()
    down, right = (rows - top)[:, None], (columns - left)[:, None]
    v = [_fold(top.long() + i, height, border) for i in (0, 1)]
    u = [_fold(left.long() + i, width, border) for i in (0, 1)]
    flat = x.flatten(2)

    def corner(i: int, j: int) -> Tensor:
        index = (v[i] * width + u[j]).flatten(1)[:, None].expand(-1, x.shape[1], -1)
        return flat.gather(2, index).view_as(x)

    upper = corner(0, 0) * (1 - right) + corner(0, 1) * right
    lower = corner(1, 0) * (1 - right) + corner(1, 1) * right
    return upper * (1 - down) + lower * down


@lru_cache(maxsize=16)
def _grid(height: int, width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Row and column numbers, broadcastable to [height,width]."""
    return torch.arange(height, device=device)[:, None], torch.arange(width, device=device)


def _trim(kernel: _Array) -> _Array:
    """Cut zero margins off a kernel, equally on both sides, so that its centre does not move."""
    if kernel.shape[0] % 2 == 0:
        return kernel
    margin = min(min(line.min(), (kernel.shape[0] - 1 - line).min()) for line in np.nonzero(kernel))
    return np.ascontiguousarray(
        kernel[margin : len(kernel) - margin, margin : len(kernel) - margin]
    )


def _planes(function: Callable[[_Array, _Array], _Array], x: Tensor) -> Tensor:
    """Apply an OpenCV function (source, destination) to every plane."""
    out = torch.empty_like(x)
    for source, target in zip(x.flatten(0, 1).numpy(), out.flatten(0, 1).numpy(), strict=True):
        function(source, target)
    return out


def interleaved(function: Callable[[_Array, int], _Array], x: Tensor) -> Tensor:
    """Apply an OpenCV function (image [H,W,C], position in the batch) to every image."""
    out = torch.empty_like(x)
    for b, (planes, targets) in enumerate(zip(x.numpy(), out.numpy(), strict=True)):
        cv2.split(function(cv2.merge(tuple(planes)), b), list(targets))
    return out
