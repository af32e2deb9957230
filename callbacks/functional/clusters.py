"""Clusters of an embedding during adaptation: pure functions of features and labels."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from ... import HoldfastError


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

    found = KMeans(k, n_init=4, random_state=0).fit(features)
    return found.labels_, found.cluster_centers_


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
