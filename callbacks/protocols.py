"""The interfaces of methods, streams and callbacks that callbacks use, so that they import none of them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, cast, runtime_checkable

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.combined_loader import CombinedLoader
from torch import Tensor, nn
from torch.optim import Optimizer

from .. import HoldfastError


@runtime_checkable
class Adapting(Protocol):
    """The public members of a test-time adaptation method (`methods.base.TTAMethod`)."""

    backbone: nn.Module
    optimizer: Optimizer | None  # None: nothing adapts by gradients
    seed: int  # of all its random numbers
    source_hash: str  # of the backbone's weights before the run
    step_count: int  # steps since the run began
    steps_since_reset: int
    reset_count: int
    trace: dict[str, Any]  # what the last step reports: loss, selected, ...
    state: dict[str, Any]  # what it remembers between steps
    last_step: (
        tuple[Tensor, Tensor] | None
    )  # its finite images, and their logits without correction
    chosen: dict[str, Any]  # the values that steps chose for arguments left at None
    recovery: Any  # a `Recovery` of its own, inside a Trainer or not; or None
    recovery_yields: bool  # whether one of the Trainer's callbacks replaces it
    skipped_layers: Sequence[str]  # normalisation layers at the top that do not adapt

    @property
    def predictor(self) -> nn.Module:
        """The network whose predictions are scored: the backbone, or a teacher."""

    @property
    def never_updated(self) -> bool:
        """Whether there are parameters that adapt, and no step so far has changed one."""

    def stages(self) -> list[str]:
        """The modules that end the stages of `predictor`, in the order of computation; [] if none."""

    def adapt(self, images: Tensor) -> Tensor:
        """One online step on images [B,3,H,W] in [0,1]; returns the logits [B,C] that are scored."""

    def check_images(self, images: Any) -> None:
        """Refuse images that `adapt` cannot take."""

    def predict(self, images: Tensor) -> Tensor:
        """The logits [B,C] that `adapt` would return next; changes nothing."""

    def recover(self) -> None:
        """Carry out a built-in reset that is due before the next step; calling it twice is harmless."""

    def predict_by(self, network: nn.Module, images: Tensor) -> Tensor:
        """The logits [B,C] of another network of the backbone's kind, computed as `predict` does."""

    def source_logits(self, images: Tensor) -> Tensor:
        """The logits [B,C] of the source model, as the method prepared it."""

    def reset(self, keep_memory: bool = False, weights: Iterable[Tensor] | None = None) -> None:
        """Return to the source model, with a fresh optimizer and, without `keep_memory`, fresh
        method state.

        weights: values shaped like the parameters of `parameters_with_source`, in place of the
            source's.
        """

    def parameters_with_source(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Each parameter that the optimizer changes, of any shape, and its value in the source
        model."""

    def generator(self, purpose: str) -> torch.Generator:
        """Random numbers that depend only on the run's seed, the step since the reset and `purpose`."""

    def state_dict(self) -> dict[str, Any]:
        """The state of everything that adapts."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any:
        """Restore a state that `state_dict` returned."""


class Piece(Protocol):
    """A segment of a stream, within which the corruptions stay the same; str() names them."""

    @property
    def corruptions(self) -> Sequence[tuple[str, float]]:
        """Names and severities, in the order in which they are applied; empty for clean images."""

    @property
    def count(self) -> int:
        """The number of images in the segment."""


@runtime_checkable
class Streaming(Protocol):
    """The public members of a stream, which can begin at any position (`datamodules.Stream`)."""

    images: int | None  # its length; None: endless
    start: int  # the position that it begins at
    batch_size: int

    @property
    def identity(self) -> dict[str, Any]:
        """What the pixels depend on."""

    def batch(self, index: Tensor) -> Any:
        """The images, labels, ... at these positions [B] of the stream."""

    def segment(self, number: int) -> Piece:
        """The segment of that number."""

    def passed(self, batch: Any) -> None:
        """Note that a run has used this batch; a resumed run starts after it."""


@runtime_checkable
class Estimating(Protocol):
    """The interface of accuracy estimators that resets use."""

    latest: float | None  # the accuracy in [0,1] estimated for the current batch; None: no estimate


@runtime_checkable
class Raising(Protocol):
    """The interface of alarms and monitors that resets use."""

    alarm: bool  # whether it is raised

    def restart(self) -> None:
        """Clear the alarm and start again."""


def method_of(module: LightningModule) -> Adapting:
    """The module that a Trainer tests, typed as a method that adapts.

    Raises:
        HoldfastError: if it is not such a method.
    """
    # Checks one member only: isinstance, which checks all, is too slow for every batch.
    if not hasattr(module, "recover"):
        raise HoldfastError(
            f"{type(module).__name__} does not adapt. Pass the Trainer a TTAMethod, such as "
            "Source, or leave out Holdfast's callbacks."
        )
    return cast(Adapting, module)


def stream_of(trainer: Trainer) -> Streaming | None:
    """The Trainer's stream; None if its data are not a stream, but, say, a data set with its
    loader."""
    data = trainer.datamodule  # type: ignore[attr-defined]
    return cast(Streaming, data) if hasattr(data, "passed") else None


def name_of(watcher: object) -> str:
    """An estimator's name: its `name`, if it has one, or its class's."""
    return getattr(watcher, "name", type(watcher).__name__)


def data_name(trainer: Trainer) -> str:
    """The class of the Trainer's data, or of the data sets in its loaders, for messages and records."""
    data = trainer.datamodule  # type: ignore[attr-defined]
    if data is not None:
        return type(data).__name__
    if trainer.test_dataloaders is None:  # before the test
        return "a DataLoader"
    loaders = CombinedLoader(trainer.test_dataloaders, "sequential").flattened
    sets = [getattr(loader, "dataset", loader) for loader in loaders]
    return ", ".join(type(data_set).__name__ for data_set in sets)


def segment_of(trainer: Trainer, number: int) -> Piece | None:
    """The stream's segment of that number; None if the data are not a stream."""
    stream = stream_of(trainer)
    return None if stream is None else stream.segment(number)


def callbacks_of(trainer: Trainer) -> list[Callback]:
    """The Trainer's own list of callbacks, in the order in which they are called."""
    return trainer.callbacks  # type: ignore[attr-defined]
