"""FOA: forward-optimisation adaptation."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor, nn

from .. import in_range
from ..features import classifier, features
from ..tensors import on_device
from .functional import full_precision, softmax_entropy
from .parts.by_update import PredictsByUpdate
from .parts.vit import Tokens
from .source import Source


class FOA(PredictsByUpdate, Source):
    """Evolves prompts of a vision transformer by forward passes alone (Niu et al. 2024).

    CMA-ES draws prompts, and the best one on this batch gives the predictions: the one with low entropy,
    and with class tokens near the source's mean and deviation in each block. The features are shifted by
    the distance of the moving average of their mean from the source's. No weight changes and nothing is
    differentiated. For vision transformers with a class token, not Swin. Written from the paper alone.

    Args:
        prompts: number of prompt tokens, behind the class token.
        population: prompts tried on each batch, including the best one of the last batch (K).
        weight: weight of the discrepancy from the source's statistics, for a batch of 64 (lambda).
        shift: shift of the features, as a share of the discrepancy of the means (gamma).
        momentum: weight of a new batch in the moving average (alpha).
        source_images: number of source images for the statistics, in whole batches.
        source_data: these images (its test loader); None: the first ones of the stream.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        prompts: int = 3,
        population: int = 28,
        weight: float = 0.4,
        shift: float = 1.0,
        momentum: float = 0.1,
        source_images: int = 32,
        source_data: LightningDataModule | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, **kwargs)
        in_range(1, prompts=prompts, source_images=source_images)
        in_range(4, population=population)
        in_range(0, weight=weight, shift=shift)
        in_range(0, 1, momentum=momentum)
        self.prompts, self.population, self.weight = prompts, population, weight
        self.shift, self.momentum = shift, momentum
        self.source_images, self.source_data = source_images, source_data

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
        outputs = [self.answers(images, without)[1:] for images, _ in batches]
        tokens, features = (torch.cat(parts) for parts in zip(*outputs, strict=True))
        deviation, mean = torch.std_mean(tokens, 0, correction=0)
        return {"tokens_mean": mean, "tokens_deviation": deviation, "mean": features.mean(0)}

    @torch.no_grad()
    def update(self, images: Tensor) -> Tensor:
        state = self.state
        new = drawn(state["prompts"], self.population - 1, self.generator("prompts"))
        tried = torch.cat([new, state["best"][None]])
        shift = self.shift_to_source()
        answers, losses, means = [], [], []
        for prompt in tried:
            logits, tokens, last_features = self.answers(images, prompt)
            answers.append(logits + shift)
            losses.append(self.fitness(answers[-1], tokens))
            means.append(last_features.mean(0))
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

        def network(part: Tensor) -> tuple[Tensor, ...]:
            with self.tokens.prompted(prompt), self.tokens.classes() as tokens:
                last_features, logits = features(self.backbone, part)
            return logits, torch.cat(tokens, 1), last_features

        return self.together(network, images)

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


# ---- CMA-ES, the covariance matrix adaptation evolution strategy (Hansen 2016, arXiv 1604.00772) -----


def first_distribution(size: int, like: Tensor) -> dict[str, Any]:
    """The standard normal distribution of points [N], of the device and type of `like`."""
    zeros, ones = like.new_zeros(size), like.new_ones(size)
    return {
        "mean": zeros,
        "step": like.new_ones(()),
        "covariance": ones.diag(),
        "axes": ones.diag(),  # eigenvectors of the covariance, and the roots of its eigenvalues
        "lengths": ones,
        "path": zeros,
        "step_path": zeros,
        "generation": 0,
    }


def drawn(distribution: dict[str, Any], count: int, generator: torch.Generator) -> Tensor:
    """Points [count,N] of the distribution (Eq. 5)."""
    axes, mean = distribution["axes"], distribution["mean"]
    normal = torch.randn(
        count, len(mean), generator=generator, device=mean.device, dtype=mean.dtype
    )
    return mean + distribution["step"] * (normal * distribution["lengths"]) @ axes.T


def evolved(distribution: dict[str, Any], points: Tensor, losses: Tensor) -> dict[str, Any]:
    """The distribution after a generation of points [K,N] with these losses [K] (Fig. 6, default weights).

    Weights are positive: the worse half of the points has no influence.
    """
    old, generation = distribution, distribution["generation"] + 1
    size, parents = points.shape[1], max(len(points) // 2, 1)
    raw = [math.log((len(points) + 1) / 2 / rank) for rank in range(1, parents + 1)]
    weights = on_device(torch.tensor(raw, dtype=points.dtype) / sum(raw), points.device)
    mass = sum(raw) ** 2 / sum(value**2 for value in raw)  # the effective number of parents
    step_rate = (mass + 2) / (size + mass + 5)
    damping = 1 + 2 * max(0.0, ((mass - 1) / (size + 1)) ** 0.5 - 1) + step_rate
    path_rate = (4 + mass / size) / (size + 4 + 2 * mass / size)
    rank_one = 2 / ((size + 1.3) ** 2 + mass)
    rank_many = min(1 - rank_one, 2 * (mass - 2 + 1 / mass) / ((size + 2) ** 2 + mass))
    expected = size**0.5 * (1 - 1 / (4 * size) + 1 / (21 * size**2))  # E |N(0, I)|

    moves = (points[losses.argsort()[:parents]] - old["mean"]) / old["step"]
    move = weights @ moves
    white = old["axes"] @ ((old["axes"].T @ move) / old["lengths"])
    step_path = (1 - step_rate) * old["step_path"]
    step_path = step_path + (step_rate * (2 - step_rate) * mass) ** 0.5 * white
    length = torch.linalg.vector_norm(step_path)
    start = (1 - (1 - step_rate) ** (2 * generation)) ** 0.5
    short = (length / start < (1.4 + 2 / (size + 1)) * expected).to(points)
    path = (1 - path_rate) * old["path"] + short * (
        path_rate * (2 - path_rate) * mass
    ) ** 0.5 * move
    lost = (1 - short) * path_rate * (2 - path_rate)  # when the path has not moved
    covariance = (
        (1 - rank_one - rank_many + rank_one * lost) * old["covariance"]
        + rank_one * torch.outer(path, path)
        + rank_many * (moves.T * weights) @ moves
    )
    step = old["step"] * (step_rate / damping * (length / expected - 1)).exp()
    axes, lengths = old["axes"], old["lengths"]
    if generation % max(1, int(1 / ((rank_one + rank_many) * size * 10))) == 0:
        values, axes = torch.linalg.eigh(covariance)
        lengths = values.clamp_min(torch.finfo(values.dtype).tiny).sqrt()
    return {
        "mean": old["mean"] + old["step"] * move,
        "step": step,
        "covariance": covariance,
        "axes": axes,
        "lengths": lengths,
        "path": path,
        "step_path": step_path,
        "generation": generation,
    }
