"""SoTTA: screening-out test-time adaptation."""

from collections.abc import Iterable
from random import Random
from typing import Any

from torch import Tensor, nn

from .. import in_range
from ..callbacks.later import on_host
from .base import TTAMethod
from .functional import damped_entropy
from .optimizers import OptimizerFactory, adam, sam_step
from .parts.memory import HUS, updates_within
from .parts.norm import batch_norms, require_running_statistics, training


class SoTTA(TTAMethod):
    """Minimises entropy and its sharpness on confident, balanced images (Gong et al. 2023).

    Predictions, made with running statistics, are scored and decide what the memory keeps; after
    every `every` images the model takes one sharpness-aware entropy step on the memory, in which the
    running statistics follow.

    Args:
        optimizer: for the parameters that adapt; default: Adam with learning rate 1e-3.
        confidence: lower limit for the memory: 0.99 for CIFAR-10, 0.66 for CIFAR-100,
            0.33 for ImageNet.
        rho: radius of the sharpness-aware step.
        bn_momentum: how far the running statistics follow.
        capacity: maximum number of images in the memory.
        every: images between two updates.
        skip_top: leave the top layers' scale and shift alone.
        **kwargs: see `TTAMethod`.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerFactory = adam,
        confidence: float = 0.33,
        rho: float = 0.05,
        bn_momentum: float = 0.2,
        capacity: int = 64,
        every: int = 64,
        skip_top: bool = True,
        **kwargs: Any,
    ) -> None:
        in_range(1, capacity=capacity, every=every)
        self.memory = HUS(capacity, confidence, Random())
        self.rho, self.bn_momentum, self.every, self.skip_top = rho, bn_momentum, every, skip_top
        super().__init__(backbone, optimizer, **kwargs)

    def prepare(self) -> None:
        require_running_statistics(self.backbone)
        for layer in batch_norms(self.backbone):
            layer.momentum = self.bn_momentum

    def adaptable_parameters(self) -> Iterable[nn.Parameter]:
        return self.norm_affine(self.skip_top)

    def fresh_state(self) -> dict[str, Any]:
        return {"seen": 0, "memory": HUS.empty()}

    def update(self, images: Tensor) -> Tensor:
        logits, state = self.predict(images), self.state
        confidence, label = logits.softmax(1).max(1)
        content = state["memory"]
        self.memory.random.seed(f"{self.seed} {self.steps_since_reset} HUS")
        self.trace["selected"] = (confidence >= self.memory.confidence).sum()
        self.collecting, (label, confidence) = True, on_host(label, confidence)
        for part, update_due in updates_within(state["seen"], len(images), self.every):
            self.memory.add(content, images[part], label[part], confidence[part])
            self.collecting &= not update_due
            if update_due and content["items"]:
                for _ in self.passes():
                    self.learn(self.memory.read(content)[0])
        state["seen"] += len(images)
        return logits

    def learn(self, images: Tensor) -> None:
        """One sharpness-aware step on the memory's images [M,3,H,W]."""

        def entropy() -> Tensor:
            return damped_entropy(self(images)).mean()

        assert self.optimizer is not None
        # The batch statistics of a single image would ruin the running ones.
        with training(self.backbone, len(images) > 1):
            loss = entropy()
            self.trace["first_loss"] = loss.detach()
            self.trace["loss"] = sam_step(self.optimizer, loss, entropy, self.rho)
