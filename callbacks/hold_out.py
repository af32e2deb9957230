"""HoldOut: accuracy on images that a model does not adapt to."""

from collections.abc import Mapping

import torch
from lightning.pytorch import LightningDataModule, LightningModule, Trainer

from .. import HoldfastError, in_range
from .functional.scores import scored
from .observer import PeriodicObserver
from .protocols import Adapting, Streaming
from .weighted_flips import compact, images_of


class HoldOut(PeriodicObserver):
    """Accuracy on held-out images of another stream, while a model adapts (thesis, §3.2).

    The model predicts them in batches, without adapting to them. Column of the record: `accuracy`.

    Args:
        stream: provides the held-out images, from its `start` on, such as the part of the run's stream that
            the run does not reach.
        images: number of held-out images.
        every: steps from one measurement to the next.
        at_once: images in a batch of predictions.

    Raises:
        HoldfastError: if `stream` is not a stream, or is too short.
    """

    def __init__(
        self, stream: LightningDataModule, images: int = 1000, every: int = 10, at_once: int = 64
    ) -> None:
        super().__init__(every)
        in_range(1, images=images, at_once=at_once)
        if not isinstance(stream, Streaming):
            raise HoldfastError(f"{type(stream).__name__} is not a stream. Pass HoldOut one.")
        end = stream.start + images
        if stream.images is not None and end > stream.images:
            raise HoldfastError(
                f"The held-out stream has {stream.images} images, not {end}. Use fewer, or start "
                "earlier."
            )
        self.stream, self.images, self.at_once = stream, images, at_once

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.hold()

    def hold(self) -> None:
        """Generate the held-out images."""
        first = self.stream.start
        index = torch.arange(first, first + self.images).split(self.at_once)
        batches = [self.stream.batch(positions) for positions in index]
        self._held = [(compact(batch.images.cpu()), batch.labels) for batch in batches]

    def observe(self, method: Adapting, images: torch.Tensor) -> Mapping[str, float]:
        right = known = 0.0
        for held, labels in self._held:
            found = scored(method.predict(images_of(held).to(images.device)).cpu(), labels)
            right += float(found["correct"].sum())
            known += float((found["labels"] >= 0).sum())
        return {"accuracy": right / known} if known else {}
