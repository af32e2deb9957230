"""Penultimate features of any network: the input of its classifier."""

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from . import HoldfastError
from .networks import check_shape


def features(network: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """Features [B,D] that the last layer turns into logits, and these logits [B,C], of images [B,3,H,W].

    The classifier is the last linear layer or 1 x 1 convolution that is run and gives C values;
    feature maps [B,D,H,W] before a convolution are averaged over their positions.

    Raises HoldfastError if the network has no such layer, or returns no logits [B,C].
    """
    # The input of each candidate, and the number of its outputs.
    inputs: list[tuple[Tensor, int]] = []

    def listen(layer: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        inputs.append((args[0], output.shape[1] if output.ndim > 1 else 0))

    with ExitStack() as hooks, torch.compiler.set_stance("force_eager"):  # which calls hooks
        for layer in _classifiers(network):
            hooks.enter_context(layer.register_forward_hook(listen))
        logits = network(images)
    check_shape(logits, len(images))
    candidates = [x for x, width in inputs if width == logits.shape[1] and x.ndim in (2, 4)]
    if not candidates:
        raise HoldfastError(
            f"{type(network).__name__} has no linear layer that outputs its {logits.shape[1]} logits, "
            "so features cannot be extracted. Remove callbacks that need features."
        )
    x = candidates[-1]
    return (x if x.ndim == 2 else x.mean((2, 3))), logits


def classifier(network: nn.Module) -> Any:
    """The last layer that may be the network's classifier.

    Raises HoldfastError if there is none.
    """
    if layers := _classifiers(network):
        return layers[-1]
    raise HoldfastError(
        f"{type(network).__name__} has no linear layer, so it has no features. "
        "Choose a backbone with a linear classifier."
    )


def _classifiers(network: nn.Module) -> list[nn.Module]:
    """The layers that may be a network's last one."""
    layers = [layer for layer in network.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    return [layer for layer in layers if getattr(layer, "kernel_size", (1, 1)) == (1, 1)]
