"""MEMO: marginal entropy minimisation with one test point."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD

from .. import in_range
from .functional import marginal_entropy
from .optimizers import OptimizerCallable
from .parts.augmix import augmix_views
from .parts.by_update import ImageMethod
from .parts.norm import BlendedBatchNorm, replace_batch_norms


class MEMO(ImageMethod):
    """Adapts to each image separately, so that its views agree on one class (Zhang et al. 2022).

    For each image all weights take a step on the entropy of the mean prediction over its views (Eq. 1
    and 2); then the image itself is scored, and the next one starts from the source model. No change
    persists, so the model cannot collapse. Batch normalisation mixes the source's statistics with those
    of the views, or of the image.

    Args:
        alpha: weight of the views' statistics; the paper's 1 / (N + 1) with N = 16 is 0.06.
        views: number of views of each image, by AugMix (`augmix_views`), without the image itself.
        episodic: False: weights and momentum carry over from image to image.
    """

    adapts = "all"

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: SGD(
            params, lr=2.5e-4, momentum=0.9, nesterov=True
        ),
        alpha: float = 0.1,
        views: int = 64,
        episodic: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        in_range(0, 1, alpha=alpha)
        in_range(1, views=views)
        self.alpha, self.views, self.episodic = alpha, views, episodic

    def prepare(self) -> None:
        replace_batch_norms(self.backbone, BlendedBatchNorm, alpha=self.alpha, stored=True)

    def update_on(self, image: Tensor) -> Tensor:
        views = self.views_of(image)
        if self.episodic:
            self.to_source()
        for _ in range(self.steps):
            self.descend(marginal_entropy(self(views)))
        with torch.no_grad():
            return self(image)

    def views_of(self, image: Tensor) -> Tensor:
        """Random views [V,3,H,W] of an image [1,3,H,W]."""
        return augmix_views(image.expand(self.views, -1, -1, -1), self.generator("views"))
