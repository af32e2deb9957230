"""ROID: robust, online, universal adaptation."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD

from .. import in_range
from .base import TTAMethod
from .functional import (
    certainty_and_diversity,
    clipped_likelihood_ratio,
    prior_corrected,
    rows_where,
    symmetric_cross_entropy,
)
from .optimizers import OptimizerCallable
from .parts.views import random_view


class ROID(TTAMethod):
    """Weighted soft likelihood ratio, consistency, and an average with the source (Marsden et al. 2024).

    Samples are weighted by their certainty and their distance from the average prediction; the less
    diverse part of a batch is excluded (Eq. 3 to 5). What remains must agree with a view of itself (Eq.
    8). After each step the weights move a little back to the source (Eq. 6), and the logits are
    corrected by the prior of the batch, which helps where labels are correlated (Eq. 9). The official
    code divides the loss by the configured batch size; this one by the batch's.

    Args:
        temperature: temperature of the sample weights.
        source_rate: how far the weights go back to the source after each step.
        probs_rate: how far the average prediction follows each batch.
        weighting: False: all samples count alike.
        consistency: learn from views, too; takes weighting.
        prior_correction: multiply the logits by the smoothed prior, as the official code does.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: SGD(
            params, lr=2.5e-4, momentum=0.9, nesterov=True
        ),
        temperature: float = 1 / 3,
        source_rate: float = 0.01,
        probs_rate: float = 0.1,
        weighting: bool = True,
        consistency: bool = True,
        prior_correction: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        in_range(0, 1, source_rate=source_rate, probs_rate=probs_rate)
        self.temperature, self.source_rate, self.probs_rate = temperature, source_rate, probs_rate
        self.weighting, self.consistency = weighting, weighting and consistency
        self.prior_correction = prior_correction

    def fresh_state(self) -> dict[str, Any]:
        return {"mean_probs": None, "anchor": None}  # at first uniform, and the source

    def update(self, images: Tensor) -> Tensor:
        logits = super().update(images)
        self.ensemble()
        return logits

    def loss(self, logits: Tensor, images: Tensor) -> Tensor | None:
        losses = clipped_likelihood_ratio(logits)
        if not self.weighting:
            return losses.mean()
        weights = self.weights(logits.detach().softmax(1))
        rows = rows_where(weights > 0)
        self.trace["selected"] = len(rows)
        if not len(rows):  # only where logits are not finite
            return None
        losses, weights = losses[rows], weights[rows]
        if self.consistency:
            again = self(self.view(images[rows]))
            losses = losses + symmetric_cross_entropy(again, logits[rows])
        return (weights * losses).sum() / len(images)

    def weights(self, probs: Tensor) -> Tensor:
        """The weight of each sample, [B,C] -> [B]; updates the average prediction."""
        mean_probs = self.state["mean_probs"]
        if mean_probs is None:
            mean_probs = torch.full_like(probs[0], 1 / probs.shape[1])
        rate = self.probs_rate
        self.state["mean_probs"] = (1 - rate) * mean_probs + rate * probs.mean(0)
        return certainty_and_diversity(probs, mean_probs, self.temperature)

    def view(self, images: Tensor) -> Tensor:
        """The view of the images [B,3,H,W] with which they must agree."""
        return random_view(images, self.generator("view"), degrade=False)

    @torch.no_grad()
    def ensemble(self) -> None:
        """Move each parameter a little back to the source."""
        for current, source in self.anchored():
            current.mul_(1 - self.source_rate).add_(source, alpha=self.source_rate)
        torch.clear_autocast_cache()

    def anchored(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Each parameter, of any shape, and the source's or a recovery's, to average it with."""
        anchor, pairs = self.state["anchor"], self.parameters_with_source()
        if anchor is None:
            return pairs
        return ((current, other) for (current, _), other in zip(pairs, anchor, strict=True))

    def corrected(self, logits: Tensor) -> Tensor:
        return prior_corrected(logits.detach()) if self.prior_correction else logits
