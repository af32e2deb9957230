"""CoTTA: continual test-time adaptation."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim import SGD

from .. import in_range
from ..callbacks.recovery import Recovery, StochasticRestore
from .functional import soft_cross_entropy
from .optimizers import OptimizerCallable
from .parts.norm import needs_batch
from .parts.teacher import TeacherMethod
from .parts.views import random_view

_PIXELS_AT_ONCE = 2**15  # views with fewer pixels in total pass through the teacher together


class CoTTA(TeacherMethod):
    """Learns from a mean teacher's mean prediction over many views (Wang et al. 2022).

    If the source model is confident, the teacher predicts only the images themselves. After each step some
    weights are restored to the source: see `StochasticRestore`. Defaults are CCC's. In the official
    code rounding errors also move the teacher's frozen weights; here they do not.

    Args:
        everything: train all parameters, as in the paper, not only those of normalisation layers.
        symmetric: mean of cross-entropy and reverse cross-entropy; False: the paper's cross-entropy.
        threshold: mean confidence of the source model below which the teacher predicts all views.
        views: number of views.
        teacher_rate: weight of the student in the teacher's average; 0: it stays the source model.
        restore: probability to restore a weight.
    """

    tunable: ClassVar = ("restore", 10)  # Wang et al. 2022: the probability of restoring a weight
    workloads: ClassVar = {"": {"threshold": 0.0}, "views": {"threshold": 2.0}}

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: SGD(
            params, lr=0.01, momentum=0.9, nesterov=True
        ),
        everything: bool = False,
        symmetric: bool = True,
        threshold: float = 0.1,
        views: int = 32,
        teacher_rate: float = 0.001,
        restore: float = 0.001,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        in_range(1, views=views)
        in_range(0, 1, teacher_rate=teacher_rate, restore=restore)
        self.adapts = "all" if everything else "norms"
        self.symmetric = symmetric
        self.threshold, self.views, self.teacher_rate = threshold, views, teacher_rate
        self.restore_rate = restore
        # Whether the network cannot be vectorised over views.
        self.one_by_one = False

    def paper_recovery(self) -> Recovery:
        return StochasticRestore(self.restore_rate)

    def update(self, images: Tensor) -> Tensor:
        logits, target = self(images), self.predict(images)
        loss = soft_cross_entropy(logits, target)
        if self.symmetric:
            loss = 0.5 * loss + 0.5 * soft_cross_entropy(target, logits)
        self.descend(loss.mean())
        self.follow()
        return target

    def predict_by(self, network: nn.Module, images: Tensor) -> Tensor:
        if self.source_logits(images).softmax(1).amax(1).mean() >= self.threshold:
            return self.logits(network, images)
        generator = self.generator("views")
        count = max(1, _PIXELS_AT_ONCE // images[:, 0].numel())
        logits = []
        for start in range(0, self.views, count):
            some = range(start, min(start + count, self.views))
            views = torch.stack([random_view(images, generator) for _ in some])
            logits.append(self.of_views(network, views))
        return torch.cat(logits).mean(0)

    def of_views(self, network: nn.Module, views: Tensor) -> Tensor:
        """A network's logits [V,B,C] of views [V,B,3,H,W], each with its own batch statistics."""
        if len(views) == 1 or not needs_batch(network):
            return self.logits(network, views.flatten(0, 1)).unflatten(0, views.shape[:2])
        if not self.one_by_one and not self.divides:  # ranks cannot communicate inside a vmap
            try:
                return torch.vmap(lambda view: self.logits(network, view))(views)
            except RuntimeError:  # e.g. an LSTM, a custom autograd function, random numbers
                self.one_by_one = True
        return torch.stack([self.logits(network, view) for view in views])
