"""EATA: ETA that does not forget."""

from collections.abc import Iterable
from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .. import in_range
from ..callbacks.finite_images import without_bad
from .eta import ETA
from .optimizer import OptimizerFactory, sgd
from .source_data import first_batches
from .undo import magnitude


class EATA(ETA):
    """ETA plus beta sum F (theta - theta0)^2, which holds important weights (Niu et al. 2022, Eq. 8).

    The Fisher information F is the mean over batches of the squared gradient of the source model's
    cross-entropy with its own predictions. In a Trainer it comes from `fisher_data`, or else from
    the first images of the stream, which are then streamed again, as in CCC.

    Args:
        entropy_factor: images count below this share of the largest entropy ln C, as in `ETA`.
        redundancy: the cosine from which on a sample is redundant; None: by the number of classes.
        beta: weight of the penalty.
        fisher_images: number of images for F, rounded up to whole batches.
        fisher_data: clean images for F (its test loader), as in the official EATA.
        **kwargs: see `TTAMethod`.
    """

    fisher_batches: Tensor  # how many batches F comes from

    def __init__(
        self,
        backbone: nn.Module | str,
        optimizer: OptimizerFactory = sgd,
        entropy_factor: float = 0.4,
        redundancy: float | None = None,
        beta: float = 2000.0,
        fisher_images: int = 2000,
        fisher_data: LightningDataModule | None = None,
        **kwargs: Any,
    ) -> None:
        in_range(1, fisher_images=fisher_images)
        self.beta, self.fisher_images, self.fisher_data = beta, fisher_images, fisher_data
        super().__init__(backbone, optimizer, entropy_factor, redundancy, **kwargs)
        self.fisher = nn.ParameterList(
            nn.Parameter(torch.zeros_like(p), requires_grad=False)
            for p, _ in self.parameters_with_source()
        )
        self.register_buffer("fisher_batches", torch.tensor(0))
        self.fitted = False  # whether the host knows that there are some

    def fit_fisher(self, batches: Iterable[Tensor]) -> None:
        """Estimate F from the images [B,3,H,W] in `batches`, with the weights as they are now.

        Images and gradients that are not finite do not count; F stays unknown if there are no others.
        """
        params = [p for p, _ in self.parameters_with_source()]
        with torch.inference_mode(False), torch.enable_grad():
            sums = [torch.zeros_like(p) for p in params]
            count = 0
            for images in batches:
                images = without_bad(images.to(self.device).clone())
                if not len(images):
                    continue
                logits = self(images)
                loss = cross_entropy(logits, logits.argmax(1))
                gradients = torch.autograd.grad(loss, params)
                if not magnitude(gradients, loss.device).isfinite():
                    continue
                for total, gradient in zip(sums, gradients, strict=True):
                    total += gradient**2
                count += 1
            for fisher, total in zip(self.fisher, sums, strict=True):
                fisher.data.copy_(total / max(1, count))
            self.fisher_batches.fill_(count)

    def fit(self, batches: Iterable[Tensor]) -> None:
        self.fit_fisher(batches)

    def on_test_start(self) -> None:
        if self.fisher_batches:
            return  # resumed, or fitted by hand
        batches = first_batches(self, self.fisher_data, self.fisher_images)
        self.fit(batch.images for batch in batches)

    on_predict_start = on_test_start

    def loss(self, logits: Tensor, images: Tensor) -> Tensor | None:
        if not self.fitted:
            if not self.fisher_batches:
                rank_zero_warn(
                    "EATA takes its Fisher information from this one batch: call fit_fisher"
                )
                self.fit_fisher([images])
            self.fitted = bool(self.fisher_batches)
        loss = super().loss(logits, images)
        return None if loss is None else loss + self.beta * self.penalty()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        super().set_extra_state(state)
        self.fitted = False

    def penalty(self) -> Tensor:
        """sum F (theta - theta0)^2 over the adapted parameters."""
        # In one piece: several times as fast as layer by layer, which is felt with small nets.
        pairs = zip(*self.parameters_with_source(), strict=True)
        parts: list[Iterable[Tensor]] = [self.fisher, *pairs]
        fisher, current, source = (torch.cat([t.flatten() for t in part]) for part in parts)
        return (fisher * (current - source) ** 2).sum()
