"""The source model of Tiny ImageNet: a small ResNet, trained on the training images alone."""

from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from ...datamodules.sources.tiny_imagenet import TinyImageNet
from ...methods.backbones import normalised
from ...methods.backbones.nets import TinyResNet
from .source_models import BATCH, Batches, by_sgd, common_facts, train_and_write

_EPOCHS = 30
_MEAN, _STD = (0.480, 0.448, 0.398), (0.277, 0.269, 0.282)  # of the training images
_SMALL, _SMALL_EPOCHS = 48, 0.6  # pixels of the images in the first epochs; the share of these
_LEAST_AREA = 0.4  # of a random crop, as a share of the image's
_PIECE = 1000  # images that are decoded at once


def write_tiny_imagenet(
    out: Path, name: str, data: str, seed: int = 0, epochs: int | None = None, norm: str = "batch"
) -> dict[str, str]:
    """Train a TinyResNet on Tiny ImageNet; returns the facts stored with its weights.

    An interrupted training continues. The accuracy is that on the 2,000 validation images which no
    stream uses. Convolutions and the classifier are stored in float16; the accuracy is theirs.
    """
    source, held = TinyImageNet(data, "train"), TinyImageNet(data, "calibration")
    epochs = epochs or _EPOCHS
    torch.manual_seed(seed)
    model = normalised(TinyResNet(source.classes, norm), _MEAN, _STD)
    facts = common_facts(name, seed, _MEAN, _STD, source, norm) | {
        "optimizer": "SGD, OneCycle, peak 0.2, Nesterov momentum 0.9, weight decay 0.0005",
        "augmentation": f"random crops of at least {_LEAST_AREA} of the area, flips; images of "
        f"{_SMALL} pixels in the first {_SMALL_EPOCHS:.0%} of the epochs",
        "epochs": epochs,
        "batch": BATCH,
    }
    batches = partial(_epoch_of, *_decoded(source), epochs, seed)
    training = by_sgd(model, batches, len(source) // BATCH, epochs, facts, one_cycle=True)
    return train_and_write(out, training, held, len(held), half=True)


def _decoded(source: TinyImageNet) -> tuple[Tensor, Tensor]:
    """All images uint8 [N,3,64,64] of a source, in memory, and their labels int64 [N]."""
    images = torch.empty(len(source), 3, source.size, source.size, dtype=torch.uint8)
    for rows in torch.arange(len(source)).split(_PIECE):
        images[rows] = source.load(rows, rows)[0]
    return images, source.labels


def _epoch_of(images: Tensor, labels: Tensor, epochs: int, seed: int, epoch: int) -> Batches:
    """The whole batches of an epoch, in an order given by the seed, randomly cropped and flipped."""
    random = torch.Generator().manual_seed((seed << 20) + epoch)
    size = _SMALL if epoch < _SMALL_EPOCHS * epochs else images.shape[-1]
    order = torch.randperm(len(images), generator=random)
    for rows in order[: len(images) // BATCH * BATCH].split(BATCH):
        yield _random_crops(images[rows].float(), size, random), labels[rows]


def _random_crops(images: Tensor, size: int, random: torch.Generator) -> Tensor:
    """A random part of each image [B,3,H,W], half of them flipped, resized to [B,3,size,size].

    The area is uniform from _LEAST_AREA to 1, the logarithm of the aspect ratio from -log(4/3) to log(4/3).
    """
    area, ratio, x, y, flip = torch.rand(5, len(images), generator=random)
    area, root = _LEAST_AREA + (1 - _LEAST_AREA) * area, (4 / 3) ** (ratio - 0.5)
    width, height = ((area**0.5 * side).clamp_max(1) for side in (root, 1 / root))
    affine = torch.zeros(len(images), 2, 3)
    affine[:, 0, 0] = torch.where(flip < 0.5, -width, width)
    affine[:, 1, 1] = height
    affine[:, 0, 2], affine[:, 1, 2] = (1 - width) * (2 * x - 1), (1 - height) * (2 * y - 1)
    grid = F.affine_grid(affine, [len(images), 3, size, size], align_corners=False)
    return F.grid_sample(images, grid, "bilinear", "border", align_corners=False)
