"""LCoTTA: lifelong adaptation in a tracked subspace of gradients."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD

from .. import in_range
from .eta import ETA
from .optimizers import OptimizerCallable


class LCoTTA(ETA):
    """ETA whose gradients are projected on the principal directions of earlier ones (Duan et al. 2025).

    Gradients of samples that are certain and wrong scatter, those of right ones are correlated, so the
    principal subspace has mostly the latter. Every `every` steps the unprojected gradient is stored, among
    the last `stored` ones; as soon as there are as many as `directions`, each step uses V V^T g, with V the
    principal directions of the stored gradients around their mean. If no sample is selected, g is 0 and
    the weights follow the momentum. There is no reset.

    Args:
        directions: number of principal directions; 25 for a ResNet-50, 50 for a ViT.
        stored: number of gradients that they come from.
        every: steps from one stored gradient to the next; 50 for a ResNet-50, 100 for a ViT.
        **kwargs: see `ETA`.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: SGD(
            params, lr=1.5e-4, momentum=0.9, nesterov=True
        ),
        directions: int = 25,
        stored: int = 100,
        every: int = 50,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        in_range(1, directions=directions, every=every)
        in_range(directions, stored=stored)
        self.directions, self.stored, self.every = directions, stored, every

    def fresh_state(self) -> dict[str, Any]:
        return {**super().fresh_state(), "gradients": [], "subspace": None}

    def loss(self, logits: Tensor, images: Tensor) -> Tensor:
        loss = super().loss(logits, images)
        return 0 * logits.sum() if loss is None else loss

    def descend(self, loss: Tensor) -> None:
        """One optimizer step with the projection of the gradient of `loss`, a scalar."""
        parameters = [parameter for parameter, _ in self.parameters_with_source()]
        gradient = _flat(torch.autograd.grad(loss, parameters, materialize_grads=True))
        step = self.steps_since_reset
        if step and step % self.every == 0 and not self.repetition:
            self.store(gradient)
        if self.state["subspace"] is not None:
            gradient = projected(gradient, self.state["subspace"])
        self.trace["stored"] = len(self.state["gradients"])
        # A linear function, whose gradient this is.
        super().descend((_flat(parameters) * gradient).sum())
        self.trace["loss"] = loss.detach()

    def store(self, gradient: Tensor) -> None:
        """Store a gradient [P], and take the directions of all that are stored."""
        gradients = [*self.state["gradients"], gradient][-self.stored :]
        subspace = None
        if len(gradients) >= self.directions:
            subspace = principal_directions(torch.stack(gradients), self.directions)
        self.state = {**self.state, "gradients": gradients, "subspace": subspace}


def principal_directions(points: Tensor, count: int) -> Tensor:
    """Unit vectors [count,P] along which points [N,P] vary most around their mean.

    Those along which they do not vary are 0; the official code has arbitrary ones in their place.
    """
    # A gradient that is not finite makes the step undone, and would stop the decomposition.
    points = points.nan_to_num(0, 0, 0)
    _, lengths, directions = torch.linalg.svd(points - points.mean(0), full_matrices=False)
    varies = lengths > 1e-6 * lengths[0]
    return (directions * varies[:, None])[:count]


def projected(vector: Tensor, directions: Tensor) -> Tensor:
    """The projection of a vector [P] on the span of orthonormal directions [R,P]."""
    with torch.autocast(vector.device.type, enabled=False):
        return (directions @ vector) @ directions


def _flat(tensors: Any) -> Tensor:
    """All tensors, of any shape, as one vector [P]."""
    return torch.cat([tensor.flatten() for tensor in tensors])
