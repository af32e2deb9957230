"""T3A: test-time template adjuster."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from .. import in_range
from .functional import MASKED, full_precision, softmax_entropy
from .parts.by_update import PredictsByUpdate
from .parts.head import head
from .source import Source


class T3A(PredictsByUpdate, Source):
    """Replaces the classifier's rows by each class' certain features (Iwasawa and Matsuo 2021).

    The supports are at first the classifier's rows. Each image joins those of its predicted class before
    it is scored; the `supports` of lowest entropy stay, the others are lost. A score is the dot product
    with the direction of a class' mean support, so that logits have another scale than the network's.
    No weight changes.

    Args:
        supports: supports of each class (M).
    """

    def __init__(self, backbone: str | nn.Module, supports: int = 100, **kwargs: Any) -> None:
        super().__init__(backbone, **kwargs)
        in_range(1, supports=supports)
        self.supports = supports

    def fresh_state(self) -> dict[str, Any]:
        """The supports' features [N,D], classes [N] and entropies [N]: at first the classifier's rows."""
        weight, bias = head(self.backbone)
        return _supports(weight.clone(), weight @ weight.T + bias)

    @torch.no_grad()
    def update(self, images: Tensor) -> Tensor:
        features, logits = self.features(self.backbone, images)
        new = _supports(features, logits)
        joined = {name: torch.cat([self.state[name], values]) for name, values in new.items()}
        stored = _most_certain(joined, self.supports)
        self.state = {**self.state, **stored}
        self.trace["supports"] = len(stored["classes"])
        sums = features.new_zeros(logits.shape[1], features.shape[1])
        sums.index_add_(0, stored["classes"], normalize(stored["features"]))
        scores = full_precision(features @ normalize(sums).T)
        # A class that the network masks has supports from its row, which would score.
        return torch.where(logits < MASKED / 2, logits, scores)


def _supports(features: Tensor, logits: Tensor) -> dict[str, Tensor]:
    """Features [N,D] with the classes and entropies [N] of their logits [N,C]."""
    return {
        "features": features,
        "classes": logits.argmax(1),
        "entropy": softmax_entropy(logits),
    }


def _most_certain(supports: dict[str, Tensor], count: int) -> dict[str, Tensor]:
    """The `count` supports of lowest entropy of each class, class by class, the lowest first."""
    order = supports["entropy"].argsort(stable=True)
    order = order[supports["classes"][order].argsort(stable=True)]
    classes = supports["classes"][order]
    first = torch.searchsorted(classes, classes)  # of the same class
    rank = torch.arange(len(classes), device=classes.device) - first
    order = order[rank < count]
    return {name: values[order] for name, values in supports.items()}
