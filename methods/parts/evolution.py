"""CMA-ES, the covariance matrix adaptation evolution strategy (Hansen 2016, arXiv 1604.00772)."""

import math
from typing import Any

import torch
from torch import Tensor


def first_distribution(size: int, like: Tensor) -> dict[str, Any]:
    """The standard normal distribution of points [N], of the device and type of `like`."""
    zeros, ones = like.new_zeros(size), like.new_ones(size)
    return {
        "mean": zeros,
        "step": like.new_ones(()),
        "covariance": ones.diag(),
        "axes": ones.diag(),  # eigenvectors of the covariance, and the roots of its eigenvalues
        "lengths": ones,
        "path": zeros,
        "step_path": zeros,
        "generation": 0,
    }


def drawn(distribution: dict[str, Any], count: int, generator: torch.Generator) -> Tensor:
    """Points [count,N] of the distribution (Eq. 5)."""
    axes, mean = distribution["axes"], distribution["mean"]
    normal = torch.randn(
        count, len(mean), generator=generator, device=mean.device, dtype=mean.dtype
    )
    return mean + distribution["step"] * (normal * distribution["lengths"]) @ axes.T


def evolved(distribution: dict[str, Any], points: Tensor, losses: Tensor) -> dict[str, Any]:
    """The distribution after a generation of points [K,N] with these losses [K] (Fig. 6, default weights).

    Weights are positive: the worse half of the points has no influence.
    """
    old, generation = distribution, distribution["generation"] + 1
    size, parents = points.shape[1], max(len(points) // 2, 1)
    raw = [math.log((len(points) + 1) / 2 / rank) for rank in range(1, parents + 1)]
    weights = points.new_tensor(raw) / sum(raw)
    mass = sum(raw) ** 2 / sum(value**2 for value in raw)  # the effective number of parents
    step_rate = (mass + 2) / (size + mass + 5)
    damping = 1 + 2 * max(0.0, ((mass - 1) / (size + 1)) ** 0.5 - 1) + step_rate
    path_rate = (4 + mass / size) / (size + 4 + 2 * mass / size)
    rank_one = 2 / ((size + 1.3) ** 2 + mass)
    rank_many = min(1 - rank_one, 2 * (mass - 2 + 1 / mass) / ((size + 2) ** 2 + mass))
    expected = size**0.5 * (1 - 1 / (4 * size) + 1 / (21 * size**2))  # E |N(0, I)|

    moves = (points[losses.argsort()[:parents]] - old["mean"]) / old["step"]
    move = weights @ moves
    white = old["axes"] @ ((old["axes"].T @ move) / old["lengths"])
    step_path = (1 - step_rate) * old["step_path"]
    step_path = step_path + (step_rate * (2 - step_rate) * mass) ** 0.5 * white
    length = torch.linalg.vector_norm(step_path)
    start = (1 - (1 - step_rate) ** (2 * generation)) ** 0.5
    short = (length / start < (1.4 + 2 / (size + 1)) * expected).to(points)
    path = (1 - path_rate) * old["path"] + short * (
        path_rate * (2 - path_rate) * mass
    ) ** 0.5 * move
    lost = (1 - short) * path_rate * (2 - path_rate)  # when the path has not moved
    covariance = (
        (1 - rank_one - rank_many + rank_one * lost) * old["covariance"]
        + rank_one * torch.outer(path, path)
        + rank_many * (moves.T * weights) @ moves
    )
    step = old["step"] * (step_rate / damping * (length / expected - 1)).exp()
    axes, lengths = old["axes"], old["lengths"]
    if generation % max(1, int(1 / ((rank_one + rank_many) * size * 10))) == 0:
        values, axes = torch.linalg.eigh(covariance)
        lengths = values.clamp_min(torch.finfo(values.dtype).tiny).sqrt()
    return {
        "mean": old["mean"] + old["step"] * move,
        "step": step,
        "covariance": covariance,
        "axes": axes,
        "lengths": lengths,
        "path": path,
        "step_path": step_path,
        "generation": generation,
    }
