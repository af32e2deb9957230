"""DeYO: destroy your object."""

import math
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.optim import SGD
from torchvision.transforms.v2 import functional as tv

from .. import in_range, one_of
from .base import TTAMethod
from .functional import rows_where, softmax_entropy
from .optimizers import OptimizerCallable


class DeYO(TTAMethod):
    """Minimises the entropy of samples whose prediction depends on the object's shape (Lee et al. 2024).

    A sample counts if its entropy H is below `filter_factor` ln C and the probability of its predicted
    class falls by more than `drop` once the object is destroyed (PLPD, Eq. 4). Its weight is
    exp(H0 - H) + exp(PLPD), H0 = `entropy_factor` ln C (Eq. 6).

    Args:
        filter_factor: the largest entropy of a sample that counts, as a share of ln C.
        entropy_factor: H0 as a share of ln C.
        drop: threshold of PLPD: 0.3 on ImageNet-C, 0.2 where labels are correlated or batches small.
        destruction: shuffle a grid of patches, all pixels, or cover a square with the image's mean.
        patches: on each side of the grid.
        occlusion: (top, left, side) of the square in pixels; default: the middle half of the image.
        weigh_entropy: whether the weight has the term of the entropy.
        skip_top: leave the top layers' scale and shift alone.
    """

    workloads: ClassVar = {"": {"filter_factor": 1.01, "drop": -1.01}}

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: SGD(params, lr=2.5e-4, momentum=0.9),
        filter_factor: float = 0.5,
        entropy_factor: float = 0.4,
        drop: float = 0.3,
        destruction: Literal["patches", "pixels", "occlusion"] = "patches",
        patches: int = 4,
        occlusion: tuple[int, int, int] | None = None,
        weigh_entropy: bool = True,
        skip_top: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        in_range(1, patches=patches)
        one_of("patches", "pixels", "occlusion", destruction=destruction)
        self.filter_factor, self.entropy_factor, self.drop = filter_factor, entropy_factor, drop
        self.destruction, self.patches, self.occlusion = destruction, patches, occlusion
        self.weigh_entropy, self.skip_top = weigh_entropy, skip_top

    def loss(self, logits: Tensor, images: Tensor) -> Tensor | None:
        entropy, largest = softmax_entropy(logits), math.log(logits.shape[1])
        rows = rows_where(entropy.detach() < self.filter_factor * largest)
        self.trace["reliable"] = self.trace["selected"] = len(rows)
        if not len(rows):
            return None
        with torch.no_grad():
            again = self(self.destroyed(images[rows], rows)).softmax(1)
            probability, label = logits[rows].softmax(1).max(1, keepdim=True)
            drop = (probability - again.gather(1, label)).squeeze(1)
        counting = rows_where(drop > self.drop)
        rows, drop = rows[counting], drop[counting]
        self.trace["selected"] = len(rows)
        if not len(rows):
            return None
        entropy = entropy[rows]
        # Not exp(H0 - H): the official code's form, with which float32 runs agree bit for bit.
        certain = 1 / torch.exp(entropy.detach() - self.entropy_factor * largest)
        weight = self.weigh_entropy * certain + 1 / torch.exp(-drop)
        return (weight * entropy).mean()

    def destroyed(self, images: Tensor, rows: Tensor) -> Tensor:
        """Images [N,3,H,W] without their objects; they are the rows [N] of the batch."""
        if self.destruction == "occlusion":
            return _occluded(images, self.occlusion)
        generator = self.generator("destruction")
        if self.destruction == "pixels":
            numbers = torch.rand(images[0, 0].numel(), generator=generator, device=images.device)
            return shuffled_pixels(images, numbers.argsort())
        shape = (len(images), self.patches**2)
        orders = torch.rand(shape, generator=generator, device=images.device).argsort(1)
        return shuffled_patches(images, orders)


def shuffled_patches(images: Tensor, orders: Tensor) -> Tensor:
    """Images [B,3,H,W] cut into P x P patches; patch j, row by row, is patch orders[:, j] [B,P*P].

    Images whose sides are no multiples of P are resized to the next smaller multiples, and back.
    """
    grid, (height, width) = math.isqrt(orders.shape[1]), images.shape[2:]
    size = [height // grid * grid, width // grid * grid]
    fits = size == [height, width]
    images = images if fits else tv.resize(images, size, antialias=True)
    patches = images.unflatten(2, (grid, -1)).unflatten(4, (grid, -1))  # [B,3,P,h,P,w]
    patches = patches.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)  # [B,P*P,3,h,w]
    patches = patches[torch.arange(len(images), device=images.device)[:, None], orders]
    patches = patches.unflatten(1, (grid, grid)).permute(0, 3, 1, 4, 2, 5)
    images = patches.flatten(4, 5).flatten(2, 3)
    return images if fits else tv.resize(images, [height, width], antialias=True)


def shuffled_pixels(images: Tensor, order: Tensor) -> Tensor:
    """Images [B,3,H,W] with pixels permuted: pixel j, row by row, is pixel order[j], int64 [H*W]."""
    return images.flatten(2)[:, :, order].view_as(images)


def _occluded(images: Tensor, square: tuple[int, int, int] | None = None) -> Tensor:
    """Images [B,3,H,W] with their mean in a square (top, left, side); default: half of the middle."""
    height, width = images.shape[2:]
    side = min(height, width) // 2
    top, left, side = square or ((height - side) // 2, (width - side) // 2, side)
    images, means = images.clone(), images.mean((2, 3), keepdim=True)
    images[:, :, top : top + side, left : left + side] = means
    return images
