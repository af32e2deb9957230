"""NOTE: test-time adaptation robust to temporally correlated streams."""

from collections import Counter
from typing import Any

from torch import Tensor, nn
from torch.optim import Adam

from .. import in_range
from .functional import damped_entropy
from .optimizers import OptimizerCallable
from .parts.memory import Memory, MemoryMethod, largest
from .parts.norm import (
    InstanceAwareBatchNorm,
    replace_batch_norms,
    require_running_statistics,
    training,
)


class PBRS(Memory):
    """NOTE's memory: a random sample of the stream with balanced classes.

    Prediction-balanced reservoir sampling (Gong et al. 2022, Alg. 1): when it is full, a new image of a
    class that is not among the largest replaces a random image of a random largest class. One of a
    largest class replaces a random image of its own class, with the probability for which the stored
    ones remain a uniform sample of all images of that class.
    """

    @staticmethod
    def empty() -> dict[str, Any]:
        return {**Memory.empty(), "arrived": {}}  # images of each class so far

    def make_room(self, content: dict[str, Any], label: int, value: float) -> bool:
        items, arrived = content["items"], content["arrived"]
        arrived[label] = arrived.get(label, 0) + 1
        if len(items) < self.capacity:
            return True
        count = Counter(item["label"] for item in items)
        share = count[label] / arrived[label]
        if label in largest(count) and self.random.uniform(0, 1) > share:
            return False
        self.drop_of_largest(items, label)
        return True


class NOTE(MemoryMethod):
    """Instance-aware normalisation, and entropy on a balanced memory (Gong et al. 2022).

    Predictions use the moving statistics; they are scored, and the memory uses them as classes. After
    every `every` images the model takes one entropy step on the memory, in which the moving statistics
    follow. The official code predicts image by image, so an update within a batch changes later predictions
    in it; here updates follow the batch's predictions. Its source models are trained with this
    normalisation.

    Args:
        k: number of standard errors beyond which an image's own statistics count.
        bn_momentum: weight of new statistics in the moving ones.
        capacity: maximum number of images in the memory.
        every: images between two updates.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: Adam(params, lr=1e-4),
        k: float = 4.0,
        bn_momentum: float = 0.01,
        capacity: int = 64,
        every: int = 64,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        in_range(1, capacity=capacity, every=every)
        in_range(0, k=k)
        self.k, self.bn_momentum, self.every = k, bn_momentum, every
        self.memory = PBRS(capacity)

    def prepare(self) -> None:
        require_running_statistics(self.backbone)
        replace_batch_norms(
            self.backbone, InstanceAwareBatchNorm, momentum=self.bn_momentum, k=self.k
        )

    def update(self, images: Tensor) -> Tensor:
        logits = self.predict(images)
        labels = logits.argmax(1)
        self.remember(images, labels, labels)
        return logits

    def learn(self, images: Tensor, ages: Tensor) -> None:
        """One entropy step on the memory's images [M,3,H,W]."""
        # The batch statistics of a single image would ruin the moving ones.
        with training(self.backbone, len(images) > 1):
            logits = self(images)
        self.descend(damped_entropy(logits).mean() / logits.shape[1])
