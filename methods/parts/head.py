"""The classifier as a matrix, for methods that change features or compare with its rows."""

import torch
from torch import Tensor, nn

from ...features import classifier
from ..functional import full_precision


def head(network: nn.Module) -> tuple[Tensor, Tensor]:
    """Weight [C,D] and bias [C] of a network's classifier, in float32 at least.

    Raises HoldfastError if the network has no layer that may be its classifier.
    """
    layer = classifier(network)
    weight = full_precision(layer.weight.flatten(1))
    bias = weight.new_zeros(len(weight)) if layer.bias is None else full_precision(layer.bias)
    return weight, bias


def classified(network: nn.Module, features: Tensor) -> Tensor:
    """Logits [B,C] of features [B,D], in float32 at least."""
    weight, bias = head(network)
    return full_precision(torch.nn.functional.linear(features, weight, bias))
