"""IndependentGDE: agreement of models that were trained independently."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor, nn

from .. import HoldfastError
from .estimator import AccuracyEstimator, finite, predicted
from .functional.scores import agreement
from .protocols import Adapting


class IndependentGDE(AccuracyEstimator):
    """Mean share of the batch on which two of several independently trained models agree.

    Generalisation disagreement of Jiang et al. (2022); AETTA's variant (`GDE`) compares one model at two
    steps instead. The models are the run's and `others`, which adapt to the same batches independently;
    resets of the run do not reset them. Needs a single device.

    Args:
        others: methods whose networks were trained with other seeds; from YAML
            `[{class_path: holdfast.methods.Tent, init_args: {backbone: FILE, ...}}, ...]`.

    Raises:
        HoldfastError: if there is no other method, or the Trainer has several devices.
    """

    def __init__(self, others: Sequence[nn.Module]) -> None:
        methods = [other for other in others if isinstance(other, Adapting)]
        if not methods or len(methods) < len(others):
            raise HoldfastError(
                "IndependentGDE needs one or more methods with networks of their own. Pass, for "
                "example, [Tent('second.safetensors')]."
            )
        self.methods = methods
        self.others = [f"{type(m).__name__} of {m.source_hash}" for m in methods]  # for the record

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if trainer.world_size > 1:
            raise HoldfastError(
                "IndependentGDE supports only one device. Leave it out, or pass devices=1."
            )

    def estimate(self, method: Adapting, images: Tensor) -> Tensor:
        logits = []
        for other in self.methods:
            assert isinstance(other, nn.Module)
            logits.append(other.to(images).adapt(images))
        classes = [predicted(method, images), *(finite(own).argmax(1) for own in logits)]
        pairs = [agreement(*pair) for pair in combinations(classes, 2)]
        return torch.stack(pairs).mean()

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "methods": [m.state_dict() for m in self.methods]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        for method, own in zip(self.methods, state_dict["methods"], strict=True):
            method.load_state_dict(own)
