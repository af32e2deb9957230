"""EATA: ETA with a penalty against forgetting."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import get_total_norm
from torch.optim import SGD

from .. import in_range
from .eta import ETA
from .optimizers import OptimizerCallable


class EATA(ETA):
    """ETA with a penalty beta sum F (theta - theta0)^2 on important weights (Niu et al. 2022, Eq. 8).

    The Fisher information F is the mean over batches of the squared gradient of the source model's
    cross-entropy with its own predictions. In a Trainer it comes from `fisher_data`, or else from
    the first images of the stream, which are then streamed again, as in CCC.

    Args:
        beta: weight of the penalty.
        fisher_images: number of images for F, rounded up to whole batches.
        fisher_data: clean images for F (its test loader), as in the official EATA.
    """

    tunable: ClassVar = ("beta", 10)  # table A.2 of Press's thesis

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: SGD(params, lr=2.5e-4, momentum=0.9),
        beta: float = 2000.0,
        fisher_images: int = 2000,
        fisher_data: LightningDataModule | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        in_range(1, fisher_images=fisher_images)
        self.beta, self.source_images, self.source_data = beta, fisher_images, fisher_data

    def learn_source(self, batches: Iterator[tuple[Tensor, Tensor]]) -> dict[str, Any]:
        """F, shaped like each parameter, and the number of batches with finite gradients for it."""
        params = [p for p, _ in self.parameters_with_source()]
        sums, count = [torch.zeros_like(p) for p in params], 0
        for images, _ in batches:
            logits = self(images)
            loss = cross_entropy(logits, logits.argmax(1))
            # Zeros for layers that the logits do not depend on, such as those of auxiliary heads.
            gradients = torch.autograd.grad(loss, params, materialize_grads=True)
            if get_total_norm(gradients, 1.0).isfinite():
                for total, gradient in zip(sums, gradients, strict=True):
                    total += gradient**2
                count += 1
        return {"fisher": [total / count for total in sums], "batches": count} if count else {}

    def loss(self, logits: Tensor, images: Tensor) -> Tensor | None:
        loss = super().loss(logits, images)
        return None if loss is None else loss + self.beta * self.penalty()

    def penalty(self) -> Tensor:
        """sum F (theta - theta0)^2 over the adapted parameters, a scalar."""
        # In one piece: several times as fast as layer by layer, which matters for small networks.
        pairs = zip(*self.parameters_with_source(), strict=True)
        parts: list[Iterable[Tensor]] = [self.learnt["fisher"], *pairs]
        fisher, current, source = (torch.cat([t.flatten() for t in part]) for part in parts)
        return (fisher * (current - source) ** 2).sum()
