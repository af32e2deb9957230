"""EmbeddingClusters: how well the classes are separated in the embedding, and how far it has drifted."""

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from lightning.pytorch import LightningModule, Trainer
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from .... import HoldfastError, in_range
from ....batch import LabelledImages
from ....callbacks.estimator import at_most, drawn_indices, source_images
from ....callbacks.functional.scores import scored
from ....callbacks.observer import PeriodicObserver, undisturbed
from ....callbacks.protocols import Adapting, method_of, stream_of
from ....callbacks.record import save_arrays
from ....features import features
from ....run_folder import EMBEDDINGS
from ....tensors import compact, expanded

AT_ONCE = 100  # images in one pass through the network


class EmbeddingClusters(PeriodicObserver):
    """Silhouette and shift distance of held-out images while a model adapts (thesis, section 3.3).

    The first `held` images of the stream are held out. At each measurement their penultimate features are
    clustered by k-means, with as many clusters as there are classes: `silhouette` in [-1, 1] measures their
    separation; `shift`, the distance of their centroids from the source model's class means on clean
    images; `accuracy`, the accuracy on the held-out images, if labels are known.

    Args:
        validation: clean labelled images, for the class means.
        every: steps from one measurement to the next.
        held: number of images at the start of the stream that are held out.
        images: number of clean images for the class means.
        groups: the group of each class; -1, and classes beyond the end: exclude their images;
            "16-class-imagenet": ImageNet's in 16 categories (Geirhos et al. 2018); None: each class.
        keep: steps, multiples of `every`, at which the features go to embeddings.npz as well.

    Raises HoldfastError if a class has no clean image, or fewer images are held out than classes exist.
    """

    STATE = ("means", "saved")

    def __init__(
        self,
        validation: LabelledImages,
        every: int = 100,
        held: int = 1000,
        images: int = 2000,
        groups: Sequence[int] | Literal["16-class-imagenet"] | None = None,
        keep: Sequence[int] = (),
    ) -> None:
        super().__init__(every)
        in_range(2, held=held)
        if wrong := [step for step in keep if step % every]:
            raise HoldfastError(f"keep={wrong}: pass steps that are multiples of every={every}.")
        self.validation, self.held, self.images = validation, held, at_most(images, validation)
        if isinstance(groups, str):
            groups = sixteen_groups()
        self.groups = None if groups is None else torch.tensor(list(groups))
        self.keep = tuple(keep)
        self.means: Tensor | None = None  # [K,D], of the source model
        self.saved: dict[int, Tensor] = {}  # features [n,D] at the steps of `keep`

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        stream = stream_of(trainer)
        if stream is None:
            raise HoldfastError(
                "EmbeddingClusters holds out images of a stream, but the data are not a stream. Pass one, "
                "or omit EmbeddingClusters."
            )
        count = min(self.held, stream.images or self.held)
        batches = [stream.batch(index) for index in torch.arange(count).split(AT_ONCE)]
        images = torch.cat([batch.images for batch in batches])
        labels = torch.cat([batch.labels for batch in batches])
        with trainer.precision_plugin.test_step_context():
            self.hold(method_of(pl_module), images, labels)

    def hold(self, method: Adapting, images: Tensor, labels: Tensor) -> None:
        """Hold out these images [n,3,H,W] with their labels [n], before the first step of `method`.

        Raises HoldfastError if they are too few.
        """
        chosen = labels >= -1 if self.groups is None else self._group(labels) >= 0
        self._images, self._labels = compact(images[chosen].cpu()), labels[chosen].cpu()
        if self.means is None:
            device = next(method.predictor.parameters()).device
            with undisturbed(device):
                self.means = self._fit_means(method, device, images.dtype)
        if len(self._images) < len(self.means):
            raise HoldfastError(
                f"{len(self._images)} held-out images cannot form {len(self.means)} clusters. Raise held."
            )

    def observe(self, method: Adapting, images: Tensor) -> Mapping[str, float]:
        assert self.means is not None
        embedded, logits = self._features(method, expanded(self._images), images.device)
        if method.step_count in self.keep:
            self.saved[method.step_count] = embedded
        values = {"silhouette": math.nan, "shift": math.nan}
        if embedded.isfinite().all():
            clusters, centroids = cluster(embedded.numpy(), len(self.means))
            values["silhouette"] = silhouette(embedded.numpy(), clusters)
            values["shift"] = shift_distance(centroids, self.means.numpy())
        accuracy = float(scored(logits, self._labels)["accuracy"])
        return values if math.isnan(accuracy) else {**values, "accuracy": accuracy}

    def _group(self, labels: Tensor) -> Tensor:
        """The group [n] of each label [n]; -1 if it is excluded or unknown."""
        if self.groups is None:
            return labels
        last = len(self.groups) - 1
        known = (labels >= 0) & (labels <= last)
        return torch.where(known, self.groups[labels.clamp(0, last)], -1)

    def _features(
        self, method: Adapting, images: Tensor, device: torch.device
    ) -> tuple[Tensor, Tensor]:
        """Features [n,D] and logits [n,C] of the method's network, on the CPU."""
        pairs = [features(method.predictor, x.to(device)) for x in images.split(AT_ONCE)]
        embedded, logits = (torch.cat(part).float().cpu() for part in zip(*pairs, strict=True))
        return embedded, logits

    def _fit_means(self, method: Adapting, device: torch.device, dtype: torch.dtype) -> Tensor:
        """The mean feature [K,D] of the clean images of each class or group."""
        self.validation.adopt(getattr(method, "backbone", None))
        index = drawn_indices(self.validation, self.images)
        images, labels = source_images(self.validation, index, torch.device("cpu"), dtype)
        embedded, logits = self._features(method, images, device)
        groups = self._group(labels)
        count = logits.shape[1] if self.groups is None else int(self.groups.max()) + 1
        chosen = groups >= 0
        return torch.from_numpy(
            class_means(embedded[chosen].numpy(), groups[chosen].numpy(), count)
        )

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.saved:
            assert self.means is not None
            save_arrays(
                trainer,
                EMBEDDINGS,
                steps=np.array(list(self.saved)),
                features=torch.stack(list(self.saved.values())).numpy(),
                labels=self._group(self._labels).numpy(),
                means=self.means.numpy(),
            )


