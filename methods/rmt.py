"""RMT: robust mean teacher."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD

from .. import in_range
from ..networks import copied
from .functional import consistency, symmetric_cross_entropy
from .optimizers import OptimizerCallable
from .parts.contrast import ContrastMethod, class_sums
from .parts.teacher import TeacherMethod
from .source_data import labelled, replay_batch, store


class RMT(ContrastMethod, TeacherMethod):
    """Symmetric cross-entropy with a mean teacher, contrast, and source replay (Döbler et al. 2023).

    All parameters learn. Student and teacher first warm up on source images; each image is then pulled
    towards a view of itself and the nearest class prototype of the source, and every step also uses
    labelled source images. The sum of student and teacher is scored. The official code replays all of
    the source; this one `replay` images of it, which checkpoints contain.

    Args:
        optimizer: for all parameters and the projector.
        source_weight: weight of the cross-entropy on replayed source images; 0: none is replayed.
        target_weight: weight of the symmetric cross-entropy with the teacher (Eq. 2).
        contrast_weight: weight of the contrastive loss (Eq. 4).
        teacher_rate: how far the teacher follows in each step.
        temperature: temperature of the contrastive loss.
        projection: width of the projector.
        warm_up: number of source images for the warm-up, one batch a step; 0: none. If there are fewer,
            the warm-up repeats those that are stored for the replay.
        replay: number of source images to keep, the first ones.
        source_images: number of source images, in whole batches, which the prototypes come from.
        source_data: these, with labels (its test loader); None: the first ones of the stream, with the
            source model's predictions for labels.
    """

    adapts = "all"

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: SGD(
            params, lr=0.01, momentum=0.9, nesterov=True
        ),
        source_weight: float = 1.0,
        target_weight: float = 1.0,
        contrast_weight: float = 1.0,
        teacher_rate: float = 0.001,
        temperature: float = 0.1,
        projection: int = 128,
        warm_up: int = 50_000,
        replay: int = 2000,
        source_images: int = 50_000,
        source_data: LightningDataModule | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        in_range(0, 1, teacher_rate=teacher_rate)
        in_range(0, warm_up=warm_up)
        in_range(1, projection=projection, replay=replay, source_images=source_images)
        self.source_weight, self.target_weight = source_weight, target_weight
        self.contrast_weight, self.teacher_rate = contrast_weight, teacher_rate
        self.temperature, self.projection = temperature, projection
        self.warm_up, self.replay = warm_up, replay
        self.source_images, self.source_data = source_images, source_data

    def fresh_state(self) -> dict[str, Any]:
        return {"replayed": 0}

    def learn_source(self, batches: Iterator[tuple[Tensor, Tensor]]) -> dict[str, Any]:
        """Prototypes [C,D], the images [N,3,H,W] to replay, and the weights after the warm-up."""
        source, steps, step, drawn = copied(self.backbone), 0, 0, 0
        parts: list[tuple[Tensor, Tensor]] = []
        sums: Any = 0.0
        counts: Any = 0.0
        for images, labels in batches:
            steps = steps or self.warm_up // len(images)
            with torch.no_grad():
                features, logits = self.features(source, images)
            labels = labelled(labels, logits)
            more = class_sums(features, labels, logits.shape[1])
            sums, counts = sums + more[0], counts + more[1]
            if sum(len(p) for p, _ in parts) < self.replay:
                parts.append((images, labels))
            if step < steps:
                step += 1
                drawn += len(images)
                self.warm(images, step / steps)
        while step < steps:
            images, _ = parts[step % len(parts)]
            step += 1
            drawn += len(images)
            self.warm(images, step / steps)
        pairs = (torch.cat(rows)[: self.replay] for rows in zip(*parts, strict=True))
        assert self.optimizer is not None
        return {
            **store(*pairs),
            **self.prototypes(sums, counts),
            "drawn": drawn,
            "weights": [tensor.detach().clone() for tensor in self.restorable_tensors()],
            "optimizer": deepcopy(self.optimizer.state_dict()),
        }

    def warm(self, images: Tensor, share: float) -> None:
        """One step of the warm-up on images [B,3,H,W], at a share of the learning rate."""
        assert self.optimizer is not None
        groups = self.optimizer.param_groups
        rates = [group["lr"] for group in groups]
        for group in groups:
            group["lr"] *= share
        self.descend(symmetric_cross_entropy(self(images), self.taught(images)).mean())
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate
        self.follow()

    def predict_by(self, network: nn.Module, images: Tensor) -> Tensor:
        logits = self.logits(network, images)
        return self(images) + logits if network is self.teacher else logits

    @torch.no_grad()
    def taught(self, images: Tensor) -> Tensor:
        """The teacher's logits [B,C] for images [B,3,H,W]."""
        return self.logits(self.teacher, images)

    def update(self, images: Tensor) -> Tensor:
        features, logits = self.features(self.backbone, images)
        features_again, again = self.features(self.backbone, self.view(images))
        target = self.taught(images)
        loss = self.target_weight * consistency(logits, again, target).mean()
        loss = loss + self.contrast_weight * self.contrast(features, features_again)
        if self.source_weight:
            first = self.learnt["drawn"] + self.state["replayed"]
            shown, labels = replay_batch(self.learnt, first, images)
            self.state["replayed"] += len(images)
            on_source = cross_entropy(self(shown), labels)
            self.trace["loss_source"] = on_source.detach()
            loss = loss + self.source_weight * on_source
        self.descend(loss)
        self.follow()
        return logits + target
