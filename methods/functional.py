"""The papers' losses and filters, pure functions of logits [B,C]; seeds, and copies to a device."""

import hashlib
import math

import torch
from torch import Tensor

from ..callbacks.functional.scores import softmax_entropy as softmax_entropy

# The logit of a class that a network masks: softmax is exactly 0 there in every precision.
MASKED = -1e4


def full_precision(logits: Tensor) -> Tensor:
    """Half-precision logits as float32, others unchanged (entropies in bfloat16 are useless)."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def rows_where(mask: Tensor) -> Tensor:
    """The rows [n] int64 at which a mask [B] is True; the host waits for their number, once."""
    return mask.nonzero().squeeze(1)


def first_rows(mask: Tensor, count: int) -> Tensor:
    """`rows_where` of a mask [B] with a known number of rows, for which the host does not wait."""
    return mask.int().argsort(descending=True, stable=True)[:count]


def most_certain(logits: Tensor, share: float) -> Tensor:
    """The rows [n] of logits [N,C] with the lowest entropy, this share of them but at least one (TPT)."""
    count = max(1, int(len(logits) * share))
    return softmax_entropy(logits).argsort(stable=True)[:count]


def marginal_entropy(logits: Tensor) -> Tensor:
    """Shannon entropy in nats of the mean of all rows' softmaxes, [N,C] -> scalar (MEMO, Eq. 2)."""
    log_mean = logits.log_softmax(1).logsumexp(0) - math.log(len(logits))
    return -(log_mean.exp() * log_mean.clamp_min(torch.finfo(logits.dtype).min)).sum()


def damped_entropy(logits: Tensor, floor: float = 1e-6) -> Tensor:
    """-sum_c p_c ln(p_c + floor) as RoTTA, SoTTA and AETTA have it, [B,C] -> [B]."""
    probs = logits.softmax(1)
    return -(probs * torch.log(probs + floor)).sum(1)


def redundant(probs: Tensor, mean_probs: Tensor, limit: float) -> Tensor:
    """Rows of `probs` [B,C] whose cosine with `mean_probs` [C] is at least `limit` (EATA, Eq. 5)."""
    return torch.cosine_similarity(probs, mean_probs.unsqueeze(0), dim=1).abs() >= limit


def redundancy_limit(classes: int) -> float:
    """The limit of `redundant` for C classes: 0.05 at 1,000, 0.4 at 10 (EATA), linear in ln C in between.

    Elsewhere it is proportional to 1 / sqrt(C), the cosine of a one-hot prediction and a uniform average.
    """
    nearest = min(max(classes, 10), 1000)
    share = math.log(1000 / nearest) / math.log(100)
    return (share * 0.4 + (1 - share) * 0.05) * math.sqrt(nearest / classes)


def generalized_cross_entropy(logits: Tensor, q: float) -> Tensor:
    """(1 - p^q) / q for the largest probability p of each row, [B,C] -> [B] (RPL)."""
    probs = logits.softmax(1)
    return (1 - probs.gather(1, logits.argmax(1, keepdim=True)).squeeze(1) ** q) / q


def likelihood_ratio(logits: Tensor) -> Tensor:
    """sum_c p_c ln((1 - p_c) / p_c), the negated soft likelihood ratio, [B,C] -> [B] (SLR)."""
    log_probs = logits.log_softmax(1)
    probs, top = log_probs.exp(), logits.argmax(1, keepdim=True)
    others = log_probs.scatter(1, top, -torch.inf).logsumexp(1, keepdim=True)
    # ln(1 - p) comes from the other classes where p is near 1 and a float cannot hold 1 - p.
    log_rest = torch.log1p(-probs.scatter(1, top, 0.0)).scatter(1, top, others)
    return (probs * (log_rest - log_probs)).sum(1)


def divergence_from_uniform(probs: Tensor) -> Tensor:
    """KL(p || uniform) = ln C - H(p) of one distribution, [C] -> scalar (SLR)."""
    # The clamp keeps the gradient finite where a probability has underflown to zero.
    log_probs = probs.clamp_min(torch.finfo(probs.dtype).tiny).log()
    return math.log(len(probs)) + (probs * log_probs).sum()


def _conjugate_label(probs: Tensor, epsilon: float) -> Tensor:
    """y* = (I + eps diag(p) - eps p p^T)^-1 p for each row, [B,C] -> [B,C], which sums to 1.

    Sherman-Morrison: y* = u / (1 - eps p.u) with u = p / (1 + eps p), so no C x C system is solved.
    """
    u = probs / (1 + epsilon * probs)
    return u / (1 - epsilon * (probs * u).sum(1, keepdim=True))


