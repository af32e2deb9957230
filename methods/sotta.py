"""SoTTA: screening-out test-time adaptation."""

from typing import Any, ClassVar

from torch import Tensor, nn
from torch.optim import Adam

from .. import in_range
from .functional import damped_entropy
from .optimizers import OptimizerCallable, sam_step
from .parts.memory import Memory, MemoryMethod
from .parts.norm import batch_norms, require_running_statistics, training


class HUS(Memory):
    """SoTTA's memory: confident images only, with balanced classes (Gong et al. 2023).

    When it is full, it removes a random image of the new image's class if that class is among the largest,
    otherwise one of a random largest class.

    Args:
        confidence: smallest value of an image that is stored.
    """

    def __init__(self, capacity: int, confidence: float) -> None:
        super().__init__(capacity)
        self.confidence = confidence

    def make_room(self, content: dict[str, Any], label: int, value: float) -> bool:
        if value < self.confidence:
            return False
        if len(content["items"]) >= self.capacity:
            self.drop_of_largest(content["items"], label)
        return True


class SoTTA(MemoryMethod):
    """Minimises entropy and its sharpness on confident, balanced images (Gong et al. 2023).

    Predictions, made with running statistics, are scored and decide what the memory keeps; after
    every `every` images the model takes one sharpness-aware entropy step on the memory, in which the
    running statistics follow.

    Args:
        confidence: lower limit for the memory: 0.99 for CIFAR-10, 0.66 for CIFAR-100, 0.33 for ImageNet.
        rho: radius of the sharpness-aware step.
        bn_momentum: how far the running statistics follow.
        capacity: maximum number of images in the memory.
        every: images between two updates.
        skip_top: leave the top layers' scale and shift alone.
    """

    workloads: ClassVar = {"": {"confidence": 0.0}}

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: Adam(params, lr=1e-3),
        confidence: float = 0.33,
        rho: float = 0.05,
        bn_momentum: float = 0.2,
        capacity: int = 64,
        every: int = 64,
        skip_top: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        in_range(1, capacity=capacity, every=every)
        self.memory = HUS(capacity, confidence)
        self.rho, self.bn_momentum, self.every, self.skip_top = rho, bn_momentum, every, skip_top

    def prepare(self) -> None:
        require_running_statistics(self.backbone)
        for layer in batch_norms(self.backbone):
            layer.momentum = self.bn_momentum

    def update(self, images: Tensor) -> Tensor:
        logits = self.predict(images)
        confidence, labels = logits.softmax(1).max(1)
        self.trace["selected"] = (confidence >= self.memory.confidence).sum()
        self.remember(images, labels, confidence)
        return logits

    def learn(self, images: Tensor, ages: Tensor) -> None:
        """One sharpness-aware step on the memory's images [M,3,H,W]."""

        def entropy() -> Tensor:
            return damped_entropy(self(images)).mean()

        assert self.optimizer is not None
        # The batch statistics of a single image would ruin the running ones.
        with training(self.backbone, len(images) > 1):
            loss = entropy()
            self.trace["first_loss"] = loss.detach()
            self.trace["loss"] = sam_step(self.optimizer, loss, entropy, self.rho)
