"""Zero-shot classifiers of open_clip: the image encoder, and mean text features of each class as
weights."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ... import HoldfastError
from ...files import reason
from .libraries import Pretrained, not_downloaded

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


def zero_shot(
    name: str,
    classes: Sequence[str] | None = None,
    templates: Sequence[str] | None = None,
    file: str | Path | None = None,
) -> ZeroShot:
    """The zero-shot classifier of "ViT-B-32.openai" (ARCHITECTURE.WEIGHTS), without its normalisation.

    Args:
        name: a model of open_clip.
        classes: their names; default: ImageNet's 1,000.
        templates: prompts with {} for the class' name; default: the 80 of OpenAI.
        file: weights from a local file instead.

    Raises:
        HoldfastError: if open_clip is not installed, or has no such model or weights.
    """
    try:
        import open_clip
    except ImportError:
        raise HoldfastError(
            "open_clip is not installed. Run: pip install open_clip_torch (Holdfast's extra "
            "'clip')."
        ) from None
    architecture, _, tag = name.partition(".")
    tags = open_clip.list_pretrained_tags_by_model(architecture)
    if architecture not in open_clip.list_models():
        raise HoldfastError(
            f"open_clip has no model '{architecture}'. Choose one of open_clip.list_models()."
        )
    if file is None and tag not in tags:
        choices = ", ".join(f"open_clip/{architecture}.{known}" for known in tags)
        raise HoldfastError(f"'open_clip/{name}' does not name its weights. Choose {choices}.")
    try:
        model = open_clip.create_model(architecture, pretrained=str(file or tag))
    except Exception as error:  # each of the libraries below raises its own types of errors
        if file is not None:
            raise HoldfastError(
                f"The weights in {file} do not fit {architecture} ({reason(error)})."
            ) from error
        place = f"FILE and say open_clip/{name}:FILE"
        url = f"the weights {tag}"
        raise not_downloaded(f"open_clip/{name}", url, place, error) from error
    classes = open_clip.IMAGENET_CLASSNAMES if classes is None else classes
    if templates is None:
        templates = [template("{}") for template in open_clip.OPENAI_IMAGENET_TEMPLATES]
    return ZeroShot(model.eval(), open_clip.get_tokenizer(architecture), classes, templates)


def open_clip_load(model: str, file: Path | None) -> Pretrained:
    """Load ARCHITECTURE.WEIGHTS with ImageNet's classes; mean and std are the image encoder's."""
    net = zero_shot(model, file=file)
    facts = {"library": "open_clip", "weights": model, "file": str(file or "")}
    return Pretrained(net, net.visual.image_mean, net.visual.image_std, facts)
