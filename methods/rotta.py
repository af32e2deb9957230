"""RoTTA: robust test-time adaptation."""

from typing import Any

import torch
from torch import Tensor, nn

from .. import in_range
from ..callbacks.later import on_host
from .functional import damped_entropy, soft_cross_entropy
from .optimizers import OptimizerFactory, adam
from .parts.memory import CSTU, updates_within
from .parts.norm import MovingBatchNorm, batch_norms, replace_batch_norms, training
from .parts.teacher import TeacherMethod
from .parts.views import random_view


class RoTTA(TeacherMethod):
    """Learns from a mean teacher on a balanced, fresh and certain memory (Yuan et al. 2023).

    Batch normalisation follows the stream with moving statistics. The teacher's predictions in eval
    mode are scored and decide what the memory keeps; after every `every` images the student learns a
    random view of the memory from the teacher, older images counting less.

    Args:
        optimizer: for the parameters that adapt; default: Adam with learning rate 1e-3.
        alpha: weight of the batch in the moving statistics.
        teacher_rate: how far the teacher follows in each update (nu); 0: its weights stay the source's.
        capacity: maximum number of images in the memory.
        every: images between two updates.
        lambda_t: weight of age when the memory drops an image.
        lambda_u: weight of uncertainty in that choice.
        early_quota: limit each class to capacity / C images from the start, as RoTTA's own code does;
            False: only once the memory is full, as in AETTA's and SoTTA's copies.
        **kwargs: see `TTAMethod`.
    """

    memory: CSTU | None = None

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerFactory = adam,
        alpha: float = 0.05,
        teacher_rate: float = 0.001,
        capacity: int = 64,
        every: int = 64,
        lambda_t: float = 1.0,
        lambda_u: float = 1.0,
        early_quota: bool = True,
        **kwargs: Any,
    ) -> None:
        in_range(1, capacity=capacity, every=every)
        self.alpha, self.teacher_rate = alpha, teacher_rate
        self.capacity, self.every, self.early_quota = capacity, every, early_quota
        self.lambda_t, self.lambda_u = lambda_t, lambda_u
        super().__init__(backbone, optimizer, **kwargs)

    def prepare(self) -> None:
        replace_batch_norms(self.backbone, MovingBatchNorm)
        for layer in batch_norms(self.backbone):
            layer.momentum = self.alpha
        self.make_teacher()

    def fresh_state(self) -> dict[str, Any]:
        return {"seen": 0, "memory": CSTU.empty()}

    @torch.no_grad()
    def predict(self, images: Tensor) -> Tensor:
        return self.logits(self.teacher, images)

    def update(self, images: Tensor) -> Tensor:
        logits = self.predict(images)
        self.collecting, (labels, entropy) = True, self.judged(logits)
        for part, update_due in updates_within(self.state["seen"], len(images), self.every):
            self.remember(images[part], labels[part], entropy[part])
            if update_due:
                self.collecting = False
                self.learn_in_passes()
        return logits

    def judged(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Labels [B] and entropies [B] by the teacher's logits [B,C], on the host."""
        if self.memory is None:  # only logits tell the number of classes
            self.memory = CSTU(
                self.capacity, logits.shape[1], self.lambda_t, self.lambda_u, self.early_quota
            )
        labels, entropy = on_host(logits.argmax(1), damped_entropy(logits))
        return labels, entropy

    def remember(self, images: Tensor, labels: Tensor, entropy: Tensor) -> None:
        """Offer images [B,3,H,W] to the memory."""
        assert self.memory is not None
        self.memory.add(self.state["memory"], images, labels, entropy)
        self.state["seen"] += len(images)

    def learn_in_passes(self) -> None:
        """`steps` updates on the memory's content."""
        assert self.memory is not None
        for _ in self.passes():
            self.learn(*self.memory.read(self.state["memory"]))

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
