"""Observers: measurements of a model as it adapts, which are no estimates of its accuracy."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from torch import Tensor
from torch.special import entr

from .. import HoldfastError, in_range
from .functional.scores import scored, softmax_score, without_bad
from .observer import Observer, undisturbed
from .protocols import Adapting, Streaming, method_of


class PredictionStatistics(Observer):
    """Confidence and spread of the scored predictions of each batch, for the record's row.

    `confidence`: mean max softmax at temperature 1 (Lee et al. 2024, fig. 2a). `classes` and `entropy`:
    number of classes predicted over the last `window` batches, and the entropy in nats of their
    shares, which falls to 0 where a model predicts one class only (fig. 2b).

    Args:
        window: batches that the classes are counted over.
    """

    STATE = ("counts",)

    def __init__(self, window: int = 25) -> None:
        in_range(1, window=window)
        self.window = window
        self.counts: list[Tensor] = []  # [C] of each batch in the window

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *_: Any
    ) -> None:
        self.note(outputs["logits"])

    def note(self, logits: Tensor) -> Mapping[str, float]:
        """The values after a batch with these logits [B,C], NaN where images are not finite."""
        logits = without_bad(logits)
        counts = torch.bincount(logits.argmax(1), minlength=logits.shape[1]).cpu()
        self.counts = [*self.counts, counts][-self.window :]
        total = torch.stack(self.counts).sum(0)
        self.details = {
            "confidence": float(softmax_score(logits, 1.0)),
            "classes": float((total > 0).sum()),
            "entropy": float(entr(total / total.sum()).sum()),
        }
        return self.details


class PeriodicObserver(Observer, ABC):
    """Measures something before every `every`-th step, for the rows of these steps.

    Subclasses override `observe`. The run stays bit for bit the same, and a resumed one measures alike.

    Args:
        every: steps from one measurement to the next; the first is before the first step.
    """

    def __init__(self, every: int = 100) -> None:
        in_range(1, every=every)
        self.every = every

    @abstractmethod
    def observe(self, method: Adapting, images: Tensor) -> Mapping[str, float]:
        """Values by name, of the method as it is before it adapts to images [B,3,H,W] in [0,1]."""

    def on_test_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, *_: Any
    ) -> None:
        with trainer.precision_plugin.test_step_context():
            self.look(method_of(pl_module), batch.images)

    def look(self, method: Adapting, images: Tensor) -> Mapping[str, float]:
        """The values before `method.adapt(images)`, images [B,3,H,W], if they are due; for custom loops."""
        self.details = {}
        if method.step_count % self.every == 0:
            method.recover()
            with undisturbed(images.device):
                self.details = self.observe(method, images)
        return self.details


class WeightMagnitude(PeriodicObserver):
    """Euclidean norm of all adapted weights, and their distance from the source model's.

    CCC's explanation of collapse (Press et al. 2023, figs. 2.6c and A.2 of the thesis): the weights grow
    without bound. Columns: `norm`, `moved`, and `norm NAME` for each parameter with `layers`.

    Args:
        every: steps from one measurement to the next.
        layers: one column for each adapted parameter, too.
    """

    def __init__(self, every: int = 100, layers: bool = False) -> None:
        super().__init__(every)
        self.layers = layers

    def observe(self, method: Adapting, images: Tensor) -> Mapping[str, float]:
        pairs = [*method.parameters_with_source()]
        if not pairs:
            return {}
        now = [parameter.detach() for parameter, _ in pairs]
        norms = torch.stack(torch._foreach_norm(now))
        moved = torch.stack(torch._foreach_norm(torch._foreach_sub(now, [s for _, s in pairs])))
        found = {"norm": float(norms.norm()), "moved": float(moved.norm())}
        if self.layers:
            names = {id(p): name for name, p in method.backbone.named_parameters()}
            for (parameter, _), norm in zip(pairs, norms.tolist(), strict=True):
                found[f"norm {names[id(parameter)]}"] = norm
        return found


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
            raise HoldfastError(f"{type(stream).__name__} is not a stream. Pass HoldOut one.")
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
            found = scored(method.predict(images_of(held).to(images.device)).cpu(), labels)
            right += float(found["correct"].sum())
            known += float((found["labels"] >= 0).sum())
        return {"accuracy": right / known} if known else {}


def compact(images: Tensor) -> Tensor:
    """Images [B,3,H,W] in [0,1] as bytes, if that is lossless."""
    as_bytes = images.mul(255).round().to(torch.uint8)
    return as_bytes if torch.equal(images_of(as_bytes), images) else images.clone()


def images_of(kept: Tensor) -> Tensor:
    """The images [B,3,H,W] in [0,1], as before `compact`."""
    return kept.float() / 255 if kept.dtype == torch.uint8 else kept
