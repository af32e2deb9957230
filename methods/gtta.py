"""GTTA (gradual test-time adaptation), the variant with mixup."""

from collections.abc import Iterator
from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Adam

from .. import in_range
from .base import TTAMethod
from .checks import check_size
from .optimizers import OptimizerCallable
from .source_data import labelled, replay_batch, store


class GTTA(TTAMethod):
    """Self-training after a step on source images mixed with those of the batch (Marsden et al. 2022).

    Mixtures of labelled source images and images of the batch with similar predictions form intermediate
    domains. The first step is on these, the second on confident predictions of the batch itself; the logits
    from before the second step are scored. All parameters learn. The official code replays all of the
    source and prefers style transfer to mixup.

    Args:
        mixup: share of the batch's image in a mixture.
        source_images: number of source images to keep, in whole batches.
        source_data: these, with labels (its test loader); None: the first ones of the stream, with the
            source model's predictions for labels.
    """

    adapts = "all"

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: Adam(params, lr=1e-5),
        mixup: float = 1 / 3,
        source_images: int = 2000,
        source_data: LightningDataModule | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        in_range(0, 1, mixup=mixup)
        in_range(1, source_images=source_images)
        self.mixup, self.source_images, self.source_data = mixup, source_images, source_data

    def fresh_state(self) -> dict[str, Any]:
        return {"confidence": 0.9, "replayed": 0}

    def learn_source(self, batches: Iterator[tuple[Tensor, Tensor]]) -> dict[str, Any]:
        """The images [N,3,H,W] to replay, with their labels [N]."""
        parts = []
        for images, labels in batches:
            with torch.no_grad():
                parts.append((images, labelled(labels, self(images))))
        images, labels = (torch.cat(rows) for rows in zip(*parts, strict=True))
        return store(images, labels)

    def check_images(self, images: Any) -> None:
        super().check_images(images)
        check_size(images, self.learnt, "GTTA")

    def update(self, images: Tensor) -> Tensor:
        with torch.no_grad():
            probs = self(images).softmax(1)
        if not self.repetition:  # further updates use the same labels
            self.pseudo_labels = self.confident(probs)
        mixed, labels = self.mixed(images, probs)
        self.descend(cross_entropy(self(mixed), labels))
        self.trace["first_loss"] = self.trace["loss"]
        logits = self(images)
        selected, labels = self.pseudo_labels
        self.trace["selected"] = selected.sum()
        # If none is selected the loss is 0, so that Adam still makes a step; the official code's
        # NaN has the same effect.
        losses = cross_entropy(logits, labels, reduction="none") * selected
        self.descend(losses.sum() / selected.sum().clamp_min(1))
        return logits

    def confident(self, probs: Tensor) -> tuple[Tensor, Tensor]:
        """Which predictions [B,C] count, and their labels [B]; updates the average confidence.

        One counts if its confidence is at least the root of that average, which begins at 0.9.
        """
        confidence, labels = probs.max(1)
        average = (1 - 0.1) * self.state["confidence"] + 0.1 * confidence.mean()
        self.state["confidence"] = average
        return confidence >= average.sqrt(), labels

    def mixed(self, images: Tensor, probs: Tensor) -> tuple[Tensor, Tensor]:
        """Source images, mixed with the images [B,3,H,W] of similar predictions [B,C], and their labels."""
        shown, labels = replay_batch(self.learnt, self.state["replayed"], images)
        self.state["replayed"] += len(images)
        with torch.no_grad():
            partner = (self(shown).softmax(1) @ probs.T).argmax(1)
        return self.mixup * images[partner] + (1 - self.mixup) * shown, labels
