"""Resets by predictions alone: sudden changes (RDumb++), and disagreement with the source."""

import math
from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from .. import in_range
from .functional.scores import agreement, softmax_entropy
from .protocols import Adapting
from .resets import Reset

# Weight of the old value in the moving averages of the statistic and of its squared changes.
_MEMORY, _SPREAD_MEMORY = 0.75, 0.6
# The variance contains the newest change, so z does not exceed this.
_LARGEST_Z = 1 / math.sqrt(1 - _SPREAD_MEMORY)


class DriftReset(Reset):
    """Resets when a statistic of the predictions suddenly changes, as RDumb++ does (2026).

    z = |x - mean| / sqrt(variance) must not exceed `limit`; mean and variance are moving averages of the
    statistic x and of (x - mean)^2. The first `warm_up` steps and `cool_down` after each reset do not
    count. The official code tests before the update and resets at once; here the reset is before the next
    batch, as for all resets.

    Args:
        limit: the largest z, up to 1.58.
        soft: None for a reset of everything; or how far (0 to 1) the weights move back to the source, while
            the method's memory stays. In both cases the optimizer is reset.
        warm_up: steps.
        cool_down: steps.
    """

    STATE: ClassVar[tuple[str, ...]] = ("mean", "variance", "z")
    keep_memory = True  # the official code keeps the average of ETA's predictions

    def __init__(
        self, limit: float = 1.25, soft: float | None = None, warm_up: int = 5, cool_down: int = 18
    ) -> None:
        in_range(0, _LARGEST_Z, limit=limit)
        in_range(0, 1, soft=soft)
        in_range(0, warm_up=warm_up, cool_down=cool_down)
        self.limit, self.soft, self.warm_up, self.cool_down = limit, soft, warm_up, cool_down
        self.mean: float | None = None
        self.variance = 1e-6
        self.z = 0.0  # of the last step that counted

    @abstractmethod
    def statistic(self, logits: Tensor) -> float | None:
        """The statistic x of a batch's logits [B,C]; None if there is nothing to compare with."""

    def observe(self, method: Adapting) -> None:
        self.z = 0.0

    def learn(self, method: Adapting, images: Tensor, logits: Tensor) -> None:
        if method.step_count <= self.warm_up or method.steps_since_reset <= self.cool_down:
            return
        x = self.statistic(logits)
        if x is not None and self.mean is not None:
            change = x - self.mean
            self.variance = _SPREAD_MEMORY * self.variance + (1 - _SPREAD_MEMORY) * change**2
            self.z = abs(change) / (math.sqrt(self.variance + 1e-6) + 1e-6)
            self.mean = _MEMORY * self.mean + (1 - _MEMORY) * x
        elif x is not None:
            self.mean = x
        method.trace["drift"] = self.z

    def should_reset(self, method: Adapting) -> bool:
        return self.z > self.limit

    def reset(self, method: Adapting) -> None:
        weights = None
        if self.soft is not None:
            pairs = method.parameters_with_source()
            weights = [torch.lerp(p.detach(), source, self.soft) for p, source in pairs]
        method.reset(self.keep_memory, weights)
        self.z = 0.0


class EntropyDrift(DriftReset):
    """Resets when the mean prediction entropy of a batch jumps: see `DriftReset`."""

    def statistic(self, logits: Tensor) -> float:
        return float(softmax_entropy(logits).mean())


class KLDrift(DriftReset):
    """Resets when the divergence of the mean prediction from its average jumps: see `DriftReset`.

    The statistic is KL(average || mean prediction of the batch) / C, as in the official code; of the
    average, each batch has weight 0.1.
    """

    STATE = ("average",)
    average: Tensor | None = None

    def statistic(self, logits: Tensor) -> float | None:
        mean = logits.softmax(1).mean(0)
        if self.average is None:
            self.average, self.mean = mean, 0.0
            return None
        before = self.average.to(mean)
        self.average = 0.9 * before + 0.1 * mean
        before = before.clamp_min(1e-6)
        return float((before * (before / mean.clamp_min(1e-6)).log()).mean())


class DisagreementReset(Reset):
    """Resets when the model disagrees with its source on too many images.

    The share of images for which they differ, as a moving average in which a batch has weight 0.1, must
    not exceed `limit`. It adds one forward pass of the source model to each step. A
    model that adapts well also differs from its source, so the limit depends on the source's error.

    Args:
        limit: the largest share.
        keep_memory: see `Reset`.
    """

    STATE = ("average",)

    def __init__(self, limit: float = 0.75, keep_memory: bool = False) -> None:
        in_range(0, 1, limit=limit)
        self.limit, self.keep_memory = limit, keep_memory
        self.average: float | None = None

    def observe(self, method: Adapting) -> None:
        if method.steps_since_reset == 1:
            self.average = None

    def learn(self, method: Adapting, images: Tensor, logits: Tensor) -> None:
        share = 1 - float(agreement(method.source_logits(images).argmax(1), logits.argmax(1)))
        if self.average is not None:
            share = 0.9 * self.average + (1 - 0.9) * share
        self.average = method.trace["flipped"] = share

    def should_reset(self, method: Adapting) -> bool:
        return self.average is not None and self.average > self.limit
