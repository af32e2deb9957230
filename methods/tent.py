"""Tent: entropy minimisation."""

from torch import Tensor

from .base import TTAMethod
from .functional import softmax_entropy


class Tent(TTAMethod):
    """Minimises the mean prediction entropy (Wang et al. 2021, Eq. 1)."""

    def loss(self, logits: Tensor, images: Tensor) -> Tensor:
        return softmax_entropy(logits).mean()