# ---- clusters of features [N,D] ---------------------------------------------------------------------


def class_means(features: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Mean feature [K,D] of each class 0..K-1, from features [N,D] and labels [N].

    >>> class_means(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1]), 2).tolist()
    [[1.0], [5.0]]

    Raises HoldfastError if a class has no image.
    """
    if not (counts := np.bincount(labels, minlength=classes)).all():
        raise HoldfastError(
            f"Each of the {classes} classes needs clean images, but their numbers are "
            f"{counts.tolist()}. Pass more clean images."
        )
    return np.stack([features[labels == k].mean(0) for k in range(classes)])


def cluster(features: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """k-means of features [N,D] from fixed initial centroids: clusters [N] and centroids [k,D]."""
    from sklearn.cluster import KMeans  # here: scikit-learn takes a second, and few runs need it

    fitted = KMeans(k, n_init=4, random_state=0).fit(features)
    return fitted.labels_, fitted.cluster_centers_


def silhouette(features: np.ndarray, clusters: np.ndarray) -> float:
    """Mean silhouette in [-1, 1] of features [N,D] in clusters [N], a measure of their separation.

    NaN if they are all in one, as after a complete collapse.
    """
    if not 1 < len(np.unique(clusters)) < len(features):
        return float("nan")
    from sklearn.metrics import silhouette_score

    return float(silhouette_score(features, clusters))


def shift_distance(centroids: np.ndarray, means: np.ndarray) -> float:
    """Mean distance of centroids [K,D] to class means [K,D], matched so that it is smallest.

    From the thesis (section 3.3): the drift of the clusters from the classes' positions on clean images.

    >>> shift_distance(np.array([[9.0], [0.0]]), np.array([[1.0], [9.0]]))
    0.5
    """
    distances = np.linalg.norm(centroids[:, None] - means[None], axis=-1)
    return float(distances[linear_sum_assignment(distances)].mean())


# ---- 16-class-ImageNet (Geirhos et al. 2018) --------------------------------------------------------


@cache
def sixteen() -> dict[str, list[int]]:
    """The numbers of the ImageNet classes in each category (their code, by synset)."""
    return json.loads((Path(__file__).parent / "sixteen.json").read_text())


def sixteen_groups() -> list[int]:
    """The category number (0 to 15) of each of ImageNet's 1,000 classes; -1 for a class without one."""
    number = {k: n for n, classes in enumerate(sixteen().values()) for k in classes}
    return [number.get(k, -1) for k in range(1000)]
