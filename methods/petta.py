"""PeTTA: persistent test-time adaptation."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor, nn
from torch.optim import Adam

from .. import in_range, one_of
from ..networks import copied
from .functional import consistency, soft_cross_entropy
from .optimizers import OptimizerCallable
from .parts.contrast import class_means, class_sums
from .parts.norm import training
from .rotta import RoTTA

Regularizer = Literal["cosine", "l2"]


class PeTTA(RoTTA):
    """RoTTA whose rate and pull to the source follow the teacher's divergence (Hoang et al. 2024).

    The teacher's features are compared with prototypes of the source's classes. As they diverge, the
    student is pulled to its source weights more (Eq. 6) and the teacher follows it less (Eq. 7); an
    anchor, the source model with the stream's statistics, keeps predictions near the source's (Eq. 9).
    Each batch is followed by a step on the memory's content. Classes with fewer than two source images
    are ignored; in the official code their divergence is not a number.

    Args:
        pull: largest weight of the pull to the source weights (lambda_0).
        teacher_rate: largest rate at which the teacher follows (alpha_0).
        anchor: weight of the anchor's loss.
        regularizer: regulariser of the weights: "cosine" or "l2".
        symmetric: learn from the teacher by symmetric cross-entropy, also without a view; False: by
            cross-entropy, as on ImageNet-C.
        prototype_rate: how far the prototypes follow each batch.
        source_images: number of images for the prototypes of the source, in whole batches.
        source_data: these (its test loader); None: the first ones of the stream.
        **kwargs: see `RoTTA`; `every` has no effect.
    """

    tunable: ClassVar = ("pull", 10)  # Hoang et al. 2024: lambda_0

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: Adam(params, lr=1e-3),
        pull: float = 10.0,
        teacher_rate: float = 0.001,
        anchor: float = 1.0,
        regularizer: Regularizer = "cosine",
        symmetric: bool = False,
        prototype_rate: float = 0.05,
        source_images: int = 5000,
        source_data: LightningDataModule | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, teacher_rate=teacher_rate, **kwargs)
        in_range(1, source_images=source_images)
        in_range(0, 1, teacher_rate=teacher_rate, prototype_rate=prototype_rate)
        one_of("cosine", "l2", regularizer=regularizer)
        self.pull, self.anchor_weight = pull, anchor
        self.regularizer, self.symmetric = regularizer, symmetric
        self.prototype_rate = prototype_rate
        self.source_images, self.source_data = source_images, source_data
        self.every = None  # an update follows each batch

    def prepare(self) -> None:
        super().prepare()
        self.anchor = copied(self.backbone)

    def restorable_tensors(self) -> Iterator[Tensor]:
        yield from super().restorable_tensors()
        yield from self.anchor.buffers()

    def fresh_state(self) -> dict[str, Any]:
        return {**super().fresh_state(), "prototypes": None, "drift": 0.0}  # at first the source's

    def learn_source(self, batches: Iterator[tuple[Tensor, Tensor]]) -> dict[str, Any]:
        """Mean and unbiased variance [C,D] of each class' features, by the source model's predictions.

        The variance of classes with fewer than two images is infinite.
        """
        with torch.no_grad():
            pairs = [self.features(self.backbone, images) for images, _ in batches]
        features, logits = (torch.cat(parts) for parts in zip(*pairs, strict=True))
        labels = logits.argmax(1)
        means, counts = class_means(features, labels, logits.shape[1])
        squares, _ = class_sums((features - means[labels]) ** 2, labels, len(means))
        variances = squares / (counts - 1).clamp_min(1)[:, None]
        return {"mean": means, "var": variances.masked_fill(counts[:, None] < 2, torch.inf)}

    def update(self, images: Tensor) -> Tensor:
        with torch.no_grad():
            features, logits = self.features(self.teacher, images)
        labels, entropy = self.judged(logits)
        self.state["drift"] = 1 - torch.exp(-self.divergence(features, labels))
        self.remember(images, labels, entropy)
        return logits

    def divergence(self, features: Tensor, labels: Tensor) -> Tensor:
        """Mean of (now - mean)^2 / var over a batch's classes, a scalar; updates their prototypes [C,D].

        Classes of infinite variance do not count; 0 if there are no others (PeTTA, Eq. 5).
        """
        mean, var, rate = self.learnt["mean"], self.learnt["var"], self.prototype_rate
        now = self.state["prototypes"]
        now = mean if now is None else now
        means, counts = class_means(features, labels, len(now))
        present = (counts > 0)[:, None]
        self.state["prototypes"] = torch.where(present, (1 - rate) * now + rate * means, now)
        counted = present & var.isfinite()
        terms = torch.where(counted, (now - mean) ** 2 / (var + 1e-6), 0)
        self.trace["divergence"] = terms.sum() / counted.sum().clamp_min(1)
        return self.trace["divergence"]

    def learn(self, images: Tensor, ages: Tensor) -> None:
        """One step of the student, and then of the teacher, on the memory's images [M,3,H,W]."""
        with training(self.backbone), training(self.teacher), training(self.anchor):
            target, plain = self.predict(images), self(images)
            with torch.no_grad():
                anchor = self.logits(self.anchor, images)
            logits = self(self.view(images))
        loss = soft_cross_entropy(logits, target)
        if self.symmetric:
            loss = consistency(plain, logits, target)
        held = soft_cross_entropy(logits, anchor).mean()
        apart = _distance(self.parameters_with_source(), self.regularizer)
        drift = self.state["drift"]
        self.descend(loss.mean() + drift * self.pull * apart + self.anchor_weight * held)
        self.follow((1 - drift) * self.teacher_rate)


def _distance(pairs: Iterable[tuple[Tensor, Tensor]], kind: Regularizer) -> Tensor:
    """The distance of tensors of any shape from their source values, a scalar mean (PeTTA, Eq. 6)."""
    if kind == "l2":
        return torch.stack([((now - source) ** 2).sum() for now, source in pairs]).mean()
    flat = [(now.flatten(), source.flatten()) for now, source in pairs]
    return -torch.stack([torch.cosine_similarity(*pair, dim=0) for pair in flat]).mean()
