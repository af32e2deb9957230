"""The papers' losses and filters as pure functions of logits [B,C]."""

import torch
from torch import Tensor


def full_precision(logits: Tensor) -> Tensor:
    """Half-precision logits as float32, others unchanged (entropies in bfloat16 are useless)."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def softmax_entropy(logits: Tensor) -> Tensor:
    """Shannon entropy in nats of each row's softmax, [B,C] -> [B] in [0, ln C]."""
    return -(logits.softmax(1) * logits.log_softmax(1)).sum(1)


def redundant(probs: Tensor, mean_probs: Tensor, limit: float) -> Tensor:
    """Rows of `probs` [B,C] whose cosine with `mean_probs` [C] is at least `limit` (EATA, Eq. 5)."""
    return torch.cosine_similarity(probs, mean_probs.unsqueeze(0), dim=1).abs() >= limit
