"""The run's record: one row per batch on disk, beside the curves in the Trainer's loggers."""

import json
import math
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, SupportsFloat

import numpy as np
from lightning.fabric.loggers import Logger, TensorBoardLogger
from lightning.pytorch import LightningModule, Trainer

from .. import HoldfastError
from ..files import read_json, whole_file, write_json, written
from ..run_folder import CELL, PROVENANCE, ROWS, SUMMARY, images_used, read_rows, remove_run
from .curves import Curves
from .protocols import callbacks_of, method_of
from .provenance import now_on, provenance


class RunRecord(Curves):
    """Appends a row per batch to FOLDER/record.jsonl; writes provenance.json before, summary.json after.

    A row has: step, images (seen so far, this batch included), segment and corruptions (of the batch's
    first image; [[name, severity], ...]), accuracy and nll, the mean negative log-likelihood in nats
    (if labels are known), whatever the method traces (loss, selected, ...), estimates by name, their
    absolute errors and ends of their bands, reset (1 if one came before this step), seconds (since the
    start) and waited (those of them spent waiting for batches), logits_ready and update_ended (seconds
    from the start of the step, without observers; on a CUDA device by events, as the device gets there);
    not_finite is 1 where a step was
    undone, not_finite_images the number of images left out, which count as wrong; values that are not
    finite are null. On a CPU rows are flushed one by one, so a killed run leaves all but at most its
    last row. On an accelerator their numbers are read together, after 50 steps or a second and at each
    checkpoint, so the rows of a second may be missing. A run that resumes from a checkpoint first drops
    the rows after it. The Trainer's loggers get means over `every` batches (fewer at the end) against
    the images seen; so do TensorBoard events in the folder. Of several ranks the first writes.

    Args:
        folder: folder of the run; created if missing.
        every: batches for each point of a curve; a run too short for two points has one point per batch.
        overwrite: replace the run that is in the folder, if there is one; a run that continues from a
            checkpoint replaces nothing.

    Raises HoldfastError if the folder cannot be written or holds a run, or rows are missing that the
    checkpoint counts on.
    """

    def __init__(self, folder: str | Path, every: int = 25, overwrite: bool = False) -> None:
        super().__init__(every)
        self.folder, self.overwrite = Path(folder), overwrite
        self.seconds = self.waited = 0.0
        self.bytes: int | None = None  # of the rows that the checkpoint knows
        self._chosen: dict[str, Any] = {}  # by the method, for arguments that are None
        self._file: FileIO | None = None

    # ---- begin, or continue ---------------------------------------------------------------------

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        purge = None  # the first point of the curves to discard
        if self.bytes is None:
            self._begin(trainer, pl_module)
        else:
            self._go_on(self.bytes, trainer, pl_module)
            purge = self.images + 1
        self._loggers = [*trainer.loggers, *_events_in(self.folder, trainer.loggers, purge)]
        self._ended = time.perf_counter()
        self._start = self._ended - self.seconds

    def _begin(self, trainer: Trainer, module: LightningModule) -> None:
        if (self.folder / ROWS).exists():
            if not self.overwrite:
                raise HoldfastError(
                    f"{self.folder} already holds a run. Pass RunRecord(..., overwrite=True) to replace "
                    "it, choose another folder, or resume the run from its last checkpoint (--resume; "
                    "in Python Trainer.test(..., ckpt_path=newest(FOLDER)))."
                )
            remove_run(self.folder)
        varied = {"factors": read_json(self.folder / CELL).get("factors", {})}
        facts = provenance(trainer, module) | varied
        with written(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(self.folder / PROVENANCE, facts)
            self._file = (self.folder / ROWS).open("xb", buffering=0)
        self.divide(trainer)

    def _go_on(self, size: int, trainer: Trainer, module: LightningModule) -> None:
        """Drop all rows after the first `size` bytes, and note where the run continues."""
        path = self.folder / ROWS
        if not path.exists() or path.stat().st_size < size:
            raise HoldfastError(
                f"{path} lacks rows that precede the checkpoint. Restore it, or remove "
                f"{self.folder} to repeat the run."
            )
        now_on(self.folder, trainer, method_of(module).step_count, self.images)
        self._file = path.open("r+b", buffering=0)
        self._file.truncate(size)
        self._file.seek(size)

    # ---- row by row -----------------------------------------------------------------------------

    def on_test_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if self._file is not None:
            # Other callbacks may have worked on the batch since then.
            self.waited += max(0.0, method_of(pl_module).arrived - self._ended)

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        if self._file is None:
            return
        method = method_of(pl_module)
        if method.chosen != self._chosen:
            self._chosen, path = dict(method.chosen), self.folder / PROVENANCE
            write_json(path, read_json(path) | {"chosen": self._chosen})
        times = {
            "seconds": round(time.perf_counter() - self._start, 3),
            "waited": round(self.waited, 3),
            **method.times,
        }
        self.log_step(trainer, pl_module, outputs, batch, times)
        self._ended = time.perf_counter()

    def write_row(self, row: dict[str, Any]) -> None:
        assert self._file is not None
        text = json.dumps(_finite(row), allow_nan=False, default=_microseconds)
        self._file.write(text.encode() + b"\n")

    # ---- end, and checkpoints -------------------------------------------------------------------

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._file is None:
            return
        super().on_test_end(trainer, pl_module)
        # The summary must not be ahead of the rows on disk.
        self._secure()
        results = {name: float(value) for name, value in trainer.callback_metrics.items()}
        used = images_used(read_rows(self.folder))
        results |= {} if used is None else {"images_used": used}
        results |= {"never_updated": True} if method_of(pl_module).never_updated else {}
        write_json(self.folder / SUMMARY, _finite({"images": self.images, **results}))

    def _secure(self) -> None:
        """Write waiting rows, and flush rows and curves to disk."""
        assert self._file is not None
        self.read()
        for logger in self._loggers:
            logger.save()
        os.fsync(self._file.fileno())

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if self._file is not None:
            self._file.close()
            # The Trainer finalizes those of its own list.
            for logger in self._loggers[len(trainer.loggers) :]:
                logger.finalize("success")

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if self._file is not None:
            with suppress(RuntimeError):  # a failed accelerator cannot be read
                self.read()
        self.teardown(trainer, pl_module, "test")

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if self._file is None:
            return
        # The checkpoint must not be ahead of the rows on disk.
        self._secure()
        super().on_save_checkpoint(trainer, pl_module, checkpoint)
        checkpoint["callbacks"][self.state_key] |= {
            "waited": self.waited,
            "bytes": self._file.tell(),
            "seconds": time.perf_counter() - self._start,
        }


def _events_in(folder: Path, loggers: Iterable[Logger], purge: int | None) -> list[Logger]:
    """A logger of TensorBoard events in a run's folder, unless one of the loggers writes there already."""
    folders = [Path(lg.log_dir).resolve() for lg in loggers if isinstance(lg, TensorBoardLogger)]
    if any(path.is_relative_to(folder.resolve()) for path in folders):
        return []
    return [TensorBoardLogger(folder, name="", version="", purge_step=purge)]


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """The values, with None for numbers that JSON cannot represent."""
    strange = {k for k, v in values.items() if isinstance(v, float) and not math.isfinite(v)}
    return {key: None if key in strange else value for key, value in values.items()}


def _microseconds(elapsed: SupportsFloat) -> float:
    return round(float(elapsed), 6)


def save_arrays(trainer: Trainer, name: str, **arrays: Any) -> None:
    """Write the arrays to a file in the run's folder, if the run has a record."""
    for record in callbacks_of(trainer):
        if isinstance(record, RunRecord) and trainer.is_global_zero:
            with whole_file(record.folder / name) as partial, partial.open("wb") as file:
                np.savez_compressed(file, **arrays)