def conjugate_loss(logits: Tensor, epsilon: float) -> Tensor:
    """lse(z) - y*.(z - eps (1 - p)), the PolyLoss' conjugate, [B,C] -> [B] (Goyal et al. 2022).

    With eps = 0, the conjugate of the cross-entropy, it is the softmax entropy.
    """
    probs = logits.softmax(1)
    label = _conjugate_label(probs, epsilon)
    return logits.logsumexp(1) - (label * (logits - epsilon * (1 - probs))).sum(1)


def soft_cross_entropy(logits: Tensor, target_logits: Tensor) -> Tensor:
    """-sum_c q_c ln p_c for the softmaxes p of `logits` and q of `target_logits`, [B,C] -> [B]."""
    return -(target_logits.softmax(1) * logits.log_softmax(1)).sum(1)


def opinion_entropy(logits: Tensor) -> Tensor:
    """Entropy in nats of C beliefs and the uncertainty, [B,C] -> [B] in [0, ln(C+1)] (COME, Eq. 6 and 7).

    The logits are evidence e^z for a Dirichlet distribution; their norm gets no gradient.
    """
    norm = logits.norm(dim=1, keepdim=True)
    # As a softmax, evidence does not overflow; that of uncertainty is C.
    log_classes = logits.new_full((len(logits), 1), math.log(logits.shape[1]))
    opinion = torch.cat([logits / norm * norm.detach(), log_classes], 1).softmax(1) + 1e-7
    return -(opinion * opinion.log()).sum(1)


def clipped_likelihood_ratio(logits: Tensor, limit: float = 0.99) -> Tensor:
    """-sum_c p_c ln(p_c / (1 - p_c) + 1e-5) with p at most `limit`, [B,C] -> [B] (ROID, Eq. 2)."""
    probs = logits.softmax(1).clamp(0, limit)
    return -(probs * torch.log(probs / (1 - probs) + 1e-5)).sum(1)


def symmetric_cross_entropy(logits: Tensor, others: Tensor) -> Tensor:
    """Mean cross-entropy in both directions, [B,C] -> [B]; both sides get gradients (ROID, Eq. 8)."""
    return 0.5 * soft_cross_entropy(logits, others) + 0.5 * soft_cross_entropy(others, logits)


def consistency(logits: Tensor, of_view: Tensor, target: Tensor) -> Tensor:
    """Mean symmetric cross-entropy of images and of a view of them with a target, [B,C] -> [B] (RMT)."""
    both = symmetric_cross_entropy(logits, target) + symmetric_cross_entropy(of_view, target)
    return 0.5 * both


def certainty_and_diversity(probs: Tensor, mean_probs: Tensor, temperature: float) -> Tensor:
    """Weights [B] of softmaxes [B,C]; 0 for those that differ less than the average from `mean_probs` [C].

    The others' are exp(diversity * certainty / temperature), both scaled to [0,1] (ROID, Eq. 3 to 5).
    """
    diversity = _scaled(1 - torch.cosine_similarity(mean_probs.unsqueeze(0), probs, dim=1))
    certainty = _scaled((probs * probs.clamp_min(torch.finfo(probs.dtype).tiny).log()).sum(1))
    weights = torch.exp(diversity * certainty / temperature)
    return weights.masked_fill(diversity < diversity.mean(), 0)


def _scaled(values: Tensor) -> Tensor:
    """The values [N], shifted and scaled to [0,1]; 0 if all are equal (NaN in ROID's code)."""
    least, most = values.aminmax()
    return (values - least) / (most - least).clamp_min(torch.finfo(values.dtype).tiny)


def prior_corrected(logits: Tensor) -> Tensor:
    """Logits [B,C] times the smoothed mean prediction of the batch (ROID, Eq. 9, as in its code).

    The paper corrects probabilities; the code multiplies logits, which become about C times smaller.
    """
    prior, (batch, classes) = logits.softmax(1).mean(0), logits.shape
    smoothing = max(1 / batch, 1 / classes) / prior.max()
    return logits * (prior + smoothing) / (1 + classes * smoothing)


def seeded(key: str, device: torch.device) -> torch.Generator:
    """A random number generator seeded by the key."""
    seed = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big")
    return torch.Generator(device).manual_seed(seed)
