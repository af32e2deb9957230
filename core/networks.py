"""Networks: copies of them, the places in them that have a tensor, and the shape of their logits."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn

from . import HoldfastError


def copied(network: nn.Module) -> nn.Module:
    """A deep copy of a network; layers and tensors that it has under several names stay shared in it.

    Results of a computation in it, such as a feature map that `forward` stores or the weight that
    `weight_norm` sets, are copied as values.

    Raises HoldfastError if it contains what cannot be copied.
    """
    memo: dict[int, Any] = {}

    def remember(tensor: Tensor) -> Tensor:
        if not tensor.is_leaf:  # which deepcopy refuses
            memo[id(tensor)] = tensor.detach().clone()
        return tensor

    for module in network.modules():
        apply_to_collection(dict(vars(module)), Tensor, remember, allow_frozen=True)
    try:
        return deepcopy(network, memo)
    except Exception as error:  # whatever objects in it raise, such as locks and open files
        raise HoldfastError(
            f"{type(network).__name__} cannot be copied: copy.deepcopy raises {type(error).__name__} "
            f"({error}). Remove what cannot be copied from its attributes."
        ) from error


def named_tensors(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every place in a network that has a parameter or buffer, of any shape, by one of its names.

    A layer under two names is one place; a tensor that two layers share is in two.
    """
    for name, module in network.named_modules():
        for key, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None:
                yield f"{name}.{key}" if name else key, tensor


def check_shape(logits: Tensor, images: int) -> None:
    """Raise HoldfastError unless a network's outputs for so many images are logits [B,C], C at least 2."""
    if logits.shape[:1] == (images,) and logits[0].numel() == 1:
        raise HoldfastError(
            f"The backbone returns one value per image, {list(logits.shape)}, but methods need a logit for "
            "each class. For a binary head, return torch.stack([torch.zeros_like(z), z], 1) for z [B]."
        )
    if logits.ndim != 2 or len(logits) != images:
        raise HoldfastError(
            f"The backbone returns {list(logits.shape)} for {images} images. Return logits [B,C], one row "
            "for each image: pool what it returns for pixels, crops or tokens."
        )
