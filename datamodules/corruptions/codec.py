"""JPEG (ITU-T T.81), encoded and decoded: by OpenCV's libjpeg on the CPU, by torch elsewhere.

Only the lossy steps are made: YCbCr, 4:2:0, DCT, quantisation, and their inverses, rounded as in
libjpeg. torch multiplies integers in float64, which is exact: its results depend
neither on the batch nor on the device.
"""

from functools import lru_cache

import cv2
import numpy as np
import torch
from torch import Tensor

from .image import REPLICATE, interleaved, opencv, pad

# T.81, tables K.1 and K.2
_LUMINANCE = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
_CHROMINANCE = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
) + ((99,) * 8,) * 4
# JFIF's conversions in units of 2^-16
_ENCODE = ((19595, 38470, 7471), (-11059, -21709, 32768), (32768, -27439, -5329))
# The DCT-II times sqrt(8) in units of 2^-13, as libjpeg's accurate integer transform (Loeffler,
# Ligtenberg and Moschytz 1989) works out to: the left half, mirrored in the right one (odd rows
# with the sign changed).
_TRANSFORM = (
    (8192, 8192, 8192, 8192),
    (11363, 9633, 6437, 2260),
    (10703, 4433, -4433, -10703),
    (9633, -2259, -11362, -6436),
    (8192, -8192, -8192, 8192),
    (6437, -11362, 2261, 9633),
    (4433, -10704, 10704, -4433),
    (2260, -6436, 9633, -11363),
)
_RED_CR, _GREEN_CB, _GREEN_CR, _BLUE_CB = 91881, -22554, -46802, 116130


def jpeg(images: Tensor, quality: int) -> Tensor:
    """Encode and decode uint8 images [B,3,H,W] as JPEG with 4:2:0 subsampling."""
    if not opencv(images):
        return _transcode(images, quality)

    def code(image: np.ndarray, _: int) -> np.ndarray:
        image = cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
        data = cv2.imencode(".jpg", image, (cv2.IMWRITE_JPEG_QUALITY, quality))[1]
        image = cv2.imdecode(data, cv2.IMREAD_COLOR)  # type: ignore[assignment]
        return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)

    return interleaved(code, images)


def _transcode(images: Tensor, quality: int) -> Tensor:
    """The steps of libjpeg as torch operations on the whole batch."""
    height, width = images.shape[-2:]
    red, green, blue = images.to(torch.int32).split(1, dim=1)
    # Rounding to nearest; the chroma, as in libjpeg, with ties down.
    offsets = (2**15, 2**23 + 2**15 - 1, 2**23 + 2**15 - 1)
    luma, *chroma = (
        (r * red + g * green + b * blue + offset) >> 16
        for (r, g, b), offset in zip(_ENCODE, offsets, strict=True)
    )
    luma = _quantise(luma, _table(_LUMINANCE, quality, images.device))
    table = _table(_CHROMINANCE, quality, images.device)
    half = (..., slice((height + 1) // 2), slice((width + 1) // 2))
    cb, cr = (
        _enlarge(_quantise(_halve(plane), table)[half])[..., :height, :width] - 128
        for plane in chroma
    )
    rgb = torch.cat(
        (
            luma + ((_RED_CR * cr + 2**15) >> 16),
            luma + ((_GREEN_CB * cb + _GREEN_CR * cr + 2**15) >> 16),
            luma + ((_BLUE_CB * cb + 2**15) >> 16),
        ),
        dim=1,
    )
    return rgb.clamp_(0, 255).to(torch.uint8)


def _halve(plane: Tensor) -> Tensor:
    """Means of 2 x 2 pixels; the rounding alternates between down and up from column to column."""
    plane = _extend(plane, 2, 16)
    total = plane[..., ::2, ::2] + plane[..., 1::2, ::2]
    total = total + plane[..., ::2, 1::2] + plane[..., 1::2, 1::2]
    bias = torch.arange(total.shape[-1], dtype=torch.int32, device=plane.device) % 2 + 1
    return (total + bias) >> 2


def _enlarge(plane: Tensor) -> Tensor:
    """Twice the size by linear interpolation, weights 3/4 and 1/4 in each direction, ties alternating."""
    padded = pad(plane.to(torch.float32), (1, 1, 1, 1), REPLICATE).to(torch.int32)
    near = 3 * padded[..., 1:-1, :]
    rows = torch.stack((near + padded[..., :-2, :], near + padded[..., 2:, :]), dim=-2)
    rows = rows.flatten(-3, -2)
    near = 3 * rows[..., 1:-1]
    left, right = (near + rows[..., :-2] + 8) >> 4, (near + rows[..., 2:] + 7) >> 4
    return torch.stack((left, right), dim=-1).flatten(-2)


def _quantise(plane: Tensor, table: Tensor) -> Tensor:
    """Cosine transform of 8 x 8 blocks, rounded to multiples of the table's steps, and back."""
    height, width = plane.shape[-2:]
    plane = _extend(plane, 8, 8)
    rows, columns = plane.shape[-2:]
    blocks = (plane - 128).view(-1, rows // 8, 8, columns // 8, 8).transpose(2, 3).double()
    transform = _transform(plane.device)
    waves = _round(transform @ _round(blocks @ transform.T, 11), 15)
    waves = waves.sign() * table * ((waves.abs() + 4 * table) / (8 * table)).floor()
    blocks = _round(_round(transform.T @ waves, 11) @ transform, 18).add_(128).clamp_(0, 255)
    restored = blocks.transpose(2, 3).reshape(-1, 1, rows, columns)
    return restored[..., :height, :width].to(torch.int32)


def _extend(plane: Tensor, rows: int, columns: int) -> Tensor:
    """Repeat the last row and column until height and width are multiples of these numbers."""
    down, right = -plane.shape[-2] % rows, -plane.shape[-1] % columns
    if not down and not right:
        return plane
    return pad(plane.to(torch.float32), (0, right, 0, down), REPLICATE).to(torch.int32)


def _round(x: Tensor, bits: int) -> Tensor:
    """x / 2^bits to the nearest integer."""
    return x.mul_(2.0**-bits).add_(0.5).floor_()


@lru_cache(maxsize=4)
def _transform(device: torch.device) -> Tensor:
    left = torch.tensor(_TRANSFORM, dtype=torch.float64)
    right = left.flip(1) * torch.tensor([1, -1] * 4)[:, None]
    return torch.cat((left, right), dim=1).to(device)


@lru_cache(maxsize=64)
def _table(base: tuple[tuple[int, ...], ...], quality: int, device: torch.device) -> Tensor:
    """Quantisation steps [8,8] at a quality in 1..100, by libjpeg's rule."""
    quality = min(max(quality, 1), 100)
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    steps = (torch.tensor(base) * scale + 50) // 100
    return steps.clamp_(1, 255).to(device, torch.float64)
