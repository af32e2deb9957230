"""Features of classes: their sums, a projector of features, and the methods that contrast them."""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, one_hot
from torch.nn.utils import skip_init

from ...features import classifier
from ..base import TTAMethod
from ..functional import full_precision, seeded
from .views import random_view


def _projector(network: nn.Module, size: int) -> nn.Sequential:
    """Two linear layers with a ReLU between, from features [N,D] of the network to [N,size].

    They start at PyTorch's random initial values, which depend only on the run's seed.

    Raises HoldfastError if the network has no layer that may be its classifier.
    """
    weight: Tensor = classifier(network).weight
    generator = seeded(f"{torch.initial_seed()} projector", torch.device("cpu"))
    first, last = (skip_init(nn.Linear, width, size) for width in (weight.shape[1], size))
    for layer in (first, last):
        bound = layer.in_features**-0.5
        for parameter in layer.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return nn.Sequential(first, nn.ReLU(), last).to(weight)


def _nearest(features: Tensor, prototypes: Tensor, known: Tensor) -> Tensor:
    """The class [B] of the `known` [C] whose prototype [C,D] has the largest cosine with each row [B,D]."""
    similarity = normalize(features) @ normalize(prototypes).T
    return similarity.masked_fill(~known, -torch.inf).argmax(1)


def _contrastive_loss(views: Tensor, temperature: float) -> Tensor:
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


def class_sums(features: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """The sum of the features [N,D] of each class [C,D], and how many of these rows it has [C]."""
    member = one_hot(labels, classes).to(features)
    return member.T @ features, member.sum(0)


def class_means(features: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Mean features [C,D] of each class, 0 where none, and how many of the rows [N,D] it has [C]."""
    sums, counts = class_sums(features, labels, classes)
    return sums / counts.clamp_min(1)[:, None], counts


class ContrastMethod(TTAMethod):
    """A method that pulls features towards those of a view and the nearest prototype of the source.

    `learnt` has `prototypes` [C,D] of the source's classes, 0 for those without images, and the `counts`
    [C] of these. A projector of `projection` features comes before the contrast.
    """

    projection: int
    temperature: float

    def prepare(self) -> None:
        super().prepare()
        self.projector = _projector(self.backbone, self.projection)

    def view(self, images: Tensor) -> Tensor:
        """The view of the images [B,3,H,W] with which they are contrasted."""
        return random_view(images, self.generator("view"))

    def contrast(self, features: Tensor, again: Tensor) -> Tensor:
        """The contrastive loss, a scalar, of features [B,D], the view's, and the nearest prototypes."""
        prototypes, known = self.learnt["prototypes"], self.learnt["counts"] > 0
        closest = _nearest(features.detach(), prototypes, known)
        views = full_precision(self.projector(torch.stack([prototypes[closest], features, again])))
        loss = _contrastive_loss(normalize(views, dim=2), self.temperature)
        self.trace["loss_contrastive"] = loss.detach()
        return loss

    def prototypes(self, sums: Tensor, counts: Tensor) -> dict[str, Tensor]:
        """The entries of `learnt`, from the sum [C,D] and the number [C] of features of each class."""
        return {"prototypes": sums / counts.clamp_min(1)[:, None], "counts": counts}
