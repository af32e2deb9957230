"""Normalisation layers: which statistics they use, and which of their parameters adapt."""

import math
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm
from torch.nn.modules.batchnorm import _BatchNorm

from ... import HoldfastError
from ..backbones.structure import NORMS
from ..distributed import batch_size, moments, normalise
from ..functional import full_precision

# Layers that normalise, and then call their own `drop` and `act`.
_FUSED = ("timm.layers.norm_act.BatchNormAct2d", "timm.layers.norm_act.SyncBatchNormAct")


def batch_norms(module: nn.Module) -> Iterator[_BatchNorm]:
    """Every batch normalisation layer below `module`."""
    return (layer for layer in module.modules() if isinstance(layer, _BatchNorm))


def use_batch_statistics(module: nn.Module) -> None:
    """Erase running statistics, so that batch statistics are used in train and in eval mode.

    The next `.eval()` would undo a call of `.train()`, and Lightning calls one before every test.
    """
    for layer in batch_norms(module):
        layer.track_running_stats = False
        layer.running_mean = layer.running_var = layer.num_batches_tracked = None


def needs_batch(module: nn.Module) -> bool:
    """Whether a layer below `module` has only batch statistics to normalise with."""
    return any(layer.running_mean is None for layer in batch_norms(module))


@contextmanager
def training(module: nn.Module, mode: bool = True) -> Iterator[None]:
    """Put the batch normalisation layers of `module` into train mode temporarily; dropout is unchanged."""
    for layer in batch_norms(module):
        layer.training = mode  # not by train(), which timm's layers would pass on to their dropout
    try:
        yield
    finally:
        for layer in batch_norms(module):
            layer.training = False


def norm_affine(module: nn.Module, skipped: Container[str] = ()) -> list[nn.Parameter]:
    """Scale and shift of every normalisation layer below `module` whose name is not `skipped`.

    Raises HoldfastError if there is none.
    """
    layers = [(name, m) for name, m in module.named_modules() if isinstance(m, NORMS)]
    params = [p for name, m in layers if name not in skipped for p in m.parameters(recurse=False)]
    if not params:
        raise HoldfastError(
            "The method adapts the scale and shift of normalisation layers, and this backbone has none. "
            "Choose a backbone with such layers, or Source."
        )
    return params


def require_running_statistics(module: nn.Module) -> None:
    """Raise HoldfastError unless `module` has batch normalisation with running statistics."""
    if not any(batch_norms(module)) or needs_batch(module):
        raise HoldfastError(
            "The method predicts with running statistics, and this backbone has none. Choose a backbone "
            "with BatchNorm layers that track them."
        )


class _InPlaceOf(_BatchNorm):
    """Batch normalisation that a layer turns into; it keeps its dropout and activation (timm)."""

    running_mean: Tensor
    running_var: Tensor

    def forward(self, input: Tensor) -> Tensor:
        output = self.normalised(input)
        for name in ("drop", "act"):
            layer = self._modules.get(name)
            output = output if layer is None else layer(output)
        return output

    def normalised(self, input: Tensor) -> Tensor:
        """The input [B,C,...], normalised, scaled and shifted."""
        return super().forward(input)

    def _check_input_dim(self, input: Tensor) -> None:
        """Accept images and vectors."""


