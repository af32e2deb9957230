"""TDA: training-free dynamic adapter."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from .. import HoldfastError, in_range
from .functional import marginal_entropy, most_certain
from .parts.augmix import augmix_views, with_views
from .parts.by_update import PredictsByUpdate
from .source import Source

Cache = dict[str, Tensor]
# In the masks of the negative cache: 1 GiB.
_MOST_NUMBERS = 2**28


class TDA(PredictsByUpdate, Source):
    """Corrects logits by the predictions of similar images earlier in the stream (Karmanov et al. 2024).

    A positive cache stores, for each predicted class, the features of the most certain images; a
    negative one those of fairly uncertain images, with the classes that these may belong to. Similar
    features add to the class in the first and subtract from the classes in the second.
    Images enter the caches one after another, each before it is scored. No parameter is trained. A stored
    image is only replaced by a more certain one, so that after a shift the caches may be stale.

    Args:
        shots: images for each class in the positive cache.
        alpha: weight of the positive cache.
        beta: sharpness of its similarities.
        negative_shots: images for each class in the negative cache.
        negative_alpha: weight of the negative cache.
        negative_beta: sharpness of its similarities.
        entropy: an image enters the negative cache if its entropy is between these shares of log2 C. As
            in the code, the entropy is in nats, so that a share of 1 cannot be reached.
        mask: the classes of an image in the negative cache are those with a probability between these.
        views: number of views of each image by AugMix (`augmix_views`), including the image itself, as in
            the code on variants of ImageNet; 1: the image alone, as on ImageNet.
        share: share of the views, the most certain ones, whose mean counts.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        shots: int = 3,
        alpha: float = 2.0,
        beta: float = 5.0,
        negative_shots: int = 2,
        negative_alpha: float = 0.117,
        negative_beta: float = 1.0,
        entropy: tuple[float, float] = (0.2, 0.5),
        mask: tuple[float, float] = (0.03, 1.0),
        views: int = 1,
        share: float = 0.1,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, **kwargs)
        in_range(1, shots=shots, negative_shots=negative_shots, views=views)
        in_range(0, 1, share=share)
        self.shots, self.alpha, self.beta = shots, alpha, beta
        self.negative_shots, self.negative_alpha = negative_shots, negative_alpha
        self.negative_beta, self.entropy, self.mask = negative_beta, entropy, mask
        self.views, self.share = views, share

    def fresh_state(self) -> dict[str, Any]:
        """The caches: for each class and slot an entropy, infinite if the slot is empty, and a feature."""
        return {"positive": None, "negative": None}

    @torch.no_grad()
    def update(self, images: Tensor) -> Tensor:
        generator, rows = self.generator("views"), []
        # One pass for all images, or one for the views of each image.
        for part in [images] if self.views == 1 else images.split(1):
            shown = part
            if self.views > 1:
                shown = with_views(part, self.views, generator, augmix_views)
            features, logits = self.features(self.backbone, shown)
            views = zip(features.split(self.views), logits.split(self.views), strict=True)
            rows += [self.score(*image) for image in views]
        return torch.cat(rows)

    def score(self, features: Tensor, logits: Tensor) -> Tensor:
        """The logits [1,C] of an image, from features [V,D] and logits [V,C] of its views."""
        certain = most_certain(logits, self.share)
        entropy, probs = marginal_entropy(logits[certain]), logits[certain].softmax(1).mean(0)
        feature = normalize(features[certain]).mean(0)
        logits = logits[certain].mean(0)
        label, classes = logits.argmax(0, keepdim=True), len(logits)
        if self.state["positive"] is None:
            caches = _empty_caches(feature, classes, self.shots, self.negative_shots)
            self.state = {**self.state, **caches}
        positive, negative = self.state["positive"], self.state["negative"]

        _remember(positive, label, {"entropy": entropy, "feature": feature})
        low, high = (share * math.log2(classes) for share in self.entropy)
        # Any entropy is below that of an empty slot, and an infinite one is below none.
        uncertain = torch.where((low < entropy) & (entropy < high), entropy, torch.inf)
        candidates = ((self.mask[0] < probs) & (probs < self.mask[1])).to(probs)
        _remember(negative, label, {"entropy": uncertain, "feature": feature, "mask": candidates})

        near = _similarity(positive, feature, self.beta).sum(1)
        unlike = _similarity(negative, feature, self.negative_beta).flatten()
        unlike = unlike @ negative["mask"].flatten(0, 1)
        return (logits + self.alpha * near - self.negative_alpha * unlike)[None]


def _empty_caches(
    feature: Tensor, classes: int, shots: int, negative_shots: int
) -> dict[str, Cache]:
    """The caches of a stream that begins, for features [D].

    Raises HoldfastError if there are too many classes for the masks.
    """
    if (numbers := negative_shots * classes**2) > _MOST_NUMBERS:
        raise HoldfastError(
            f"For {classes:,} classes TDA's negative cache would need {4e-9 * numbers:.1f} GB, twice that "
            "with the copy that undoes a step. Use fewer classes, such as BACKBONE@1000."
        )

    def slots(count: int) -> Cache:
        entropy = feature.new_full((classes, count), torch.inf)
        return {"entropy": entropy, "feature": feature.new_zeros(classes, count, len(feature))}

    mask = feature.new_zeros(classes, negative_shots, classes)
    return {"positive": slots(shots), "negative": {**slots(negative_shots), "mask": mask}}


def _remember(cache: Cache, label: Tensor, item: Cache) -> None:
    """Put an item in the last slot of its class, a label [1], if the item there has a higher entropy.

    The slots of a class are in the order of their entropies.
    """
    better = item["entropy"] < cache["entropy"][label, -1]
    rows = {name: values[label] for name, values in cache.items()}
    for name, slots in rows.items():
        slots[0, -1] = torch.where(better, item[name], slots[0, -1])
    order = rows["entropy"][0].argsort(stable=True)
    for name, slots in rows.items():
        cache[name][label] = slots[:, order]


def _similarity(cache: Cache, feature: Tensor, beta: float) -> Tensor:
    """exp(-beta (1 - cosine)) of a feature [D] with those of the cache, 0 for empty slots: [C,K]."""
    near = torch.exp(-beta * (1 - cache["feature"] @ feature))
    return torch.where(cache["entropy"] < torch.inf, near, 0)
