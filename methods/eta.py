"""ETA: entropy minimisation on reliable, non-redundant samples."""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim import SGD

from .base import TTAMethod
from .functional import opinion_entropy, redundancy_limit, redundant, rows_where, softmax_entropy
from .optimizers import OptimizerCallable


class ETA(TTAMethod):
    """Minimises the weighted entropy of reliable and non-redundant samples (Niu et al. 2022).

    A sample counts if its entropy H is below H0 = `entropy_factor` ln C (Eq. 3) and its softmax has a
    cosine below `redundancy` with the moving average of the softmaxes that counted before (Eq. 5);
    its weight is exp(H0 - H). In the average the old value has weight 0.9, as in the official code;
    the papers write 0.1, and eq. 2.1 of the thesis has the mean of all predictions so far.

    Args:
        entropy_factor: H0 as a share of the largest entropy ln C.
        redundancy: cosine above which a sample is redundant; None: depends on the number of classes
            (`redundancy_limit`), 0.05 for 1,000 as in the paper, 0.4 for 10.
        come: the entropy of opinions in place of probabilities (COME, Zhang et al. 2025).
    """

    workloads: ClassVar = {"": {"entropy_factor": 1.01, "redundancy": 1.01}}

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: SGD(params, lr=2.5e-4, momentum=0.9),
        entropy_factor: float = 0.4,
        redundancy: float | None = None,
        come: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        self.entropy_factor, self.redundancy = entropy_factor, redundancy
        self.entropy = opinion_entropy if come else softmax_entropy

    def fresh_state(self) -> dict[str, Any]:
        return {"mean_probs": None}

    def select(self, logits: Tensor, entropy: Tensor) -> Tensor:
        """The rows [n] of the samples that count; updates the average softmax."""
        selected = entropy < self.margin(logits)
        self.trace["reliable"] = selected.sum()
        probs, mean_probs = logits.detach().softmax(1), self.state["mean_probs"]
        limit = self.limit(logits.shape[1])
        if mean_probs is not None:
            selected = selected & ~redundant(probs, mean_probs, limit)
        rows = rows_where(selected)
        self.trace["selected"] = len(rows)
        if len(rows):
            mean = probs[rows].mean(0)
            self.state["mean_probs"] = mean if mean_probs is None else 0.9 * mean_probs + 0.1 * mean
        return rows

    def limit(self, classes: int) -> float:
        """The cosine above which a sample is redundant."""
        if self.redundancy is not None:
            return self.redundancy
        self.chosen["redundancy"] = limit = redundancy_limit(classes)
        return limit

    def margin(self, logits: Tensor) -> float:
        """H0 in nats, for logits [B,C]."""
        return self.entropy_factor * math.log(logits.shape[1])

    def loss(self, logits: Tensor, images: Tensor) -> Tensor | None:
        entropy = self.entropy(logits)
        rows = self.select(logits, entropy.detach())
        if not len(rows):
            return None
        entropy = entropy[rows]
        # Not exp(H0 - H): the official code's form, with which float32 runs agree bit for bit.
        weight = 1 / torch.exp(entropy.detach() - self.margin(logits))
        return (weight * entropy).mean()
