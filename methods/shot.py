"""SHOT: source hypothesis transfer, by information maximisation online."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD

from .. import in_range
from ..features import classifier
from .base import TTAMethod
from .functional import softmax_entropy
from .optimizers import OptimizerCallable


class SHOT(TTAMethod):
    """Certain predictions that differ between images, with a fixed classifier (Liang et al. 2020).

    Minimises the mean entropy of the predictions minus the entropy of their mean (SHOT-IM); all parameters
    but the classifier's learn. The paper trains for epochs, with pseudo-labels from centroids; this is
    the online form of TEMPORA (2602.06136), and with `class_weight=0.3` that of TTAB (Zhao et al. 2023),
    whose pseudo-labels are the confident predictions of the batch.

    Args:
        class_weight: weight of the cross-entropy with the confident predictions.
        confidence: probability above which a prediction is confident.
        floor: is added to the mean prediction in its logarithm, 1e-5 in TTAB.
    """

    adapts = "all"

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: SGD(params, lr=2.5e-4, momentum=0.9),
        class_weight: float = 0.0,
        confidence: float = 0.9,
        floor: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        in_range(0, class_weight=class_weight, floor=floor)
        in_range(0, 1, confidence=confidence)
        self.class_weight, self.confidence, self.floor = class_weight, confidence, floor

    def adaptable_parameters(self) -> Iterable[nn.Parameter]:
        fixed = {id(parameter) for parameter in classifier(self.backbone).parameters()}
        return (p for p in self.backbone.parameters() if id(p) not in fixed)

    def loss(self, logits: Tensor, images: Tensor) -> Tensor:
        entropy, negative_diversity = information_maximisation(logits, self.floor)
        self.trace |= {"entropy": entropy.detach(), "diversity": negative_diversity.detach()}
        loss = entropy + negative_diversity
        if self.class_weight:
            certain, labels = logits.detach().softmax(1).max(1)
            confident = certain > self.confidence
            self.trace["confident"] = number = confident.sum()
            losses = cross_entropy(logits, labels, reduction="none")
            of_labels = torch.where(confident, losses, 0).sum() / number.clamp_min(1)
            loss = loss + self.class_weight * of_labels
        return loss


def information_maximisation(logits: Tensor, floor: float = 0.0) -> tuple[Tensor, Tensor]:
    """Mean entropy of logits [B,C], and the negated entropy of their mean prediction, scalars in nats."""
    mean = logits.softmax(1).mean(0)
    logarithm = (mean + floor).clamp_min(torch.finfo(mean.dtype).tiny).log()
    return softmax_entropy(logits).mean(), (mean * logarithm).sum()