class MovingBatchNorm(_InPlaceOf):
    """Batch normalisation with moving statistics in training, too (RoTTA, Yuan et al. 2023).

    In train mode (mu, sigma^2) <- (1-a) (mu, sigma^2) + a (batch mean, biased batch variance), and the
    batch is normalised with the result; a is `momentum`. In eval mode they stay as they are.
    """

    def normalised(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().normalised(input)
        mean, var = blend(input, self.running_mean, self.running_var, self.momentum or 0.0)
        self.running_mean.copy_(mean.detach())
        self.running_var.copy_(var.detach())
        return normalise(input, mean, var, self.weight, self.bias, self.eps)


class BlendedBatchNorm(_InPlaceOf):
    """Batch normalisation with a mixture of the source's and the batch's statistics.

    The batch has weight `alpha`, or else n / (n + prior) for n images (Schneider et al. 2020). In train
    mode the mixture replaces the source's statistics.
    """

    alpha: float | None = None
    prior: float = 0.0
    stored = False  # mix with what a running average stores: unbiased variance, no gradient

    def normalised(self, input: Tensor) -> Tensor:
        alpha = self.alpha
        if alpha is None:
            alpha = batch_size(input) / (batch_size(input) + self.prior)
        of = _stored_moments if self.stored else moments
        mean, var = blend(input, self.running_mean, self.running_var, alpha, of)
        if self.training:
            self.running_mean.copy_(mean.detach())
            self.running_var.copy_(var.detach())
        if mean.requires_grad:  # the faster function has no gradient for these
            return normalise(input, mean, var, self.weight, self.bias, self.eps)
        return batch_norm(input, mean, var, self.weight, self.bias, eps=self.eps)


class InstanceAwareBatchNorm(_InPlaceOf):
    """Batch normalisation corrected by each image's own statistics (NOTE's IABN, Gong et al. 2022).

    A channel's mean and unbiased variance in one image replace the layer's as far as they differ by more
    than `k` standard errors (Eq. 5 and 6). In train mode the layer's are the batch's, and the moving
    statistics follow those; in eval mode they are the moving ones. Maps of a single value have no
    statistics of their own.
    """

    k: float = 4.0

    def normalised(self, input: Tensor) -> Tensor:
        mean, var = self.running_mean, self.running_var
        x = full_precision(input)
        x = x.flatten(2) if x.dim() > 2 else x[..., None]
        length = x.shape[2]
        if self.training:
            mean, var = moments(input)
            count = batch_size(input) * length
            var = var * count / (count - 1)
            self.running_mean.lerp_(mean.detach().to(self.running_mean), self.momentum or 0.0)
            self.running_var.lerp_(var.detach().to(self.running_var), self.momentum or 0.0)
        mean, var = mean[:, None], var[:, None]
        if length > 1:
            image_var, image_mean = torch.var_mean(x, 2, keepdim=True)
            error = torch.sqrt((var + self.eps) / length)
            of_var = (var + self.eps) * math.sqrt(2 / (length - 1))
            mean = mean + _shrunk(image_mean - mean, self.k * error)
            var = (var + _shrunk(image_var - var, self.k * of_var)).clamp_min(0)
        y = (x - mean) * torch.rsqrt(var + self.eps)
        if self.weight is not None:
            y = y * self.weight[:, None]
        if self.bias is not None:
            y = y + self.bias[:, None]
        return y.view(input.shape).to(input.dtype)


def _shrunk(x: Tensor, by: Tensor) -> Tensor:
    """x, of any shape, moved towards 0 by at most `by` (soft thresholding)."""
    return (x - by).relu() - (-x - by).relu()


@torch.no_grad()
def _stored_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and unbiased variance [C] of the whole batch, as running statistics take them up."""
    mean, var = moments(x)
    count = batch_size(x) * x[0, 0].numel()
    return mean, var * count / max(count - 1, 1)


def blend(
    x: Tensor,
    mean: Tensor,
    var: Tensor,
    alpha: float,
    of: Callable[[Tensor], tuple[Tensor, Tensor]] = moments,
) -> tuple[Tensor, Tensor]:
    """(1-alpha) (mean, var) + alpha (mean and variance of each channel of x [B,C,...], see `of`)."""
    batch_mean, batch_var = of(x)
    return (1 - alpha) * mean + alpha * batch_mean, (1 - alpha) * var + alpha * batch_var


def replace_batch_norms(module: nn.Module, kind: type[_InPlaceOf], **settings: Any) -> None:
    """Turn every batch normalisation layer below `module` into one of the given kind and settings.

    Raises HoldfastError if one of them does more than normalise.
    """
    for name, layer in module.named_modules():
        if isinstance(layer, _BatchNorm):
            if layer.running_mean is None:
                raise HoldfastError(
                    f"The batch normalisation layer {name!r} has no running statistics, from which "
                    f"{kind.__name__} starts. Choose a backbone that has them."
                )
            fused = f"{type(layer).__module__}.{type(layer).__name__}" in _FUSED
            if type(layer).__module__ != _BatchNorm.__module__ and not fused:
                raise HoldfastError(
                    f"Layer {name!r} is a {type(layer).__name__}, which does more than normalise. "
                    "Choose a backbone with plain BatchNorm layers."
                )
            # The same object, since the network may have it under several names.
            layer.__class__ = kind
            for key, value in settings.items():
                setattr(layer, key, value)
