"""AdvPerturb: agreement with the source model under a small adversarial attack."""

from copy import deepcopy

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor, nn

from .. import HoldfastError
from .estimator import AccuracyEstimator, finite, predicted
from .functional.scores import agreement, logit_shrinking_step
from .protocols import Adapting, method_of


class AdvPerturb(AccuracyEstimator):
    """Share of the batch on which the model agrees with the source model on attacked images.

    The attack is one step, of L2 length `epsilon` per image, that shrinks the source's logits (Lee et
    al. 2024, baseline, as in the official code; Lee et al. 2023). The source model predicts as the
    method does: under CoTTA, by the mean over views of an image.

    Args:
        source: the model before adaptation, with its running statistics; from YAML
            `{class_path: holdfast.methods.load_backbone, init_args: {name: NAME}}`. None: the
            backbone at the start of the run, which for most methods normalises by the statistics of
            the batch.
        epsilon: length of the step, in the units of images in [0,1].
    """

    def __init__(self, source: nn.Module | None = None, epsilon: float = 1 / 255) -> None:
        if source is not None and not isinstance(source, nn.Module):
            raise HoldfastError(
                f"AdvPerturb(source={source!r}): pass the network itself, "
                f"load_backbone({source!r}); in YAML, {{class_path: "
                "holdfast.methods.load_backbone, init_args: {name: ...}}."
            )
        self.epsilon = epsilon
        self.source = None if source is None else frozen(source)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if self.source is None:
            self.source = frozen(method_of(pl_module).backbone)

    def estimate(self, method: Adapting, images: Tensor) -> Tensor:
        if self.source is None:  # outside a Trainer, on the first batch
            self.source = frozen(method.backbone)
        self.source.to(images)
        source = method.predict_by(self.source, self.attacked(images, self.source))
        return agreement(predicted(method, images), finite(source).argmax(1))

    @torch.enable_grad()
    def attacked(self, images: Tensor, source: nn.Module) -> Tensor:
        """Images after the step, in [0,1].

        The official loss is a "KL divergence" of raw logits z from themselves; its gradient is that of
        -|z|^2 / 2B. (Between softmaxes it would be zero.)
        """
        images = images.detach().clone().requires_grad_()
        objective = -source(images).float().square().sum() / (2 * len(images))
        (gradient,) = torch.autograd.grad(objective, images)
        return (images.detach() + logit_shrinking_step(gradient, self.epsilon)).clamp(0, 1)


def frozen(network: nn.Module) -> nn.Module:
    """A copy in eval mode whose weights need no gradients."""
    return deepcopy(network).requires_grad_(False).eval()
