"""Classes as prototypes: means and variances of their features."""

import torch
from torch import Tensor
from torch.nn.functional import one_hot


def class_sums(features: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Sums [C,D] of the rows [N,D] of each class, and how many it has [C]."""
    member = one_hot(labels, classes).to(features)
    return member.T @ features, member.sum(0)


def class_means(features: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Mean features [C,D] of each class, and how many of the rows [N,D] it has [C]; 0 where none."""
    sums, counts = class_sums(features, labels, classes)
    return sums / counts.clamp_min(1)[:, None], counts


def class_variances(features: Tensor, labels: Tensor, means: Tensor, counts: Tensor) -> Tensor:
    """Unbiased variances [C,D] about `means` [C,D]; infinite for classes of fewer than two rows."""
    member = one_hot(labels, len(means)).to(features)
    variances = (member.T @ (features - means[labels]) ** 2) / (counts - 1).clamp_min(1)[:, None]
    return variances.masked_fill(counts[:, None] < 2, torch.inf)
