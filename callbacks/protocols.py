"""What callbacks need of a method and of a stream, so that they import neither, and how they find both."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, SupportsFloat, cast, runtime_checkable

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch.optim import Optimizer

from .. import HoldfastError


class _Predicting(Protocol):
    """What estimators need of a method; `methods.TTAMethod` documents its members."""

    backbone: nn.Module

    @property
    def predictor(self) -> nn.Module: ...
    def predict(self, images: Tensor, network: nn.Module | None = None) -> Tensor: ...
    def source_logits(self, images: Tensor) -> Tensor: ...
    def generator(self, purpose: str) -> torch.Generator: ...
    def stages(self) -> list[str]: ...


class _Stepping(Protocol):
    """What a method says of its steps, for recoveries and records."""

    step_count: int
    steps_since_reset: int
    reset_count: int
    trace: dict[str, Any]
    last_step: tuple[Tensor, Tensor] | None
    times: Mapping[str, SupportsFloat]
    arrived: float
    frozen: bool

    def parameters_with_source(self) -> Iterator[tuple[Tensor, Tensor]]: ...
    @property
    def never_updated(self) -> bool: ...


class Adapting(_Predicting, _Stepping, Protocol):
    """A method that loops and recoveries act on."""

    optimizer: Optimizer | None
    state: dict[str, Any]

    def check_images(self, images: Any) -> None: ...
    def adapt(self, images: Tensor) -> Tensor: ...
    def recover(self) -> None: ...
    def reset(self, keep_memory: bool = ..., weights: Iterable[Tensor] | None = ...) -> None: ...
    def give_way(self, other: Any) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any]) -> Any: ...


class Recorded(Adapting, Protocol):
    """A method whose identity and choices a record states."""

    source_hash: str
    seed: int
    recovery: Any
    skipped_layers: Sequence[str]
    chosen: dict[str, Any]


@runtime_checkable
class Streaming(Protocol):
    """A stream, which can begin at any position; `datamodules.Stream` documents its members."""

    images: int | None
    start: int
    batch_size: int

    @property
    def identity(self) -> dict[str, Any]: ...
    def seedless(self, facts: dict[str, Any]) -> dict[str, Any]: ...
    def batch(self, index: Tensor) -> Any: ...
    def segment(self, number: int) -> Any: ...
    def passed(self, batch: Any) -> None: ...


class Estimating(Protocol):
    """What alarms need of an estimator: the accuracy in [0,1] estimated for the current batch, or None."""

    latest: float | None


def adapts(method: object) -> bool:
    """Whether it is a method that adapts; `isinstance` would be too slow for every batch."""
    return hasattr(method, "recover")


def method_of(module: LightningModule) -> Recorded:
    """The module that a Trainer tests, typed as a method that adapts.

    Raises HoldfastError if it is not such a method.
    """
    if not adapts(module):
        raise HoldfastError(
            f"{type(module).__name__} does not adapt. Pass the Trainer a TTAMethod, such as "
            "Source, or leave out Holdfast's callbacks."
        )
    return cast(Recorded, module)


def stream_of(trainer: Trainer) -> Streaming | None:
    """The Trainer's stream; None if its data are something else, say a data set with its loader."""
    data = trainer.datamodule  # type: ignore[attr-defined]
    return cast(Streaming, data) if hasattr(data, "passed") else None


def callbacks_of(trainer: Trainer) -> list[Callback]:
    """The Trainer's own list of callbacks, in the order in which they are called."""
    return trainer.callbacks  # type: ignore[attr-defined]
