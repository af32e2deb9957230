"""Zero-shot classifiers: the image encoder of a CLIP model, and text features of each class as weights."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ... import HoldfastError

Tokenizer = Callable[[list[str]], Tensor]


class ZeroShot(nn.Module):
    """Images [B,3,H,W] -> logits [B,C]: scaled cosines of their features with each class' text.

    A class' text is the mean, over templates such as "a photo of a {}.", of its features of length 1
    (Radford et al. 2021). Only the image encoder is part of the network, so only it can adapt.
    """

    classifier: Tensor

    def __init__(
        self, model: Any, tokenizer: Tokenizer, classes: Sequence[str], templates: Sequence[str]
    ) -> None:
        super().__init__()
        if not classes or not all("{}" in template for template in templates) or not templates:
            raise HoldfastError(
                f"Got {len(classes)} classes and templates {list(templates)[:3]}. Pass at least "
                "one class, and templates with {} in place of its name."
            )
        self.visual = model.visual
        rows = []
        with torch.no_grad():
            for name in classes:
                texts = tokenizer([template.replace("{}", name) for template in templates])
                rows.append(F.normalize(model.encode_text(texts, normalize=True).mean(0), dim=0))
            scale = model.logit_scale.exp()
        self.register_buffer("classifier", scale * torch.stack(rows))

    def forward(self, images: Tensor) -> Tensor:
        return F.normalize(self.visual(images), dim=-1) @ self.classifier.T
