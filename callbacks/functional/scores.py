"""Accuracy on a batch, and the formulas of its estimates: pure functions of logits, labels and classes."""

import math

import torch
from torch import Tensor

_SHARP = (
    5.0  # the mean KL divergence, in nats, from which on MaNo takes the softmax (official code)
)


# ---- accuracy -------------------------------------------------------------------------------------


def counted_labels(classes: Tensor, labels: Tensor) -> Tensor:
    """The label [B] to compare with each predicted class [B]; of several labels [B,K] any counts as right.

    >>> counted_labels(torch.tensor([3, 9]), torch.tensor([[1, 3], [1, -1]]))
    tensor([3, 1])
    """
    if labels.ndim == 1:
        return labels
    return torch.where((classes[:, None] == labels).any(1), classes, labels[:, 0])


def scored(logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Scores of a batch's logits [B,C], given labels [B], -1 where not known, or [B,K].

    "logits" [B,C], -inf for masked classes; "labels" [B], with which the predictions are compared;
    "correct" [B], False where the label is not known or the logits are not finite; "counted" [B], where
    both are; "confidence" [B] of the predicted class. Two scalars, NaN if no image counts: "accuracy"
    leaves out images without a label, and "nll", the negative log-likelihood in nats, also logits that are
    not finite and labels of none of the classes, C.

    >>> scored(torch.eye(3), torch.tensor([0, 2, -1]))["accuracy"]
    tensor(0.5000)
    """
    classes = logits.argmax(1)
    labels = counted_labels(classes, labels)
    known = labels >= 0
    counted = logits.amax(1).isfinite() & known
    in_classes = counted & (labels < logits.shape[1])
    correct = (classes == labels) & counted
    likelihoods = logits.log_softmax(1)
    of_label = likelihoods.gather(1, labels.clamp(0, logits.shape[1] - 1)[:, None])[:, 0]
    return {
        "logits": logits,
        "labels": labels,
        "correct": correct,
        "counted": counted,
        "confidence": likelihoods.amax(1).exp(),
        "accuracy": correct.sum() / known.sum(),
        "nll": -torch.where(in_classes, of_label, 0).sum() / in_classes.sum(),
    }


# ---- confidence and dispersion --------------------------------------------------------------------


def softmax_score(logits: Tensor, temperature: float = 2.0) -> Tensor:
    """Mean over the batch of max softmax(z / T) in [1/C, 1], [B,C] -> scalar (Lee et al. 2024, baseline).

    >>> softmax_score(torch.tensor([[2.0, 0.0], [0.0, 0.0]]), temperature=1.0)
    tensor(0.6904)
    """
    return torch.softmax(logits / temperature, dim=1).amax(1).mean()


def softmax_entropy(logits: Tensor) -> Tensor:
    """Shannon entropy in nats of the softmax over the last dimension, [...,C] -> [...] in [0, ln C]."""
    return -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1)


def mean_entropy(logits: Tensor, floor: float = 1e-6) -> Tensor:
    """-sum_c q_c ln(q_c + floor) in nats, q the mean softmax(z) of all rows, [...,C] -> scalar."""
    mean = logits.softmax(-1).flatten(0, -2).mean(0)
    return -(mean * torch.log(mean + floor)).sum()


def mano(logits: Tensor, p: float = 4.0) -> Tensor:
    """MaNo's score (1 / (N C) sum_ic s_ic^p)^(1/p) in [0, 1], [N,C] -> scalar (Xie et al. 2024).

    s is the softmax if KL(uniform || softmax) exceeds 5 nats on average, else 1 + z + z^2 / 2 over its sum.

    >>> mano(torch.tensor([[1.0, -1.0]]))  # (2.5, 0.5) / 3
    tensor(0.7010)
    """
    divergence = -logits.log_softmax(1).mean() - math.log(logits.shape[1])
    taylor = 1 + logits + logits**2 / 2
    sharp = bool(divergence > _SHARP)
    scores = logits.softmax(1) if sharp else taylor / taylor.sum(1, keepdim=True)
    return (scores**p).mean() ** (1 / p)


def nuclear_norm(logits: Tensor) -> Tensor:
    """The sum of the singular values of softmax(z) [N,C], divided by sqrt(min(N, C) N), -> scalar.

    In [0, 1]; 1 where predictions are certain and classes are used evenly (Deng et al. 2023).

    >>> nuclear_norm(torch.tensor([[99.0, 0.0], [0.0, 99.0]]))
    tensor(1.)
    """
    norm = torch.linalg.matrix_norm(logits.softmax(1), ord="nuc")
    return norm / math.sqrt(min(logits.shape) * len(logits))


# ---- agreement ------------------------------------------------------------------------------------


def agreement(first: Tensor, second: Tensor) -> Tensor:
    """Share in [0,1] of equal entries of two tensors of classes [...,B], which are broadcast.

    >>> agreement(torch.tensor([1, 2]), torch.tensor([[1, 2], [1, 0]]))
    tensor(0.7500)
    """
    return (first == second).float().mean()


def logit_shrinking_step(gradient: Tensor, epsilon: float) -> Tensor:
    """epsilon sign(g) / |sign(g)|_2 for the gradient g [B,...] of each image (Lee et al. 2023)."""
    sign = gradient.sign()
    length = sign.flatten(1).norm(dim=1).clamp(min=1e-12)
    return epsilon * sign / length.view(-1, *(1,) * (sign.dim() - 1))


def aetta_parts(predicted: Tensor, dropped: Tensor) -> tuple[Tensor, Tensor]:
    """The two parts of AETTA's error, scalars in [0,1]: the disagreement of predictions [B] with
    logits [N,B,C] under dropout, and the balance E_avg / ln C, the evenness of the predicted classes."""
    disagreement = 1 - agreement(predicted, dropped.argmax(-1))
    return disagreement, mean_entropy(dropped) / math.log(dropped.shape[-1])


def weighted_error(disagreement: Tensor, balance: Tensor, classes: int, alpha: float) -> Tensor:
    """AETTA's error, disagreement / balance^alpha in [0, 1 - 1/C], of any shape (Lee et al. 2024, Eq. 13).

    A collapsed model, whose mean prediction is far from uniform, agrees with itself without being right.
    """
    return (disagreement / balance**alpha).clamp(0, 1 - 1 / classes)


def smoothed(error: float, average: float, weight: float = 0.4) -> float:
    """The moving average of AETTA's errors, (1 - weight) average + weight error.

    >>> smoothed(error=0.5, average=0.0)
    0.2
    """
    return (1 - weight) * average + weight * error


def aetta_estimates(
    disagreement: Tensor, balance: Tensor, classes: int, alpha: float = 3.0, weight: float = 0.4
) -> Tensor:
    """AETTA's estimates [T] from the record of T batches, with any alpha and smoothing.

    Computed from the columns `AETTA_disagreement` and `AETTA_balance` [T] of one run, so that the
    paper's ablation of alpha (Fig. 5b) needs no further run.

    >>> aetta_estimates(torch.tensor([0.2, 0.2]), torch.tensor([1.0, 0.5]), 10, alpha=1.0)
    tensor([0.8000, 0.7200])
    """
    average, estimates = float(disagreement[0]), []
    for error in weighted_error(disagreement, balance, classes, alpha).tolist():
        average = smoothed(error, average, weight)
        estimates.append(1 - average)
    return torch.tensor(estimates)


def corrected_confidence(confidence: Tensor, balance: float, classes: int, alpha: float) -> Tensor:
    """Robust calibration (Lee et al. 2024, Def. 3.3) of the largest confidence q of images [B].

    The confidence of each other class is multiplied by b = balance^-alpha; the predicted class gets the
    remainder 1 - b (1 - q), at least 1/C.

    >>> corrected_confidence(torch.tensor([0.9, 0.5]), 0.5, 10, alpha=1.0)
    tensor([0.8000, 0.1000])
    """
    return (1 - (1 - confidence) / balance**alpha).clamp(min=1 / classes)
