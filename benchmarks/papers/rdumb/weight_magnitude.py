"""WeightMagnitude: how large the adapted weights are, and how far from the source model's."""

from collections.abc import Mapping

import torch
from torch import Tensor

from ....callbacks.observer import PeriodicObserver
from ....callbacks.protocols import Adapting


class WeightMagnitude(PeriodicObserver):
    """Euclidean norm of all adapted weights, and their distance from the source model's.

    CCC's explanation of collapse (Press et al. 2023, figs. 2.6c and A.2 of the thesis): the weights grow
    without bound. Columns: `norm`, `moved`, and `norm NAME` for each parameter with `layers`.

    Args:
        every: steps from one measurement to the next.
        layers: one column for each adapted parameter, too.
    """

    def __init__(self, every: int = 100, layers: bool = False) -> None:
        super().__init__(every)
        self.layers = layers

    def observe(self, method: Adapting, images: Tensor) -> Mapping[str, float]:
        pairs = [*method.parameters_with_source()]
        if not pairs:
            return {}
        now = [parameter.detach() for parameter, _ in pairs]
        norms = torch.stack(torch._foreach_norm(now))
        moved = torch.stack(torch._foreach_norm(torch._foreach_sub(now, [s for _, s in pairs])))
        magnitudes = {"norm": float(norms.norm()), "moved": float(moved.norm())}
        if self.layers:
            names = {id(p): name for name, p in method.backbone.named_parameters()}
            for (parameter, _), norm in zip(pairs, norms.tolist(), strict=True):
                magnitudes[f"norm {names[id(parameter)]}"] = norm
        return magnitudes
