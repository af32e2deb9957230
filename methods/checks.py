"""What a method refuses: images, labels, losses, networks and Trainers that it cannot work with."""

import math
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import is_lazy

from .. import HoldfastError
from ..batch import Batch
from ..callbacks.provenance import normalisation
from ..networks import named_tensors
from .distributed import SyncStrategy

# The lowest value of images in [0,1]: interpolation may leave it slightly below 0.
_LOWEST = -0.1


def check_batch(batch: Any) -> None:
    """Raise HoldfastError unless it is a `Batch`; a data module's hook may have returned another type."""
    if not isinstance(batch, Batch):
        raise HoldfastError(
            f"The data module's on_after_batch_transfer returned a {type(batch).__name__}. End it with "
            "`return holdfast.batch.as_batch((images, labels), first=0, segment=0)`."
        )


def check_images(images: Any, network: nn.Module, dtype: torch.dtype | None, first: bool) -> None:
    """Check that images are a batch [B,3,H,W] of the network's dtype with values in [0,1].

    The values of later batches on an accelerator are left to `check_highest`.

    Raises HoldfastError with what to pass instead.
    """
    if not isinstance(images, Tensor):
        raise HoldfastError(
            f"images must be a torch.Tensor [B,3,H,W], not a {type(images).__module__}."
            f"{type(images).__name__}. Pass torch.as_tensor(images), or torch.stack(images) of a list."
        )
    if images.ndim != 4 or images.shape[1] != 3 or not len(images):
        raise HoldfastError(
            f"images must be [B,3,H,W] with B of at least 1, not {list(images.shape)}. Put the channels "
            "first, repeat a single channel three times, and pass one image as a batch of 1."
        )
    if images.dtype != (dtype or images.dtype):
        scale = "" if images.is_floating_point() else " / 255"
        raise HoldfastError(
            f"The images are {images.dtype} and the model is {dtype}. Pass images.to({dtype}){scale}."
        )
    if first or images.device.type == "cpu":
        lowest, highest = torch.stack(images.nan_to_num(0, 0, 0).aminmax()).tolist()
        check_range(lowest, highest, network)
        if first and lowest < _LOWEST:
            rank_zero_warn(
                f"The images have values down to {lowest:.3g}, but methods expect [0,1]. Let the network "
                "subtract the mean and divide by the standard deviation: normalised(net, mean, std)."
            )


def check_range(lowest: float, highest: float, network: nn.Module) -> None:
    """Raise HoldfastError if the smallest and largest value of a batch are not those of images in [0,1].

    Infinite values and NaN pass: those images are left out of the step.
    """
    if 10 < highest < math.inf:
        raise HoldfastError(
            f"The images have values up to {highest:.3g}. Pass images in [0,1]: divide bytes by 255."
        )
    if -math.inf < lowest < _LOWEST and normalisation(network) is not None:
        raise HoldfastError(
            f"The images have values down to {lowest:.3g}, and the network normalises its inputs itself. "
            "Pass images in [0,1]."
        )


def check_size(images: Tensor, content: Any, name: str) -> None:
    """Raise HoldfastError if images [B,3,H,W] have another size than those [N,3,H,W] in `content`."""
    stored = content.get("images") if isinstance(content, dict) else None
    if isinstance(stored, Tensor) and stored.shape[1:] != images.shape[1:]:
        raise HoldfastError(
            f"{name} stores images of {list(stored.shape[2:])} pixels, and this batch has images of "
            f"{list(images.shape[2:])}. Resize all images to one size."
        )


def unlike_probabilities(logits: Tensor) -> Tensor:
    """How far outputs [B,C] are from being positive and adding up to 1, a scalar."""
    return torch.maximum(-logits.amin(), (logits.sum(1) - 1).abs().amax())


def check_logits(distance: float) -> None:
    """Raise HoldfastError if a network's outputs are as near to probabilities as rounding allows."""
    if distance < 1e-3:
        raise HoldfastError(
            "The backbone returns probabilities: its outputs are positive and add up to 1. Pass it without "
            "its last Softmax, so that it returns logits."
        )


def check_gradient(logits: Tensor, backbone: nn.Module) -> None:
    """Raise HoldfastError if no parameter of the backbone that adapts has an effect on its logits [B,C]."""
    if not logits.requires_grad and any(p.requires_grad for p in backbone.parameters()):
        raise HoldfastError(
            "The backbone's logits have no gradient with respect to the parameters that adapt. Let its "
            "forward pass use these without torch.no_grad(), detach() or torch.inference_mode()."
        )


