"""ZeroSiam: asymmetric entropy minimisation against collapse."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn
from torch.optim import SGD

from .. import in_range
from ..features import classifier
from .base import TTAMethod
from .functional import soft_cross_entropy, softmax_entropy
from .optimizers import OptimizerCallable
from .parts.head import classified


class ZeroSiam(TTAMethod):
    """Entropy behind a predictor, aligned with the predictions without it (Chen et al. 2026).

    A linear predictor of the features, at first the identity, comes before the classifier in one of two
    branches. Its predictions are made certain and aligned with those of the other branch, which get no
    gradient and are scored. The paper has networks with group or layer normalisation.

    Args:
        predictor_rate: learning rate of the predictor, as a multiple of the normalisation layers'; 10 for
            a ResNet-50 with group normalisation, 1 for a ViT-B/16 with lr=0.005.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: SGD(params, lr=2.5e-3, momentum=0.9),
        predictor_rate: float = 10.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        in_range(0, predictor_rate=predictor_rate)
        self.predictor_rate = predictor_rate

    def prepare(self) -> None:
        super().prepare()
        weight: Tensor = classifier(self.backbone).weight
        self.projector = nn.Linear(weight.shape[1], weight.shape[1], bias=False).to(weight)
        nn.init.eye_(self.projector.weight)

    def adaptable_parameters(self) -> Iterable[nn.Parameter]:
        return [*self.norm_affine(), *self.projector.parameters()]

    def build(self) -> None:
        """Give the predictor a learning rate of its own."""
        super().build()
        assert self.optimizer is not None
        (group,) = self.optimizer.param_groups
        group["params"] = [p for p in group["params"] if p is not self.projector.weight]
        rate = self.predictor_rate * group["lr"]
        self.optimizer.add_param_group({"params": [self.projector.weight], "lr": rate})

    def update(self, images: Tensor) -> Tensor:
        features, logits = self.features(self.backbone, images)
        predicted = classified(self.backbone, self.projector(features))
        entropy = softmax_entropy(predicted).mean()
        alignment = symmetric_divergence(logits.detach(), predicted).mean()
        self.trace |= {"entropy": entropy.detach(), "alignment": alignment.detach()}
        self.descend(entropy + alignment)
        return logits


def symmetric_divergence(logits: Tensor, others: Tensor) -> Tensor:
    """KL(p || q) + KL(q || p) of the softmaxes p and q of logits [B,C] each, in nats, [B]."""
    apart = soft_cross_entropy(others, logits) - softmax_entropy(logits)
    return apart + soft_cross_entropy(logits, others) - softmax_entropy(others)
