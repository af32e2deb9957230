"""Sharpness-aware minimisation."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.optim import Optimizer


def sam_step(
    optimizer: Optimizer, loss: Tensor, loss_again: Callable[[], Tensor], rho: float
) -> Tensor:
    """Step with the gradient at theta + rho g / |g|, approximately the worst weights; returns the scalar
    loss there.

    (Foret et al. 2021.) `loss` is that of the current weights, g its gradient;
    `loss_again` computes the loss again.
    """
    optimizer.zero_grad()
    loss.backward()
    params = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    here = [p.detach().clone() for p in params]
    with torch.no_grad():
        norm = torch.norm(torch.stack([p.grad.norm() for p in params]))
        for p in params:
            p.add_(p.grad * (rho / (norm + 1e-12)))
    torch.clear_autocast_cache()
    optimizer.zero_grad()
    worst = loss_again()
    worst.backward()
    with torch.no_grad():
        torch._foreach_copy_(params, here)
    optimizer.step()
    torch.clear_autocast_cache()
    return worst.detach()
