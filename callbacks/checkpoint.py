"""Checkpoints of a run in the middle of its stream, and resuming from them."""

import contextlib
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO
from lightning.pytorch.utilities.rank_zero import rank_zero_warn

from .. import HoldfastError, in_range
from ..files import PARTIAL, reason, unwritable, whole_file, written
from .protocols import method_of, stream_of
from .provenance import check_same, identity

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
GO_ON = "then --resume continues from the last checkpoint, or from the start if there is none."


class StreamCheckpoint(Checkpoint):
    """Saves a run every `every` steps, and when it is stopped, so that it can be resumed.

    A resumed run gives the same bits as an uninterrupted one: weights, optimizer, method state, random
    numbers, metrics, estimators and record. SIGINT (Ctrl-C) and SIGTERM end it after the current step, with
    a checkpoint; a second Ctrl-C ends it at once. Files are written atomically and load with
    `weights_only`; a finished run removes them, unless it keeps all. A run resumed from an earlier
    checkpoint removes the later ones. To resume:
    `trainer.test(method, datamodule=stream, ckpt_path=newest(folder), weights_only=True)`.

    Args:
        folder: where this run's checkpoints are written; created if missing.
        every: steps between two checkpoints; default: about one minute's steps.
        keep: number of recent files to keep; None: all, also of a finished run.

    Raises HoldfastError if a file cannot be written, which leaves earlier files intact; or if a new run
    starts in a folder that contains checkpoints of another run.
    """

    def __init__(self, folder: str | Path, every: int | None = None, keep: int | None = 2) -> None:
        in_range(1, every=every, keep=keep)
        self.folder, self.every, self.keep = Path(folder), every, keep
        self.steps = 0  # of the whole run, before and after a restart
        self._random: dict[str, Any] | None = None
        self.stopped = False  # whether a signal has asked for it
        self._interrupted = False  # by Ctrl-C
        self._handlers: dict[int, Any] = {}

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        stream = stream_of(trainer)
        if stream is None:
            raise HoldfastError(
                "StreamCheckpoint needs a stream: other data cannot start in the middle, as a resumed run "
                "must. Omit StreamCheckpoint, or subclass Stream."
            )
        self._stream, method = stream, method_of(pl_module)
        trainer.strategy.checkpoint_io = _RunFiles(lambda: identity(trainer, method))

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.stopped = trainer.received_sigterm  # before our handlers were installed
        if threading.current_thread() is threading.main_thread():
            self._handlers = {number: signal.signal(number, self._stop) for number in _SIGNALS}
        with written(self.folder, GO_ON):
            self.folder.mkdir(parents=True, exist_ok=True)
        later = [path for path in files(self.folder) if path > self._path]
        if later and not self.steps:
            raise HoldfastError(
                f"{self.folder} contains the checkpoints of a run. Resume it from newest(folder), "
                "pass another folder, or remove it."
            )
        self._remove(trainer, later)
        self._saved = time.monotonic()

    def on_test_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._random is not None:
            torch.set_rng_state(self._random["torch"])
            if torch.cuda.is_available() and self._random["cuda"] is not None:
                torch.cuda.set_rng_state(self._random["cuda"])
            np.random.set_state(self._random["numpy"])  # noqa: NPY002
            random.setstate(self._random["python"])
            self._random = None

    def _stop(self, number: int, _: object) -> None:
        if self._interrupted and number == signal.SIGINT:
            raise KeyboardInterrupt
        # The parent process forwards, as SIGTERM or (Ray) SIGINT, a signal that this process already got.
        self.stopped = True
        self._interrupted |= number == signal.SIGINT

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        self._stream.passed(batch)
        self.steps += 1
        agreed = trainer.strategy.reduce_boolean_decision  # several processes act at the same step
        late = self.every is None and time.monotonic() - self._saved >= 60
        due = late or (self.every is not None and self.steps % self.every == 0)
        if agreed(self.stopped or due, all=False):
            trainer.save_checkpoint(self._path, weights_only=False)
            self._remove(trainer, [] if self.keep is None else files(self.folder)[self.keep :])
            self._saved = time.monotonic()
            if agreed(self.stopped, all=False):
                raise KeyboardInterrupt(f"saved after {self.steps} steps; continue with --resume")

    @property
    def _path(self) -> Path:
        return self.folder / f"step-{self.steps:09d}.ckpt"

    def _remove(self, trainer: Trainer, checkpoints: list[Path]) -> None:
        """Remove these checkpoints, and incomplete files of killed processes."""
        if trainer.is_global_zero:
            for path in (*checkpoints, *self.folder.glob(f"step-*{PARTIAL}")):
                path.unlink(missing_ok=True)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._restore_handlers()
        self._remove(trainer, [] if self.keep is None else files(self.folder))
        with contextlib.suppress(OSError):  # if there is something else in it
            self.folder.rmdir()

    def on_exception(self, *_: Any) -> None:
        self._restore_handlers()

    def _restore_handlers(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        checkpoint["run"] = identity(trainer, method_of(pl_module))

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        # The Trainer counts its batches from the restart on, and would skip a test of none altogether.
        steps, limit = checkpoint["callbacks"][self.state_key]["steps"], trainer.limit_test_batches
        if isinstance(limit, int):
            trainer.limit_test_batches = max(1, limit - steps)
            if steps >= limit:
                self._stream.images = self._stream.start

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "random": random_state()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.steps, self._random = state_dict["steps"], state_dict["random"]


class _RunFiles(TorchCheckpointIO):
    """Writes a checkpoint to a temporary file, and moves it into place when it is safely on disk.

    Args:
        identify: gives the identity of the run. A checkpoint of another is refused before anything is
            restored from it, with a clear message; Lightning would complain about weights that do not fit.
    """

    def __init__(self, identify: Callable[[], dict[str, Any]]) -> None:
        super().__init__()
        self.identify = identify

    def load_checkpoint(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        checkpoint = super().load_checkpoint(*args, **kwargs)
        if "run" not in checkpoint:
            raise HoldfastError(
                "StreamCheckpoint did not write this checkpoint, so no run can resume from it. Choose "
                "another."
            )
        remedy = "Use the settings of that run, or start a new run in another folder."
        check_same(checkpoint["run"], self.identify(), "checkpoint belongs to another run", remedy)
        return checkpoint

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        try:
            with whole_file(Path(path)) as partial, partial.open("wb") as file:
                torch.save(checkpoint, file)
        except (OSError, RuntimeError) as error:  # torch turns some of the first into the second
            # A signal raises it wherever the run is, and what torch then closes raises another.
            for cause in filter(None, (error, error.__context__)):
                if str(cause).startswith("DataLoader worker"):
                    raise cause from None
            raise unwritable(Path(path), error, GO_ON) from error


def files(folder: str | Path) -> list[Path]:
    """The checkpoints in a folder, the newest first."""
    return sorted(Path(folder).glob("step-*.ckpt"), reverse=True)


def newest(folder: str | Path) -> Path | None:
    """The newest checkpoint in a folder that can be used; None if there is no checkpoint.

    Raises HoldfastError if there are checkpoints and none can be used.
    """
    checkpoints = files(folder)
    for path in checkpoints:
        try:
            if "run" not in torch.load(path, map_location="cpu", weights_only=True):
                raise ValueError("not made by a run of Holdfast")
        except Exception as error:  # whatever a damaged file makes the reader raise
            rank_zero_warn(f"{path} cannot be used ({reason(error)}). Trying the previous one.")
        else:
            return path
    if checkpoints:
        raise HoldfastError(
            f"No checkpoint in {folder} can be used. Remove the folder to repeat the run."
        )
    return None


def random_state() -> dict[str, Any]:
    """The global random number generators, that of this process' GPU among them, as plain values."""
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
        "numpy": (kind, np.asarray(keys).tolist(), *rest),
        "python": random.getstate(),
    }
