"""Two-tower models as classifiers: the image tower, and text features of each class as weights."""

from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ... import HoldfastError
from ...preprocessing import Preprocessing
from .layers import Normalise, require_classes

Tokenizer = Callable[[list[str]], Tensor]


class ZeroShot(nn.Module):
    """Images [B,3,H,W] in [0,1] -> logits [B,C]: scaled cosines of their features with each class' text.

    A class' text is the mean, over templates such as "a photo of a {}.", of its features of length 1
    (Radford et al. 2021). Only the image tower is part of the network, so only it adapts; methods that
    adapt texts have `Prompts` of it.

    Args:
        model: has `visual` (normalised images -> features [B,D]), `encode_text` (tokens [N,L] ->
            features [N,D]) and `logit_scale`, a logarithm, as CLIP and open_clip's models do.
        tokenizer: texts -> tokens [N,L]; the last token of a text has the highest number.
        classes: their names.
        templates: prompts with {} for the class' name.
        mean, std: of the images, per channel.
    """

    scale: Tensor
    preprocessing: Preprocessing | None = None  # of its weights

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        classes: Sequence[str],
        templates: Sequence[str],
        mean: Sequence[float],
        std: Sequence[float],
    ) -> None:
        super().__init__()
        if not classes or not all("{}" in template for template in templates) or not templates:
            raise HoldfastError(
                f"Got {len(classes)} classes and templates {list(templates)[:3]}. Pass at least "
                "one class, and templates with {} in place of its name."
            )
        self.normalise, self.visual = Normalise(mean, std), model.visual
        self.texts = Texts(model, tokenizer, list(classes))
        with torch.no_grad():
            self.register_buffer("scale", model.logit_scale.exp())
            self.set_weight(self.scale * self.texts.features(templates))

    def set_weight(self, weight: Tensor) -> None:
        """Make a linear layer of scaled text features [C,D]; no parameter, so that no method trains it."""
        self.classifier = nn.Linear(weight.shape[1], len(weight), bias=False)
        del self.classifier.weight
        self.classifier.register_buffer("weight", weight)

    def only(self, numbers: Sequence[int]) -> "ZeroShot":
        """The same network for some of its classes; raises HoldfastError if it lacks one."""
        require_classes(len(self.texts.classes), max(numbers) + 1)
        self.texts = copy(self.texts)
        self.texts.classes = [self.texts.classes[number] for number in numbers]
        self.set_weight(self.classifier.weight[list(numbers)])
        return self

    def embed(self, images: Tensor) -> Tensor:
        """Features [B,D] of images [B,3,H,W], of any length."""
        return self.visual(self.normalise(images))

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(F.normalize(self.embed(images), dim=-1))


class Texts:
    """The text tower, its tokenizer and the names of the classes; copies of a network share it."""

    def __init__(self, model: Any, tokenizer: Tokenizer, classes: list[str]) -> None:
        self.tokenizer, self.classes = tokenizer, classes
        rest = copy(model)
        rest._modules = {name: part for name, part in model._modules.items() if name != "visual"}
        self.tower = deepcopy(rest).requires_grad_(False).eval()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Texts":
        return self

    def features(self, templates: Sequence[str]) -> Tensor:
        """The mean over the templates of each class' features of length 1, scaled to that: [C,D]."""
        rows = []
        for name in self.classes:
            texts = self.tokenizer([template.replace("{}", name) for template in templates])
            rows.append(F.normalize(self.tower.encode_text(texts), dim=-1).mean(0))
        return F.normalize(torch.stack(rows), dim=-1)


class Prompts(nn.Module):
    """Features of length 1, [C,D], of a text for each class, by a copy of the text tower.

    Args:
        texts: those of a `ZeroShot`.
        template: a prompt with {} for the class' name, and words before it.
    """

    tokens: Tensor

    def __init__(self, texts: Texts, template: str) -> None:
        super().__init__()
        before, braces, _ = template.partition("{}")
        if not before.strip() or not braces:
            raise HoldfastError(
                f"template={template!r} has no words before {{}}. Pass one such as 'a photo of a {{}}.'"
            )
        self.tower = deepcopy(texts.tower)
        tokens = texts.tokenizer([template.replace("{}", name) for name in texts.classes])
        self.register_buffer("tokens", tokens, persistent=False)
        # Between the first token and the last, which has the highest number.
        self.words = int(texts.tokenizer([before.strip()])[0].argmax()) - 1

    @property
    def embedding(self) -> nn.Embedding:
        """The layer that gives each token [...] its vector [...,E]."""
        return next(layer for layer in self.tower.modules() if isinstance(layer, nn.Embedding))

    def context(self) -> Tensor:
        """The vectors [W,E] of the W words before the names."""
        return self.embedding(self.tokens[0, 1 : 1 + self.words])

    def forward(self, context: Tensor | None = None) -> Tensor:
        """The texts' features, with vectors [W,E] in place of the words before the names."""

        def replaced(layer: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
            if context is None:
                return None
            rows = context.expand(len(output), -1, -1)
            return torch.cat([output[:, :1], rows, output[:, 1 + self.words :]], 1)

        with self.embedding.register_forward_hook(replaced):
            return F.normalize(self.tower.encode_text(self.tokens), dim=-1)


def zero_shot_in(network: nn.Module) -> ZeroShot:
    """The `ZeroShot` in a network; raises HoldfastError if there is none."""
    for layer in network.modules():
        if isinstance(layer, ZeroShot):
            return layer
    raise HoldfastError(
        f"{type(network).__name__} has no text tower. Choose a backbone such as open_clip/ViT-B-32.openai."
    )
