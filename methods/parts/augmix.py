"""MEMO's random views of images [B,3,H,W] in [0,1]: a crop, blended with chains of mild operations."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn.functional import affine_grid, grid_sample
from torchvision.transforms.v2 import functional as tv

from ...tensors import on_device
from .views import host_draws

_CHAINS = _DEPTH = 3
_AREA, _RATIO = (0.08, 1.0), (3 / 4, 4 / 3)  # of the crop: share of the image, width by height
_COLOUR = (
    lambda images, level: tv.autocontrast(images),
    lambda images, level: tv.equalize(images),
    lambda images, level: tv.posterize(images, 4),
    lambda images, level: _solarised(images, (256 - (25.6 * level).floor()) / 255),
)
ROTATE, SHEAR_X, SHEAR_Y, MOVE_X, MOVE_Y = range(len(_COLOUR), len(_COLOUR) + 5)
_OPERATIONS = MOVE_Y + 1


def augmix_views(images: Tensor, generator: Generator) -> Tensor:
    """A random view of each image: a random crop, randomly flipped, blended with its AugMix.

    That is the mean, with weights from Dirichlet(1,1,1), of three chains of one to three operations of
    severity 1 (Hendrycks et al. 2020), and the blend is uniform. As in MEMO's code, but crops may lie
    between pixels.
    """
    count = 6 + _CHAINS * (2 + 3 * _DEPTH)
    draws = host_draws(generator, len(images), count)
    crop = _cropped(images, draws[:, :5])
    parts = draws[:, 6:].tensor_split(_CHAINS, 1)
    weights = torch.stack([-part[:, 0].clamp_min(1e-12).log() for part in parts])
    shares = _as_factors(weights / weights.sum(0), images)
    chains = [share * _chain(crop, part[:, 1:]) for share, part in zip(shares, parts, strict=True)]
    blend = _as_factors(draws[:, 5], images)
    return blend * crop + (1 - blend) * torch.stack(chains).sum(0)


def with_views(
    image: Tensor, count: int, generator: Generator, of: Callable[..., Tensor]
) -> Tensor:
    """An image [1,3,H,W] and random views of it, [count,3,H,W], by `augmix_views` or `crops`."""
    return torch.cat([image, of(image.expand(count - 1, -1, -1, -1), generator)])


def crops(images: Tensor, generator: Generator) -> Tensor:
    """A random crop of each image, resized to its size and randomly flipped, as in TPT on ImageNet."""
    return _cropped(images, host_draws(generator, len(images), 5))


def _as_factors(values: Tensor, images: Tensor) -> Tensor:
    """Values [...,B] in a shape that multiplies images [B,3,H,W]."""
    return on_device(values.to(images.dtype), images.device)[..., None, None, None]


def _cropped(images: Tensor, draws: Tensor) -> Tensor:
    """A random crop, resized to the image's size and randomly flipped; draws [B,5] in [0,1)."""
    skew = images.shape[2] / images.shape[3]
    area = _AREA[0] + (_AREA[1] - _AREA[0]) * draws[:, 0]
    ratio = _RATIO[0] * (_RATIO[1] / _RATIO[0]) ** draws[:, 1] * skew
    across, down = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    x, y = (1 - across) * (2 * draws[:, 2] - 1), (1 - down) * (2 * draws[:, 3] - 1)
    across, zero = torch.where(draws[:, 4] < 0.5, -across, across), torch.zeros_like(x)
    return _warped(images, torch.stack([across, zero, x, zero, down, y], 1), "border")


def _warped(images: Tensor, matrices: Tensor, padding: str) -> Tensor:
    """Images transformed by affine matrices [B,6], in units of half an image."""
    matrices = on_device(matrices.view(-1, 2, 3).to(images.dtype), images.device)
    grid = affine_grid(matrices, list(images.shape), align_corners=False)
    return grid_sample(images, grid, padding_mode=padding, align_corners=False)


def _chain(images: Tensor, draws: Tensor) -> Tensor:
    """Random operations on each image, one after another; draws [B, 1 + 3 DEPTH] in [0,1)."""
    depth = (draws[:, 0] * _DEPTH).long()
    for number, part in enumerate(draws[:, 1:].tensor_split(_DEPTH, 1)):
        operation = (part[:, 0] * _OPERATIONS).long()
        operation[depth < number] = -1
        level = 0.1 + 0.9 * part[:, 1]  # of AugMix's 10
        images = operated(images, operation, level, torch.where(part[:, 2] < 0.5, -1.0, 1.0))
    return images


def operated(images: Tensor, operation: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Each image after its operation [B], none where that is -1; level and sign [B] set the strength."""
    result = images.clone()
    for number, function in enumerate(_COLOUR):
        rows = (operation == number).nonzero().squeeze(1)
        if len(rows):
            here = on_device(rows, images.device)
            result[here] = function(images[here], _as_factors(level[rows], images))
    rows = (operation >= ROTATE).nonzero().squeeze(1)
    if len(rows):
        here = on_device(rows, images.device)
        matrices = _geometry(operation[rows], level[rows], sign[rows], images.shape[2:])
        result[here] = _warped(images[here], matrices, "zeros")
    return result


def _solarised(images: Tensor, threshold: Tensor) -> Tensor:
    """Images with all values from the threshold upwards inverted."""
    return torch.where(images >= threshold, 1 - images, images)


def _geometry(operation: Tensor, level: Tensor, sign: Tensor, size: torch.Size) -> Tensor:
    """Affine matrices [N,6], in units of half an image, of the operations from ROTATE on."""

    def of(number: int, amount: Tensor) -> Tensor:
        return torch.where(operation == number, sign * amount, 0.0)

    (height, width), skew = size, size[0] / size[1]
    angle = of(ROTATE, (3 * level).floor() * math.pi / 180)
    across = [angle.cos(), skew * (angle.sin() + of(SHEAR_X, 0.03 * level))]
    down = [(of(SHEAR_Y, 0.03 * level) - angle.sin()) / skew, angle.cos()]
    moved = of(MOVE_X, 2 * (level * width / 30).floor() / width)
    sunk = of(MOVE_Y, 2 * (level * height / 30).floor() / height)
    return torch.stack([*across, moved, *down, sunk], 1)
