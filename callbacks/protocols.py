"""What callbacks need of a method and of a stream, so that they import neither, and how they find both."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, cast, runtime_checkable

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn

from .. import HoldfastError


class Adapting(Protocol):
    """What estimators and recoveries need of a method; `methods.TTAMethod` documents its members.

    Further members, which records, checkpoints and single estimators read, are untyped.
    """

    step_count: int
    steps_since_reset: int
    trace: dict[str, Any]

    @property
    def predictor(self) -> nn.Module: ...
    def predict(self, images: Tensor) -> Tensor: ...
    def source_logits(self, images: Tensor) -> Tensor: ...
    def parameters_with_source(self) -> Iterator[tuple[Tensor, Tensor]]: ...
    def generator(self, purpose: str) -> torch.Generator: ...
    def reset(self, keep_memory: bool = ..., weights: Iterable[Tensor] | None = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...


@runtime_checkable
class Streaming(Protocol):
    """A stream, which can begin at any position; `datamodules.Stream` documents its members."""

    images: int | None
    start: int
    batch_size: int

    @property
    def identity(self) -> dict[str, Any]: ...
    def batch(self, index: Tensor) -> Any: ...
    def segment(self, number: int) -> Any: ...
    def passed(self, batch: Any) -> None: ...


class Estimating(Protocol):
    """What alarms need of an estimator: the accuracy in [0,1] estimated for the current batch, or None."""

    latest: float | None


def adapts(method: object) -> bool:
    """Whether it is a method that adapts; `isinstance` would be too slow for every batch."""
    return hasattr(method, "recover")


def method_of(module: LightningModule) -> Adapting:
    """The module that a Trainer tests, typed as a method that adapts.

    Raises HoldfastError if it is not such a method.
    """
    if not adapts(module):
        raise HoldfastError(
            f"{type(module).__name__} does not adapt. Pass the Trainer a TTAMethod, such as "
            "Source, or leave out Holdfast's callbacks."
        )
    return cast(Adapting, module)


def stream_of(trainer: Trainer) -> Streaming | None:
    """The Trainer's stream; None if its data are something else, say a data set with its loader."""
    data = trainer.datamodule  # type: ignore[attr-defined]
    return cast(Streaming, data) if hasattr(data, "passed") else None


def callbacks_of(trainer: Trainer) -> list[Callback]:
    """The Trainer's own list of callbacks, in the order in which they are called."""
    return trainer.callbacks  # type: ignore[attr-defined]
