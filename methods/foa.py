"""FOA: forward-optimisation adaptation."""

from collections.abc import Iterator
from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor, nn

from .. import in_range
from ..callbacks.features import classifier, features
from .functional import full_precision, softmax_entropy
from .optimizers import OptimizerFactory, sgd
from .parts.evolution import drawn, evolved, first_distribution
from .parts.vit import Tokens
from .source import Source


class FOA(Source):
    """Evolves prompts of a vision transformer by forward passes alone (Niu et al. 2024).

    CMA-ES draws prompts, and the best one on this batch gives the predictions: the one with low entropy,
    and with class tokens near the source's mean and deviation in each block. The features are shifted by
    the distance of the moving average of their mean from the source's. No weight changes and nothing is
    differentiated. For vision transformers with a class token, not Swin. Written from the paper alone.

    Args:
        optimizer: without effect, as no parameter is trained.
        prompts: number of prompt tokens, behind the class token.
        population: prompts tried on each batch, including the best one of the last batch (K).
        weight: weight of the discrepancy from the source's statistics, for a batch of 64 (lambda).
        shift: shift of the features, as a share of the discrepancy of the means (gamma).
        momentum: weight of a new batch in the moving average (alpha).
        source_images: number of source images for the statistics, in whole batches.
        source_data: these images (its test loader); None: the first ones of the stream.
        **kwargs: see `TTAMethod`.
    """

    predicts_by_update = True

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerFactory = sgd,
        prompts: int = 3,
        population: int = 28,
        weight: float = 0.4,
        shift: float = 1.0,
        momentum: float = 0.1,
        source_images: int = 32,
        source_data: LightningDataModule | None = None,
        **kwargs: Any,
    ) -> None:
        in_range(1, prompts=prompts, source_images=source_images)
        in_range(4, population=population)
        in_range(0, weight=weight, shift=shift)
        in_range(0, 1, momentum=momentum)
        self.prompts, self.population, self.weight = prompts, population, weight
        self.shift, self.momentum = shift, momentum
        self.source_images, self.source_data = source_images, source_data
        super().__init__(backbone, optimizer, **kwargs)

    def prepare(self) -> None:
        self.tokens = Tokens(self.backbone)

    def fresh_state(self) -> dict[str, Any]:
        """The distribution of prompts, the best one, and the moving mean of the features."""
        size = self.prompts * self.tokens.width
        prompts = first_distribution(size, next(self.backbone.parameters()))
        return {"prompts": prompts, "best": prompts["mean"], "mean": None}

    @torch.no_grad()
    def learn_source(self, batches: Iterator[tuple[Tensor, Tensor]]) -> dict[str, Any]:
        """Mean and deviation [L D] of the blocks' class tokens, and the mean [F] of the features."""
        without = self.state["best"][:0]
        seen = [self.answers(images, without)[1:] for images, _ in batches]
        if not seen:
            return {}
        tokens, found = (torch.cat(parts) for parts in zip(*seen, strict=True))
        deviation, mean = torch.std_mean(tokens, 0, correction=0)
        return {"tokens_mean": mean, "tokens_deviation": deviation, "mean": found.mean(0)}

    @torch.no_grad()
    def update(self, images: Tensor) -> Tensor:
        state = self.state
        new = drawn(state["prompts"], self.population - 1, self.generator("prompts"))
        tried = torch.cat([new, state["best"][None]])
        shift = self.shift_to_source()
        answers, losses, means = [], [], []
        for prompt in tried:
            logits, tokens, found = self.answers(images, prompt)
            answers.append(logits + shift)
            losses.append(self.fitness(answers[-1], tokens))
            means.append(found.mean(0))
        best = (fitness := torch.stack(losses)).argmin()
        mean, last = torch.stack(means)[best], state["mean"]
        self.trace["loss"] = fitness[best]
        self.state = {
            **state,
            "prompts": evolved(state["prompts"], tried, fitness),
            "best": tried[best],
            "mean": mean if last is None else last.lerp(mean, self.momentum),
        }
        return torch.stack(answers)[best]

    def answers(self, images: Tensor, prompt: Tensor) -> tuple[Tensor, ...]:
        """Logits [B,C], class tokens of all blocks [B,L D] and features [B,F] of images [B,3,H,W].

        prompt: values [N D] of N tokens.
        """
        sizes: list[int] = []

        def network(part: Tensor) -> Tensor:
            with self.tokens.prompted(prompt), self.tokens.classes() as seen:
                found, logits = features(self.backbone, part)
            parts = logits, torch.cat(seen, 1), found
            sizes[:] = [each.shape[1] for each in parts]
            return torch.cat(parts, 1)

        return self.logits(network, images).split(sizes, 1)

    def shift_to_source(self) -> Tensor:
        """The change of logits [C] by the shift of the features (Eq. 7, 8); 0 on the first batch."""
        head, last = classifier(self.backbone).weight, self.state["mean"]
        if last is None or not self.learnt:
            return head.new_zeros(len(head))
        return full_precision(head) @ (self.shift * (self.learnt["mean"] - last))

    def fitness(self, logits: Tensor, tokens: Tensor) -> Tensor:
        """Entropy of logits [B,C] and discrepancy of class tokens [B,L D]: a scalar (Eq. 5).

        The discrepancy is a sum of squares, which fits the paper's weight; Eq. 5 has norms.
        """
        entropy = softmax_entropy(logits).sum()
        if not self.learnt:
            return entropy
        deviation, mean = torch.std_mean(tokens, 0, correction=0)
        apart = (mean - self.learnt["tokens_mean"]) ** 2
        apart = apart + (deviation - self.learnt["tokens_deviation"]) ** 2
        return entropy + self.weight * len(logits) / 64 * apart.sum()
