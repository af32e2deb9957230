"""Estimators from the agreement of two models: with an earlier self, the source, or independent models."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor, nn

from .. import HoldfastError
from ..batch import LabelledImages
from ..networks import copied
from .estimator import AccuracyEstimator, at_most, drawn_indices, finite, predicted, source_images
from .functional.scores import agreement, logit_shrinking_step
from .protocols import Adapting, adapts, method_of


class GDE(AccuracyEstimator):
    """Share of the batch on which the model agrees with itself before its last step.

    AETTA's variant (Lee et al. 2024, baseline) of generalisation disagreement (Jiang et al. 2022),
    which compares two models trained independently (`IndependentGDE`). The first estimate is 1.
    """

    STATE = ("previous",)

    def __init__(self) -> None:
        self.previous: list[Tensor] | None = None

    def estimate(self, method: Adapting, images: Tensor) -> Tensor | float:
        tensors = weights(method.predictor)
        answer: Tensor | float = 1.0
        if self.previous is not None:
            now = predicted(method, images)
            with exchanged(tensors, self.previous):
                answer = agreement(now, predicted(method, images))
        self.previous = [tensor.detach().clone() for tensor in tensors]
        return answer


def weights(network: nn.Module) -> list[Tensor]:
    """All tensors, of any shape, on which predictions depend, always in the same order."""
    return [*network.parameters(), *network.buffers()]


@contextmanager
def exchanged(tensors: list[Tensor], values: list[Tensor]) -> Iterator[None]:
    """Temporarily exchange the data of tensors of any shape for others of these shapes, without copies."""
    before = [tensor.data for tensor in tensors]
    try:
        for tensor, value in zip(tensors, values, strict=True):
            tensor.data = value.to(tensor.device)
        torch.clear_autocast_cache()
        yield
    finally:
        for tensor, value in zip(tensors, before, strict=True):
            tensor.data = value
        torch.clear_autocast_cache()


class IndependentGDE(AccuracyEstimator):
    """Mean share of the batch on which two of several independently trained models agree.

    Generalisation disagreement of Jiang et al. (2022); AETTA's variant (`GDE`) compares one model at two
    steps instead. The models are the run's and `others`, which adapt to the same batches independently;
    resets of the run do not reset them. Needs a single device.

    Args:
        others: methods whose networks were trained with other seeds; from YAML
            `[{class_path: holdfast.methods.Tent, init_args: {backbone: FILE, ...}}, ...]`.

    Raises HoldfastError if there is no other method, or the Trainer has several devices.
    """

    def __init__(self, others: Sequence[nn.Module]) -> None:
        if not others or not all(map(adapts, others)):
            raise HoldfastError(
                "IndependentGDE needs one or more methods with networks of their own. Pass, for "
                "example, [Tent('second.safetensors')]."
            )
        self.methods: Sequence[Any] = others
        # For the record.
        self.others = [f"{type(m).__name__} of {m.source_hash}" for m in self.methods]

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if trainer.world_size > 1:
            raise HoldfastError(
                "IndependentGDE supports only one device. Leave it out, or pass devices=1."
            )

    def estimate(self, method: Adapting, images: Tensor) -> Tensor:
        classes = [finite(other.to(images).adapt(images)).argmax(1) for other in self.methods]
        pairs = combinations([predicted(method, images), *classes], 2)
        return torch.stack([agreement(*pair) for pair in pairs]).mean()

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "methods": [m.state_dict() for m in self.methods]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        for method, state in zip(self.methods, state_dict["methods"], strict=True):
            method.load_state_dict(state)


class SourceAgreement(AccuracyEstimator):
    """Share of the batch on which the model agrees with its source; costs one forward pass.

    It is 1 before the first step. It is low after a collapse, but also where adaptation improves a poor
    source, so its changes are more informative than its value.
    """

    def estimate(self, method: Adapting, images: Tensor) -> Tensor:
        return agreement(method.source_logits(images).argmax(1), predicted(method, images))


class AdvPerturb(AccuracyEstimator):
    """Share of the batch on which the model agrees with the source model on attacked images.

    The attack is one step, of L2 length `epsilon` per image, that shrinks the source's logits (Lee et
    al. 2024, baseline, as in the official code; Lee et al. 2023). The source model predicts as the
    method does: under CoTTA, by the mean over views of an image.

    Args:
        source: the model before adaptation, with its running statistics; from YAML
            `{class_path: holdfast.methods.load_backbone, init_args: {name: NAME}}`. None: the
            backbone at the start of the run, which mostly normalises by the statistics of the batch.
        epsilon: length of the step, in the units of images in [0,1].
    """

    def __init__(self, source: nn.Module | None = None, epsilon: float = 1 / 255) -> None:
        self.epsilon = epsilon
        self.source = None if source is None else _frozen(source)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.remember(method_of(pl_module))

    def remember(self, method: Adapting) -> nn.Module:
        """The source model; if none was given, the method's backbone at the first call."""
        if self.source is None:
            self.source = _frozen(method.backbone)
        return self.source

    def estimate(self, method: Adapting, images: Tensor) -> Tensor:
        source = self.remember(method).to(images)
        logits = method.predict(self.attacked(images, source), source)
        return agreement(predicted(method, images), finite(logits).argmax(1))

    @torch.enable_grad()
    def attacked(self, images: Tensor, source: nn.Module) -> Tensor:
        """Images [B,3,H,W] after the step, in [0,1].

        The official loss is a "KL divergence" of raw logits z from themselves; its gradient is that of
        -|z|^2 / 2B. (Between softmaxes it would be zero.)
        """
        images = images.detach().clone().requires_grad_()
        # A copy, in case the network writes into its input.
        objective = -source(images.clone()).float().square().sum() / (2 * len(images))
        (gradient,) = torch.autograd.grad(objective, images)
        return (images.detach() + logit_shrinking_step(gradient, self.epsilon)).clamp(0, 1)


def _frozen(network: nn.Module) -> nn.Module:
    """A copy in eval mode whose weights need no gradients."""
    return copied(network).requires_grad_(False).eval()


class SrcValid(AccuracyEstimator):
    """The accuracy of the current model on labelled source images (Lee et al. 2024, baseline).

    The images form one batch, so batch statistics are computed from them alone.

    Args:
        source: labelled images that the model was not trained on.
        images: their number; a fixed random sample.
    """

    def __init__(self, source: LabelledImages, images: int = 1000) -> None:
        self.source, self.images = source, at_most(images, source)
        self._held: tuple[Tensor, Tensor] | None = None

    def estimate(self, method: Adapting, images: Tensor) -> Tensor:
        if self._held is None:
            self.source.adopt(getattr(method, "backbone", None))
            index = drawn_indices(self.source, self.images)
            self._held = source_images(self.source, index, images.device, images.dtype)
        return agreement(predicted(method, self._held[0]), self._held[1])
