"""Features of classes: their prototypes, a projector of features, and losses that contrast them."""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, one_hot
from torch.nn.utils import skip_init

from ...callbacks.features import classifier
from ..functional import full_precision, seeded


def projector(network: nn.Module, size: int) -> nn.Sequential:
    """Two linear layers with a ReLU between, from features [N,D] of the network to [N,size].

    They start at PyTorch's random initial values, which depend only on the run's seed.

    Raises:
        HoldfastError: if the network has no layer that may be its classifier.
    """
    weight: Tensor = classifier(network).weight
    generator = seeded(f"{torch.initial_seed()} projector", torch.device("cpu"))
    first, last = (skip_init(nn.Linear, width, size) for width in (weight.shape[1], size))
    for layer in (first, last):
        bound = layer.in_features**-0.5
        for parameter in layer.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return nn.Sequential(first, nn.ReLU(), last).to(weight)


def nearest(features: Tensor, prototypes: Tensor, known: Tensor) -> Tensor:
    """The class [B] of the `known` [C] whose prototype [C,D] has the largest cosine with each row [B,D]."""
    similarity = normalize(features) @ normalize(prototypes).T
    return similarity.masked_fill(~known, -torch.inf).argmax(1)


def contrastive_loss(views: Tensor, temperature: float) -> Tensor:
    """The contrastive loss of V views of each sample: unit vectors [V,B,P] -> scalar.

    Mean of -ln softmax of the cosine / temperature over all pairs of views of one sample; a view is not
    compared with itself (RMT, Eq. 4; SANTA, Eq. 3).
    """
    count, size = views.shape[:2]
    flat = views.flatten(0, 1)
    similarity = flat @ flat.T / temperature
    itself = torch.eye(len(flat), dtype=torch.bool, device=flat.device)
    others = similarity.masked_fill(itself, -torch.inf).logsumexp(1, keepdim=True)
    same = torch.eye(size, dtype=torch.bool, device=flat.device).repeat(count, count) & ~itself
    return -torch.where(same, similarity - others, 0).sum() / same.sum()


def contrast_with_prototypes(
    projector: nn.Module,
    source: dict[str, Tensor],
    found: Tensor,
    again: Tensor,
    temperature: float,
) -> Tensor:
    """The contrastive loss of features [B,D], those of a view, and the prototypes nearest to the first.

    source: `prototypes` [C,D] of the source's classes, and their `counts` [C] of images.
    """
    prototypes = source["prototypes"]
    closest = nearest(found.detach(), prototypes, source["counts"] > 0)
    views = torch.stack([prototypes[closest], found, again])
    return contrastive_loss(normalize(full_precision(projector(views)), dim=2), temperature)


class ClassMeans:
    """The mean features [C,D] of each class, and how many rows it has [C], from one batch after another."""

    def __init__(self) -> None:
        self.sums: Tensor | float = 0.0
        self.counts: Tensor | float = 0.0

    def add(self, features: Tensor, labels: Tensor, classes: int) -> None:
        """Take in features [N,D] and labels [N]."""
        member = one_hot(labels, classes).to(features)
        self.sums, self.counts = self.sums + member.T @ features, self.counts + member.sum(0)

    def prototypes(self) -> dict[str, Tensor]:
        """`prototypes` [C,D], 0 for classes without rows, and `counts` [C]."""
        assert isinstance(self.sums, Tensor)
        assert isinstance(self.counts, Tensor)
        prototypes = self.sums / self.counts.clamp_min(1)[:, None]
        return {"prototypes": prototypes, "counts": self.counts}


def class_means(features: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Mean features [C,D] of each class, and how many of the rows [N,D] it has [C]; 0 where none."""
    member = one_hot(labels, classes).to(features)
    counts = member.sum(0)
    return member.T @ features / counts.clamp_min(1)[:, None], counts
