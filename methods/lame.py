"""LAME: Laplacian adjusted maximum-likelihood estimation."""

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from .. import in_range, one_of
from .source import Source

Affinity = Literal["rbf", "knn", "linear"]


class LAME(Source):
    """Changes predictions, not weights: neighbours get similar predictions (Boudiaf et al. 2022).

    Where labels are correlated in time, neighbours mostly have the same label; in an i.i.d. stream with
    many classes they do not, and LAME then reduces accuracy. It returns logarithms of its
    probabilities, so that their softmax recovers these.

    Args:
        affinity: "rbf", as wide as the mean distance to the k-th nearest sample, "knn" or "linear".
        neighbours: k; "rbf" counts the sample itself among them.
        symmetric: average the affinity with its transpose.
        weight: weight of the neighbours (lambda).
        max_steps: largest number of iterations, which end once the energy no longer changes.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        affinity: Affinity = "rbf",
        neighbours: int = 5,
        symmetric: bool = False,
        weight: float = 1.0,
        max_steps: int = 100,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, **kwargs)
        in_range(2 if affinity == "rbf" else 1, neighbours=neighbours)
        in_range(1, max_steps=max_steps)
        one_of("rbf", "knn", "linear", affinity=affinity)
        self.affinity, self.neighbours, self.symmetric = affinity, neighbours, symmetric
        self.weight, self.max_steps = weight, max_steps

    def predict_by(self, network: nn.Module, images: Tensor) -> Tensor:
        """Logarithms [B,C] of the adjusted probabilities of images [B,3,H,W]."""
        features, logits = self.features(network, images)
        kernel = affinity_of(normalize(features), self.affinity, self.neighbours)
        if self.symmetric:
            kernel = (kernel + kernel.T) / 2
        return _laplacian_optimized(logits.softmax(1), kernel, self.weight, self.max_steps).log()


def affinity_of(points: Tensor, kind: Affinity, neighbours: int) -> Tensor:
    """Affinity [B,B] of samples with unit features [B,D] (LAME, section 4.3)."""
    if kind == "linear":
        return points @ points.T
    distances = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    if kind == "rbf":
        nearest = distances.topk(min(neighbours, len(points)), largest=False).values
        width = nearest[:, -1].mean()
        # Samples that are all the same are neighbours; the official code divides by zero.
        return torch.exp(-(distances**2) / (2 * width**2).clamp_min(torch.finfo(width.dtype).tiny))
    count = min(neighbours + 1, len(points))
    nearest = distances.topk(count, largest=False).indices[:, 1:]  # without the sample itself
    return torch.zeros_like(distances).scatter_(1, nearest, 1.0)


def _laplacian_optimized(probs: Tensor, kernel: Tensor, weight: float, max_steps: int) -> Tensor:
    """Probabilities [B,C] near `probs`, similar for samples with a large `kernel` [B,B] (Eq. 5 to 7)."""
    unary = -torch.log(probs + 1e-10)
    current, energy = (-unary).softmax(1), probs.new_full((), torch.inf, dtype=torch.float64)
    done, looks = torch.zeros_like(energy, dtype=torch.bool), (max_steps // 2,)
    for step in range(max_steps):
        pairwise = weight * (kernel @ current)
        new = (pairwise - unary).softmax(1)
        current = torch.where(done, current, new)
        logs = new.clamp_min(1e-20).log()
        before, energy = energy, (new * (unary - pairwise + logs)).sum().double()
        if step > 1:
            done = done | ((energy - before).abs() <= 1e-8 * before.abs())
        # On an accelerator the iteration continues without changes, as a check would make the host wait.
        if (done.device.type == "cpu" or step in looks) and done:
            break
    return current
