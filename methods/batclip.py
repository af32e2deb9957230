"""BATCLIP: bimodal online test-time adaptation."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import normalize, one_hot
from torch.optim import AdamW

from .backbones.clip import Prompts, zero_shot_in
from .base import TTAMethod
from .functional import full_precision, softmax_entropy
from .optimizers import OptimizerCallable
from .parts.norm import norm_affine


class BATCLIP(TTAMethod):
    """Adapts the normalisation layers of both towers of a CLIP model (Maharana et al. 2024).

    Three losses, all with weight 1: low entropy; a large projection of the images' mean features, by
    predicted class, on that class' text; a small cosine between the mean features of different classes.
    Logits are those before the update. Every step encodes a prompt for each class.

    Args:
        template: the prompt with {} for the class' name; those of the backbone have no influence.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: AdamW(params, lr=5e-4),
        template: str = "a photo of a {}.",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        self.template = template

    def prepare(self) -> None:
        super().prepare()
        self.texts = Prompts(zero_shot_in(self.backbone).texts, self.template)

    def adaptable_parameters(self) -> Iterable[nn.Parameter]:
        return [*self.norm_affine(), *norm_affine(self.texts)]

    def predict_by(self, network: nn.Module, images: Tensor) -> Tensor:
        return self.towers(network, images)[0]

    def towers(self, network: nn.Module, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits [B,C], features [B,D] of images [B,3,H,W], and features [C,D], of length 1, of texts."""
        clip = zero_shot_in(network)
        features, texts = self.logits(clip.embed, images), self.texts()
        return full_precision(clip.scale * normalize(features) @ texts.T), features, texts

    def update(self, images: Tensor) -> Tensor:
        logits, features, texts = self.towers(self.backbone, images)
        member = one_hot(logits.argmax(1), logits.shape[1]).to(features)
        counts = member.sum(0)
        present = (counts > 0).to(features)
        means = member.T @ features / counts.clamp_min(1)[:, None]
        # The features are not scaled to length 1 here, as in the code: the projection has no bound.
        projection = ((means * texts).sum(1) * present).sum() / present.sum()
        cosines = normalize(means) @ normalize(means).T
        pairs = present.outer(present).fill_diagonal_(0)
        separation = ((1 - cosines) * pairs).sum()
        self.descend(softmax_entropy(logits).mean() - projection - separation)
        return logits
