"""DeYO: destroy your object."""

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from .. import HoldfastError, in_range
from .engine.base import TTAMethod
from .engine.optimizer import OptimizerFactory, sgd
from .engine.rows import rows_where
from .functional import entropy_criterion, softmax_entropy
from .parts.destruction import occluded, shuffled_patches, shuffled_pixels

Destruction = Literal["patches", "pixels", "occlusion"]


class DeYO(TTAMethod):
    """Minimises the entropy of samples whose prediction depends on the object's shape (Lee et al. 2024).

    A sample counts if its entropy H is below `filter_factor` ln C and the probability of its predicted
    class falls by more than `drop` once the object is destroyed (PLPD, Eq. 4). Its weight is
    exp(H0 - H) + exp(PLPD), H0 = `entropy_factor` ln C (Eq. 6).

    Args:
        optimizer: for the parameters that adapt; default: SGD with learning rate 2.5e-4 and momentum 0.9.
        filter_factor: the largest entropy of a sample that counts, as a share of ln C.
        entropy_factor: H0 as a share of ln C.
        drop: threshold of PLPD: 0.3 on ImageNet-C, 0.2 where labels are correlated or batches small.
        destruction: shuffle a grid of patches, all pixels, or cover a square with the image's mean.
        patches: on each side of the grid.
        occlusion: (top, left, side) of the square in pixels; default: the middle, half as wide as the
            image.
        weigh_entropy: whether the weight has the term of the entropy.
        weigh_drop: whether it has that of PLPD.
        skip_top: leave the top layers' scale and shift alone.
        **kwargs: see `TTAMethod`.
    """

    workloads: ClassVar = {"": {"filter_factor": 1.01, "drop": -1.01}}

    def __init__(
        self,
        backbone: nn.Module | str,
        optimizer: OptimizerFactory = sgd,
        filter_factor: float = 0.5,
        entropy_factor: float = 0.4,
        drop: float = 0.3,
        destruction: Destruction = "patches",
        patches: int = 4,
        occlusion: tuple[int, int, int] | None = None,
        weigh_entropy: bool = True,
        weigh_drop: bool = True,
        skip_top: bool = True,
        **kwargs: Any,
    ) -> None:
        in_range(1, patches=patches)
        if destruction not in ("patches", "pixels", "occlusion"):
            raise HoldfastError(
                f"destruction={destruction!r} is unknown. Choose patches, pixels or occlusion."
            )
        self.filter_factor, self.entropy_factor, self.drop = filter_factor, entropy_factor, drop
        self.destruction, self.patches, self.occlusion = destruction, patches, occlusion
        self.weigh_entropy, self.weigh_drop = weigh_entropy, weigh_drop
        self.skip_top = skip_top
        super().__init__(backbone, optimizer, **kwargs)

    def adaptable_parameters(self) -> Iterable[nn.Parameter]:
        return self.norm_affine(self.skip_top)

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
        weight = self.weigh_entropy * certain + self.weigh_drop * (1 / torch.exp(-drop))
        return (weight * entropy).mean()

    def criterion(self, logits: Tensor) -> str:
        return entropy_criterion(logits, self.filter_factor, "filter_factor")

    def destroyed(self, images: Tensor, rows: Tensor) -> Tensor:
        """Images [N,3,H,W] without their objects; they are the rows [N] of the batch."""
        if self.destruction == "occlusion":
            return occluded(images, self.occlusion)
        generator = self.generator("destruction")
        if self.destruction == "pixels":
            numbers = torch.rand(images[0, 0].numel(), generator=generator, device=images.device)
            return shuffled_pixels(images, numbers.argsort())
        shape = (len(images), self.patches**2)
        orders = torch.rand(shape, generator=generator, device=images.device).argsort(1)
        return shuffled_patches(images, orders)
