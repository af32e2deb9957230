"""The run's record: one row per batch on disk, and the same as TensorBoard curves."""

import json
import math
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from lightning.pytorch import Callback, LightningModule, Trainer

from .. import HoldfastError
from ..files import no_links, read_json, whole_file, write_json
from ..run_folder import (
    ALARM,
    CELL,
    CHECKSUMS,
    PROVENANCE,
    ROWS,
    SUMMARY,
    checksum,
    checksums,
    damaged,
    damaged_row,
    images_used,
    read_rows,
    refuse_links,
    remove_run,
)
from .estimator import AccuracyEstimator
from .event_files import Curves
from .later import Later
from .observer import Observer
from .protocols import callbacks_of, method_of, segment_of, stream_of
from .provenance import now_on, provenance


class RunRecord(Callback):
    """Appends a row per batch to FOLDER/record.jsonl; writes provenance.json before, summary.json after.

    A row has: step, images (seen so far, this batch included), segment and corruptions (of the batch's
    first image; [[name, severity], ...]), accuracy (if labels are known), whatever the method traces
    (loss, selected, ...), estimates by name, their absolute errors and ends of their bands, reset (1 if
    one came before this step), seconds (since the start) and waited (those of them spent waiting for
    batches); not_finite is 1 where a step was undone, not_finite_images the number of images left out,
    which count as wrong; values that are not finite are null. On a CPU rows are flushed one by one, so
    a killed run leaves all but at most its last row. On an accelerator their numbers are read together,
    after 50 steps or a second and at each checkpoint, so the rows of a second may be missing. A run
    that resumes from a checkpoint first drops the rows after it. FOLDER/record.crc32 has a checksum of
    each row. `tensorboard --logdir FOLDER` shows means over `every` batches (fewer at the end) against
    the images seen; the Trainer's loggers get the same. Where several ranks run one stream, the first
    writes.

    Args:
        folder: folder of the run; made if missing.
        every: batches for each point of a curve; a run too short for two points has one point per batch.
        overwrite: replace the run that is in the folder, if there is one; a run that continues from a
            checkpoint replaces nothing.

    Raises:
        HoldfastError: if the folder holds a run, or rows that the checkpoint counts on are damaged.
    """

    def __init__(self, folder: str | Path, every: int = 25, overwrite: bool = False) -> None:
        self.folder, self.every, self.overwrite = Path(folder), every, overwrite
        self.images = self._resets = 0
        self._chosen: dict[str, Any] = {}
        self._window: list[dict[str, float]] = []
        self._alarms: set[str] = set()  # that are raised
        self._later = Later()
        self._file: BinaryIO | None = None
        self._checksums: BinaryIO | None = None
        self._curves: Curves | None = None
        self._bytes: int | None = None  # of the rows that a checkpoint knows
        self._seconds = self._waited = 0.0

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        refuse_links(self.folder)
        if self._bytes is None:
            self._begin(trainer, pl_module)
        else:
            self._go_on(self._bytes, trainer, pl_module)
        seen = None if self._bytes is None else self.images
        self._curves = Curves(self.folder, trainer.loggers, seen)
        self._ended = time.perf_counter()
        self._start = self._ended - self._seconds

    def _begin(self, trainer: Trainer, module: LightningModule) -> None:
        if (self.folder / ROWS).exists():
            if not self.overwrite:
                raise HoldfastError(
                    f"{self.folder} already holds a run. Pass RunRecord(..., overwrite=True) to replace "
                    "it, choose another folder, or resume the run from its last checkpoint (--resume; "
                    "in Python Trainer.test(..., ckpt_path=newest(FOLDER)))."
                )
            remove_run(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        varied = {"factors": read_json(self.folder / CELL).get("factors", {})}
        write_json(self.folder / PROVENANCE, provenance(trainer, module) | varied)
        self._file = (self.folder / ROWS).open("xb")
        self._checksums = self._open(CHECKSUMS, "wb")
        if batches_ahead(trainer) < 2 * self.every:
            self.every = 1

    def _go_on(self, size: int, trainer: Trainer, module: LightningModule) -> None:
        """Drop all rows after the first `size` bytes, and note where the run continues."""
        path = self.folder / ROWS
        record = path.read_bytes()[:size] if path.exists() else b""
        rows, known = record.splitlines(keepends=True), checksums(self.folder)
        if len(record) < size or 0 < len(known) < len(rows):
            raise HoldfastError(
                f"{path} lacks rows that precede the checkpoint. Restore it, or remove "
                f"{self.folder} to begin the run anew."
            )
        if number := damaged_row(record, known):
            raise HoldfastError(damaged(self.folder, number))
        now_on(self.folder, trainer, method_of(module).step_count, self.images)
        self._file = self._open(ROWS, "r+b")
        self._file.truncate(size)
        self._file.seek(size)
        self._checksums = self._open(CHECKSUMS, "wb")  # anew for a run of an earlier version
        self._checksums.writelines(map(checksum, rows))

    def _open(self, name: str, mode: str) -> BinaryIO:
        return cast(BinaryIO, open(self.folder / name, mode, opener=no_links))

    def _note_choices(self, chosen: dict[str, Any]) -> None:
        """Record in the provenance the values that the method chose for arguments left at None."""
        self._chosen, path = dict(chosen), self.folder / PROVENANCE
        write_json(path, read_json(path) | {"chosen": self._chosen})

    def on_test_batch_start(self, *_: Any) -> None:
        if self._file is not None:
            self._waited += time.perf_counter() - self._ended

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        if self._file is None:
            return
        method = method_of(pl_module)
        if method.chosen != self._chosen:
            self._note_choices(method.chosen)
        self.images += len(batch.labels)
        known = {
            "step": method.step_count - 1,
            "images": self.images,
            "reset": float(method.reset_count - self._resets),
            "seconds": round(time.perf_counter() - self._start, 3),
            "waited": round(self._waited, 3),
        }
        self._resets = method.reset_count
        scalars = {"segment": batch.segment[0], "accuracy": outputs["accuracy"], **method.trace}
        if self._later.add(scalars, (trainer, known, watched(trainer))):
            self._write_waiting()
        self._ended = time.perf_counter()

    def _write_waiting(self) -> None:
        """Write the rows of steps whose numbers were still on the accelerator."""
        for values, (trainer, known, (found, errors)) in self._later.read():
            number, truth = int(values.pop("segment")), values.pop("accuracy")
            segment = segment_of(trainer, number)
            values = ({} if math.isnan(truth) else {"accuracy": truth}) | values
            for name, value in found.items():
                values[name] = value
                if name in errors and not math.isnan(truth):
                    values[f"{name}_error"] = abs(value - truth)
            values["reset"] = known.pop("reset")
            place = {
                "segment": number,
                "corruptions": None if segment is None else list(segment.corruptions),
            }
            times = {name: known.pop(name) for name in ("seconds", "waited")}
            self._write(finite({**known, **place, **values, **times}))
            raised = {name for name, value in values.items() if name.endswith(ALARM) and value}
            self._mark(raised, known["images"])
            self._window.append({k: value for k, value in values.items() if math.isfinite(value)})
            if len(self._window) >= self.every:
                self._draw(known["images"])

    def _write(self, row: dict[str, Any]) -> None:
        line = json.dumps(row, allow_nan=False).encode() + b"\n"
        assert self._file is not None
        assert self._checksums is not None
        for file, content in ((self._file, line), (self._checksums, checksum(line))):
            file.write(content)
            file.flush()

    def _mark(self, alarms: set[str], images: int) -> None:
        """Mark alarms in TensorBoard."""
        assert self._curves is not None
        for name in sorted(alarms - self._alarms):
            text = f"{name.removesuffix(ALARM)} after {images:,} images"
            self._curves.mark("alarms", text, images)
        self._alarms = alarms

    def _draw(self, images: int) -> None:
        """One point of each curve: the mean of its values since the last point."""
        curves: dict[str, list[float]] = {}
        for values in self._window:
            for name, value in values.items():
                curves.setdefault(name, []).append(value)
        means = {f"stream/{name}": sum(v) / len(v) for name, v in curves.items()}
        assert self._curves is not None
        self._curves.draw(means, images)
        self._window.clear()

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._file is None:
            return
        self._write_waiting()
        if self._window:
            self._draw(self.images)
        results = {name: float(value) for name, value in trainer.callback_metrics.items()}
        self._secure()  # the summary must not be ahead of the rows on disk
        used = images_used(read_rows(self.folder))
        results |= {} if used is None else {"images_used": used}
        results |= {"never_updated": True} if method_of(pl_module).never_updated else {}
        write_json(self.folder / SUMMARY, finite({"images": self.images, **results}))

    def _secure(self) -> None:
        """Flush rows and curves to disk; raises HoldfastError if the rows were removed."""
        assert self._file is not None
        assert self._checksums is not None
        assert self._curves is not None
        self._curves.flush()
        for file in (self._file, self._checksums):
            file.flush()
            os.fsync(file.fileno())
        try:
            kept = os.path.samestat(os.fstat(self._file.fileno()), (self.folder / ROWS).stat())
        except FileNotFoundError:
            kept = False
        if not kept:
            raise HoldfastError(
                f"{self.folder / ROWS} was removed or replaced during the run. Remove "
                f"{self.folder} and start the run anew."
            )

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        for file in (self._file, self._checksums):
            if file is not None:
                file.close()
        if self._curves is not None:
            self._curves.close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if self._file is not None:
            with suppress(RuntimeError):  # a failed accelerator cannot be read
                self._write_waiting()
        self.teardown(trainer, pl_module, "test")

    def state_dict(self) -> dict[str, Any]:
        if self._file is None:
            return {}
        self._write_waiting()
        self._secure()  # the checkpoint must not be ahead of the rows on disk
        return {
            "bytes": self._file.tell(),
            "seconds": time.perf_counter() - self._start,
            "waited": self._waited,
            "images": self.images,
            "resets": self._resets,
            "every": self.every,
            "window": self._window,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._bytes, self._seconds = state_dict["bytes"], state_dict["seconds"]
        self._waited = state_dict.get("waited", 0.0)  # none in a checkpoint of an earlier version
        self.images, self._resets = state_dict["images"], state_dict["resets"]
        self.every, self._window = state_dict["every"], list(state_dict["window"])


def finite(values: dict[str, Any]) -> dict[str, Any]:
    """The values, with None for numbers that JSON cannot represent."""
    strange = {k for k, v in values.items() if isinstance(v, float) and not math.isfinite(v)}
    return {key: None if key in strange else value for key, value in values.items()}


def batches_ahead(trainer: Trainer) -> float:
    """The number of batches of the run; infinity if unknown."""
    known, stream = sum(trainer.num_test_batches), stream_of(trainer)
    if stream is None or stream.images is None:
        return known
    return min(known, math.ceil((stream.images - stream.start) / stream.batch_size))


def save_arrays(trainer: Trainer, name: str, **arrays: Any) -> None:
    """Write the arrays to a file in the run's folder, if the run has a record."""
    for record in callbacks_of(trainer):
        if isinstance(record, RunRecord) and trainer.is_global_zero:
            with whole_file(record.folder / name) as partial, partial.open("wb") as file:
                np.savez_compressed(file, **arrays)


def watched(trainer: Trainer) -> tuple[dict[str, float], set[str]]:
    """The callbacks' values for this batch, and the names of those that estimate its accuracy."""
    values: dict[str, float] = {}
    of_batches = set()
    for callback in callbacks_of(trainer):
        if isinstance(callback, AccuracyEstimator) and callback.latest is not None:
            name = callback.name
            values[name] = callback.latest
            if callback.of_batches:
                of_batches.add(name)
            if callback.band is not None:
                values |= {f"{name}_low": callback.band[0], f"{name}_high": callback.band[1]}
        if isinstance(callback, Observer):
            values |= {f"{callback.name}_{key}": value for key, value in callback.details.items()}
    return values, of_batches
