"""TPT: test-time prompt tuning."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from .. import in_range
from .backbones.clip import Prompts, zero_shot_in
from .functional import full_precision, marginal_entropy, most_certain
from .optimizers import OptimizerCallable
from .parts.augmix import crops, with_views
from .parts.by_update import ImageMethod


class TPT(ImageMethod):
    """Tunes the prompt for each image separately, so that its views agree on one class (Shu et al. 2022).

    For each image the vectors of the words before the classes' names take a step on the entropy of the
    mean prediction over the most certain of its views; then the image itself is scored, and
    the next one starts from the words again. For two-tower models such as CLIP, neither of whose towers
    changes. No change persists, so the model cannot collapse.

    Args:
        optimizer: for the words' vectors.
        template: a prompt with {} for the class' name, after the words to tune.
        views: number of views of each image, random crops and flips, including the image itself.
        share: share of the views, the most certain ones, that count (rho).
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: AdamW(params, lr=5e-3),
        template: str = "a photo of a {}.",
        views: int = 64,
        share: float = 0.1,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        in_range(2, views=views)
        in_range(0, 1, share=share)
        self.template, self.views, self.share = template, views, share

    def prepare(self) -> None:
        self.texts = Prompts(zero_shot_in(self.backbone).texts, self.template)
        self.context = nn.Parameter(self.texts.context().detach().clone())

    def adaptable_parameters(self) -> Iterable[nn.Parameter]:
        return [self.context]

    def update_on(self, image: Tensor) -> Tensor:
        self.to_source()
        with torch.no_grad():
            views = with_views(image, self.views, self.generator("views"), crops)
            features, _ = self.features(self.backbone, views)
        certain = None
        for _ in range(self.steps):
            logits = self.cosines(features)
            if certain is None:
                certain = most_certain(logits.detach(), self.share)
            self.descend(marginal_entropy(logits[certain]))
        with torch.no_grad():
            return self.cosines(features)[:1]

    def cosines(self, features: Tensor) -> Tensor:
        """The logits [V,C] of features [V,D] of views, for the prompt as it is now."""
        texts = self.texts(self.context)
        return full_precision(zero_shot_in(self.backbone).scale * features @ texts.T)
