"""LimitedFlips: weighted flips where only a few images are available (the thesis' Table B.2)."""

from copy import deepcopy
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor

from .... import HoldfastError, in_range
from ....callbacks.protocols import Adapting
from ....callbacks.weighted_flips import WeightedFlips
from ....tensors import expanded


class LimitedFlips(WeightedFlips):
    """WeightedFlips of a copy of the model, which adapts repeatedly to the first `data` images.

    Once these images are there, a copy of the method starts from the source model and takes `stop` steps
    on batches of them, each image once per epoch. The run itself is not affected. Needs a single device.

    Args:
        data: number of images to adapt to.
        **kwargs: see `WeightedFlips`; `also` has no effect.

    Raises HoldfastError if the Trainer has several devices.
    """

    name = "WeightedFlips"

    def __init__(self, data: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        in_range(1, data=data)
        self.data = data
        self.needed = max(self.held, data)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if trainer.world_size > 1:
            raise HoldfastError("LimitedFlips supports only one device. Pass devices=1.")

    def estimate(self, method: Adapting, images: Tensor) -> float | None:
        before = self.source_probs
        super().estimate(method, images)
        if self.source_probs is None or self.source_probs is before:
            return None
        data = torch.cat(self.stored)[: self.data]
        return self.measure(replayed(method, data, self.stop, images), images.device)

    def measure_at_stop(self, method: Adapting, device: torch.device) -> float | None:
        """None: the run's own steps are not measured."""
        return None

    def missing(self) -> str:
        return f"the stream has fewer than {self.needed} images"


def replayed(method: Adapting, data: Tensor, steps: int, like: Tensor) -> Adapting:
    """A copy of a method after steps from the source model on stored images [N,3,H,W], in random order.

    like: a batch [B,3,H,W], whose size, device and type the batches have.
    """
    # A copy of the Trainer would be useless and large.
    trainer = getattr(method, "_trainer", None)
    copy = deepcopy(method, {id(trainer): trainer})
    if copy.steps_since_reset > 0:
        copy.reset()
    copy.step_count = 0
    random = torch.Generator().manual_seed(0)
    size = min(len(like), len(data))
    for step in range(steps):
        position = step % (len(data) // size)
        if position == 0:
            order = torch.randperm(len(data), generator=random)
        batch = data[order[position * size : position * size + size]]
        copy.adapt(expanded(batch).to(like))
    return copy
