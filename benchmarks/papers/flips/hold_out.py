"""HoldOut: accuracy on images that the stream does not contain, while a model adapts."""

from collections.abc import Mapping
from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor

from .... import HoldfastError, in_range
from ....callbacks.functional.scores import scored
from ....callbacks.observer import PeriodicObserver
from ....callbacks.protocols import Adapting, Streaming
from ....tensors import compact, expanded


class HoldOut(PeriodicObserver):
    """Accuracy on held-out images of another stream, while a model adapts (thesis, §3.2).

    The model predicts them in batches, without adapting to them. Column of the record: `accuracy`.

    Args:
        stream: the held-out images, from its `start` on, such as what the run does not reach of its own.
        images: number of held-out images.
        every: steps from one measurement to the next.

    Raises HoldfastError if `stream` is not a stream, or is too short.
    """

    def __init__(self, stream: LightningDataModule, images: int = 1000, every: int = 10) -> None:
        super().__init__(every)
        in_range(1, images=images)
        if not isinstance(stream, Streaming):
            raise HoldfastError(f"{type(stream).__name__} is not a stream. Pass HoldOut a stream.")
        end = stream.start + images
        if stream.images is not None and end > stream.images:
            raise HoldfastError(
                f"The held-out stream has {stream.images} images, not {end}. Use fewer, or start earlier."
            )
        self.stream, self.images = stream, images

    def on_test_start(self, *_: Any) -> None:
        first = self.stream.start
        index = torch.arange(first, first + self.images).split(64)
        batches = [self.stream.batch(positions) for positions in index]
        self._held = [(compact(batch.images.cpu()), batch.labels) for batch in batches]

    def observe(self, method: Adapting, images: Tensor) -> Mapping[str, float]:
        right = known = 0.0
        for held, labels in self._held:
            scores = scored(method.predict(expanded(held).to(images.device)).cpu(), labels)
            right += float(scores["correct"].sum())
            known += float((scores["labels"] >= 0).sum())
        return {"accuracy": right / known} if known else {}
