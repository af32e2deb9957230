"""What a method refuses: images, labels, losses, networks and Trainers that it cannot work with."""

from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor, nn

from .. import HoldfastError
from ..batch import Batch
from ..callbacks.provenance import normalisation
from .distributed import SyncStrategy


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
    if not first:
        if images.device.type == "cpu":
            check_highest(images.amax().item())
        return
    lowest, highest = torch.stack(images.nan_to_num(0, 0, 0).aminmax()).tolist()
    check_highest(highest)
    if lowest < -0.1:  # interpolation may leave it slightly below 0
        problem = f"The images have values down to {lowest:.3g}"
        if normalisation(network) is not None:
            raise HoldfastError(
                f"{problem}, and the network normalises its inputs itself. Pass images in [0,1]."
            )
        rank_zero_warn(
            f"{problem}, but methods expect [0,1]. Let the network subtract the mean and divide by the "
            "standard deviation: normalised(net, mean, std)."
        )


def check_highest(highest: float) -> None:
    """Raise HoldfastError if this largest value of a batch is that of bytes."""
    if 10 < highest < float("inf"):
        raise HoldfastError(
            f"The images have values up to {highest:.3g}. Pass images in [0,1]: divide bytes by 255."
        )


def check_logits(logits: Tensor) -> None:
    """Raise HoldfastError if a network's outputs [B,C] are probabilities."""
    if logits.shape[1] > 1 and (logits >= 0).all() and ((logits.sum(1) - 1).abs() < 1e-3).all():
        raise HoldfastError(
            "The backbone returns probabilities: its outputs are positive and add up to 1. Pass it without "
            "its last Softmax, so that it returns logits."
        )


def check_labels(labels: Tensor, classes: int, of_source: int | None) -> None:
    """Compare the labels [B] of the first batch, and the classes of its source, with those of the logits.

    Raises HoldfastError if a label has no logit. The number after the last logit is accepted as "none
    of these classes", unless the source has a class of that number.
    """
    none_of_them = int((of_source or 0) <= classes)
    if labels.max() >= classes + none_of_them:
        raise HoldfastError(
            f"The labels go up to {int(labels.max())}, but the backbone has only {classes} logits, "
            "so such labels are never predicted. Use a backbone with a logit for each class, or "
            "other labels."
        )
    if of_source and of_source != classes:
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


def check_precision(backbone: nn.Module) -> None:
    """Raise HoldfastError if the weights' dtype is too coarse for small steps."""
    if {torch.float16, torch.bfloat16} & {parameter.dtype for parameter in backbone.parameters()}:
        raise HoldfastError(
            "The backbone has weights of half precision, which is too coarse for small updates. Pass "
            "backbone.float(), and use autocast for speed (precision='bf16-mixed' of the Trainer)."
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
