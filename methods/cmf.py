"""CMF: continual momentum filtering."""

from typing import Any

import torch
from torch import nn
from torch.optim import SGD

from .. import in_range
from .optimizers import OptimizerCallable
from .roid import ROID


class CMF(ROID):
    """ROID whose weights follow a Kalman filter's hidden model, not the fixed source (Lee et al. 2024).

    At each step the hidden model moves towards the source (predict) and then towards the adapted weights,
    by a gain that depends on the filter's variance (update). A reset also clears that variance,
    unlike in the official code.

    Args:
        alpha: weight of the hidden model when it moves towards the source.
        gamma: weight of the adapted weights when they move towards the hidden model.
        noise: process noise for 38,400 adapted parameters; it grows with their number.
        **kwargs: see `ROID`; `source_rate` has no effect.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: SGD(
            params, lr=2.5e-4, momentum=0.9, nesterov=True
        ),
        alpha: float = 0.99,
        gamma: float = 0.99,
        noise: float = 0.005,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        in_range(0, 1, alpha=alpha, gamma=gamma)
        self.alpha, self.gamma, self.noise = alpha, gamma, noise

    def fresh_state(self) -> dict[str, Any]:
        hidden = [source.clone() for _, source in self.parameters_with_source()]
        return {**super().fresh_state(), "hidden": hidden, "variance": 0.0}

    @torch.no_grad()
    def ensemble(self) -> None:
        state, pairs = self.state, list(self.anchored())
        process = self.noise * sum(p.numel() for p, _ in pairs) / 38_400
        variance = self.alpha**2 * state["variance"] + process
        keep = max((1 - process) / (variance + 1 - process), 0.89)  # bounds as in the official code
        keep = 1.0 if keep >= 0.9999 else keep
        state["variance"] = keep * variance
        for (current, source), hidden in zip(pairs, state["hidden"], strict=True):
            hidden.mul_(self.alpha).add_(source, alpha=1 - self.alpha)
            hidden.mul_(keep).add_(current, alpha=1 - keep)
            current.mul_(self.gamma).add_(hidden, alpha=1 - self.gamma)
        torch.clear_autocast_cache()