Buffers = list[tuple[str, dict[str, Tensor | None]]]


def fixed_buffers(network: nn.Module) -> Buffers:
    """The buffers that no prediction may change: name and owner of each outside normalisation layers."""
    layers = [layer for layer in network.modules() if not isinstance(layer, _NormBase)]
    return [(name, layer._buffers) for layer in layers for name in layer._buffers]


def buffer_versions(buffers: Buffers) -> list[tuple[Tensor | None, int]]:
    """Each of the buffers, of any shape, and how often it was written to."""
    values = [owner[name] for name, owner in buffers]
    return [(tensor, 0 if tensor is None else tensor._version) for tensor in values]


def check_buffers(buffers: Buffers, before: list[tuple[Tensor | None, int]]) -> None:
    """Raise HoldfastError if a forward pass has changed a buffer, of any shape, since these versions.

    A network may store what depends on the size of the images alone, of another shape for each.
    """
    for (name, owner), (tensor, version) in zip(buffers, before, strict=True):
        now = owner[name]
        if now is tensor and (now is None or now._version == version):
            continue
        if now is None or tensor is None or now.shape != tensor.shape:
            continue
        raise HoldfastError(
            f"The backbone's forward pass changes its buffer {name!r} in eval mode, so predictions would "
            "depend on earlier ones. Let it change buffers only if self.training."
        )


def check_labels(highest: int, classes: int, of_source: int | None, first: bool) -> None:
    """Compare a batch's highest label, and the classes of its source, with the number of logits.

    Raises HoldfastError if a label has no logit. The number after the last logit is accepted as "none
    of these classes", unless the source has a class of that number.
    """
    none_of_them = int((of_source or 0) <= classes)
    if highest >= classes + none_of_them:
        raise HoldfastError(
            f"The labels go up to {highest}, but the backbone has only {classes} logits, "
            "so such labels are never predicted. Use a backbone with a logit for each class, or "
            "other labels."
        )
    if first and of_source and of_source != classes:
        rank_zero_warn(
            f"The images have {of_source} classes and the backbone has {classes} logits. "
            "Accuracies are right only if both number the classes in the same way."
        )


def check_loss(loss: Any, name: str) -> None:
    """Raise HoldfastError unless the loss is a scalar tensor with a gradient."""
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
        kind = type(loss).__name__
        if isinstance(loss, Tensor):
            kind = (
                f"a tensor {list(loss.shape)} with{'' if loss.requires_grad else 'out'} a gradient"
            )
        raise HoldfastError(
            f"{name}.loss returned {kind}. Return a scalar tensor, such as a mean, that is computed "
            "from the logits without detach() or torch.no_grad()."
        )


def check_weights(backbone: nn.Module) -> None:
    """Raise HoldfastError if there are no weights yet, or none that small steps can change."""
    for name, tensor in named_tensors(backbone):
        if is_lazy(tensor) or tensor.is_meta:
            raise HoldfastError(
                f"The backbone's {name} has no values yet. Load its weights, and call a network with lazy "
                "layers once on a batch of images, before you pass it."
            )
        if tensor.isnan().any():
            raise HoldfastError(f"The backbone's {name} contains NaN. Load other weights.")
    if {torch.float16, torch.bfloat16} & {parameter.dtype for parameter in backbone.parameters()}:
        raise HoldfastError(
            "The backbone has weights of half precision, which is too coarse for small updates. Pass "
            "backbone.float(), and use autocast for speed (precision='bf16-mixed' of the Trainer)."
        )
    quantized = [m for m in backbone.modules() if "quantized" in type(m).__module__]
    if quantized:
        raise HoldfastError(
            f"The backbone has quantised layers, such as {type(quantized[0]).__name__}, which cannot be "
            "adapted. Pass the network from before its quantisation."
        )


def check_trainer(trainer: Trainer) -> None:
    """Raise HoldfastError if the Trainer's precision or strategy does not suit an online run."""
    if trainer.precision not in ("32-true", "64-true", "bf16-mixed"):
        raise HoldfastError(
            f"Precision {trainer.precision} rounds the updates to zero. Use 32-true or bf16-mixed."
        )
    if trainer.world_size > 1 and not isinstance(trainer.strategy, SyncStrategy):
        raise HoldfastError(
            f"strategy={type(trainer.strategy).__name__} does not divide batches over devices. Pass "
            "strategy='sync', or devices=1 for one device."
        )
