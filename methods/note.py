"""NOTE: test-time adaptation robust to temporally correlated streams."""

from random import Random
from typing import Any

from torch import Tensor, nn
from torch.optim import Adam

from .. import in_range
from .base import TTAMethod
from .functional import damped_entropy
from .optimizers import OptimizerFactory
from .parts.memory import PBRS, updates_within
from .parts.norm import (
    InstanceAwareBatchNorm,
    batch_norms,
    replace_batch_norms,
    require_running_statistics,
    training,
)


def adam(params: Any) -> Adam:
    """The official optimizer: Adam, learning rate 1e-4."""
    return Adam(params, lr=1e-4)


class NOTE(TTAMethod):
    """Instance-aware normalisation, and entropy on a balanced memory (Gong et al. 2022).

    Predictions use the moving statistics; they are scored, and the memory uses them as classes. After
    every `every` images the model takes one entropy step on the memory, in which the moving statistics
    follow. The official code predicts image by image, so an update within a batch changes later predictions
    in it; here updates follow the batch's predictions. Its source models are trained with this
    normalisation.

    Args:
        optimizer: for the parameters that adapt; default: Adam with learning rate 1e-4.
        k: number of standard errors beyond which an image's own statistics count.
        bn_momentum: weight of new statistics in the moving ones.
        capacity: maximum number of images in the memory.
        every: images between two updates.
        **kwargs: see `TTAMethod`.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerFactory = adam,
        k: float = 4.0,
        bn_momentum: float = 0.01,
        capacity: int = 64,
        every: int = 64,
        **kwargs: Any,
    ) -> None:
        in_range(1, capacity=capacity, every=every)
        in_range(0, k=k)
        self.k, self.bn_momentum, self.every = k, bn_momentum, every
        self.memory = PBRS(capacity, Random())
        super().__init__(backbone, optimizer, **kwargs)

    def prepare(self) -> None:
        require_running_statistics(self.backbone)
        replace_batch_norms(self.backbone, InstanceAwareBatchNorm)
        for layer in batch_norms(self.backbone):
            layer.momentum = self.bn_momentum
            layer.k = self.k  # type: ignore[assignment]

    def fresh_state(self) -> dict[str, Any]:
        return {"seen": 0, "memory": PBRS.empty()}

    def update(self, images: Tensor) -> Tensor:
        logits, state = self.predict(images), self.state
        self.draw()
        self.collecting, labels = True, logits.argmax(1).cpu()
        for part, update_due in updates_within(state["seen"], len(images), self.every):
            self.memory.add(state["memory"], images[part], labels[part], labels[part])
            if update_due:
                self.collecting = False
                for _ in self.passes():
                    self.learn(self.memory.read(state["memory"])[0])
        state["seen"] += len(images)
        return logits

    def draw(self) -> None:
        """Seed the memory's random number generator for this batch."""
        self.memory.random.seed(f"{self.seed} {self.steps_since_reset} PBRS")

    def learn(self, images: Tensor) -> None:
        """One entropy step on the memory's images [M,3,H,W]."""
        # The batch statistics of a single image would ruin the moving ones.
        with training(self.backbone, len(images) > 1):
            logits = self(images)
        self.descend(damped_entropy(logits).mean() / logits.shape[1])
