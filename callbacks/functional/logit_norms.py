"""Norms of a batch's predictions that correlate with its accuracy: pure functions of logits [N,C]."""

import math

import torch
from torch import Tensor

SHARP = 5.0  # the mean KL divergence, in nats, from which on MaNo takes the softmax (official code)


def mano(logits: Tensor, p: float = 4.0) -> Tensor:
    """MaNo's score (1 / (N C) sum_ic s_ic^p)^(1/p) in [0, 1], -> scalar (Xie et al. 2024).

    s is the softmax if KL(uniform || softmax) exceeds 5 nats in the mean, else 1 + z + z^2 / 2, divided
    by its sum over classes.

    >>> mano(torch.tensor([[1.0, -1.0]]))  # (2.5, 0.5) / 3
    tensor(0.7010)
    """
    divergence = -logits.log_softmax(1).mean() - math.log(logits.shape[1])
    taylor = 1 + logits + logits**2 / 2
    sharp = bool(divergence > SHARP)
    scores = logits.softmax(1) if sharp else taylor / taylor.sum(1, keepdim=True)
    return (scores**p).mean() ** (1 / p)


def nuclear_norm(logits: Tensor) -> Tensor:
    """The sum of the singular values of softmax(z) [N,C], divided by sqrt(min(N, C) N), -> scalar.

    In [0, 1]; 1 where predictions are certain and classes are used evenly (Deng et al. 2023).

    >>> nuclear_norm(torch.tensor([[99.0, 0.0], [0.0, 99.0]]))
    tensor(1.)
    """
    n = len(logits)
    norm = torch.linalg.matrix_norm(logits.softmax(1), ord="nuc")
    return norm / math.sqrt(min(logits.shape) * n)
