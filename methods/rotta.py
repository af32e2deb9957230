"""RoTTA: robust test-time adaptation."""

import math
from collections import Counter
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim import Adam

from .. import in_range
from .functional import damped_entropy, soft_cross_entropy
from .optimizers import OptimizerCallable
from .parts.memory import Memory, MemoryMethod, largest
from .parts.norm import MovingBatchNorm, replace_batch_norms, training
from .parts.teacher import TeacherMethod
from .parts.views import random_view


class CSTU(Memory):
    """RoTTA's memory: balanced classes, with preference for recent and certain images.

    Removes the item with the highest lambda_t / (1 + e^(-age/N)) + lambda_u H / ln C, where the entropy H
    is its value, if that is higher than the new image's (Yuan et al. 2023).

    Args:
        classes: their number C; a class holds at most N / C images.
        early_quota: apply that quota also before the memory is full, as in the official code.
    """

    def __init__(
        self,
        capacity: int,
        classes: int,
        lambda_t: float = 1.0,
        lambda_u: float = 1.0,
        early_quota: bool = True,
    ) -> None:
        super().__init__(capacity)
        self.classes, self.lambda_t, self.lambda_u = classes, lambda_t, lambda_u
        self.early_quota = early_quota

    def score(self, age: int, entropy: float) -> float:
        timeliness = self.lambda_t / (1 + math.exp(-age / self.capacity))
        return timeliness + self.lambda_u * entropy / math.log(self.classes)

    def make_room(self, content: dict[str, Any], label: int, value: float) -> bool:
        items = content["items"]
        count, full = Counter(item["label"] for item in items), len(items) >= self.capacity
        within_quota = count[label] < self.capacity / self.classes
        if not full and (within_quota or not self.early_quota):
            return True
        rivals = largest(count) if within_quota else [label]
        scored = [
            (self.score(item["age"], item["value"]), item["label"], index)
            for index, item in enumerate(items)
            if item["label"] in rivals
        ]
        worst, _, index = max(scored, default=(-math.inf, 0, 0))
        if worst <= self.score(0, value):
            return not scored
        del items[index]
        return True


class RoTTA(MemoryMethod, TeacherMethod):
    """Learns from a mean teacher on a balanced, fresh and certain memory (Yuan et al. 2023).

    Batch normalisation follows the stream with moving statistics. The teacher's predictions in eval
    mode are scored and decide what the memory keeps; after every `every` images the student learns a
    random view of the memory from the teacher, older images counting less.

    Args:
        alpha: weight of the batch in the moving statistics.
        teacher_rate: how far the teacher follows in each update (nu); 0: its weights stay the source's.
        capacity: maximum number of images in the memory.
        every: images between two updates.
        lambda_t: weight of age when the memory drops an image.
        lambda_u: weight of uncertainty in that choice.
        early_quota: limit each class to capacity / C images from the start, as the official code does;
            False: only once the memory is full, as in AETTA's and SoTTA's copies.
    """

    memory = None
    workloads: ClassVar = {"": {"early_quota": False}}

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: Adam(params, lr=1e-3),
        alpha: float = 0.05,
        teacher_rate: float = 0.001,
        capacity: int = 64,
        every: int = 64,
        lambda_t: float = 1.0,
        lambda_u: float = 1.0,
        early_quota: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        in_range(1, capacity=capacity, every=every)
        in_range(0, 1, teacher_rate=teacher_rate)
        self.alpha, self.teacher_rate = alpha, teacher_rate
        self.capacity, self.every, self.early_quota = capacity, every, early_quota
        self.lambda_t, self.lambda_u = lambda_t, lambda_u

    def prepare(self) -> None:
        replace_batch_norms(self.backbone, MovingBatchNorm, momentum=self.alpha)
        self.make_teacher()

    def update(self, images: Tensor) -> Tensor:
        logits = self.predict(images)
        self.remember(images, *self.judged(logits))
        return logits

    def judged(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Labels [B] and entropies [B] by the teacher's logits [B,C]."""
        if self.memory is None:  # only logits tell the number of classes
            self.memory = CSTU(
                self.capacity, logits.shape[1], self.lambda_t, self.lambda_u, self.early_quota
            )
        return logits.argmax(1), damped_entropy(logits)

    def learn(self, images: Tensor, ages: Tensor) -> None:
        """One step of the student, and then of the teacher, on the memory's images [M,3,H,W]."""
        with training(self.backbone), training(self.teacher):
            target = self.predict(images)
            logits = self(self.view(images))
        timeliness = torch.exp(-ages) / (1 + torch.exp(-ages))
        self.descend((soft_cross_entropy(logits, target) * timeliness).mean())
        self.follow()

    def view(self, images: Tensor) -> Tensor:
        """The random view of images [M,3,H,W] that the student learns, of the same shape."""
        return random_view(images, self.generator(f"view {self.state['seen']}"))
