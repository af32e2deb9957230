"""What a long run costs: time, memory, files and sizes along runs with a record, events and checkpoints."""

import argparse
import io
import os
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from lightning.pytorch import Callback, LightningModule, Trainer

from ... import HoldfastError
from ...callbacks import AETTA, RunRecord, StreamCheckpoint
from ...datamodules import Clean, Glyphs
from ...drawing import legend, panels, plot, styles
from ...files import read_json, write_json
from ...methods.backbones import load_backbone
from ...run_folder import ROWS
from ..results.report import publish
from ..results.runs import find
from ..test import silence_lightning
from .step_cost import Rows, rows

METHODS = ("Tent", "RDumb", "CoTTA", "RoTTA")
_POINTS = 40  # of each curve


class Point(NamedTuple):
    """A run after `steps` steps."""

    steps: int
    milliseconds: float  # of processor time per step since the last point
    memory: float  # resident, MiB
    files: int  # open
    record: int  # bytes of the record's rows
    events: int  # bytes of the TensorBoard events
    checkpoints: int  # bytes


class _Points(Callback):
    """Measures a run, whose folder is `folder`, after each `every` steps."""

    def __init__(self, folder: Path, every: int) -> None:
        self.folder, self.every = folder, every
        self.points: list[Point] = []
        self._started = 0.0

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._started = time.process_time()

    def on_test_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        *_: Any,
    ) -> None:
        if (batch_idx + 1) % self.every:
            return
        taken = (time.process_time() - self._started) / self.every
        resident = int(Path("/proc/self/statm").read_text().split()[1])
        sizes = {path: path.stat().st_size for path in self.folder.rglob("*") if path.is_file()}
        point = Point(
            batch_idx + 1,
            1000 * taken,
            resident * os.sysconf("SC_PAGE_SIZE") / 2**20,
            len(os.listdir("/proc/self/fd")),
            sizes[self.folder / ROWS],
            sum(size for path, size in sizes.items() if path.name.startswith("events")),
            sum(size for path, size in sizes.items() if path.suffix == ".ckpt"),
        )
        self.points.append(point)
        self._started = time.process_time()


def to_run(args: argparse.Namespace) -> list[str]:
    """The methods whose runs are not in the folder yet."""
    methods = args.methods or METHODS
    return [name for name in methods if not (args.folder and _file(args, name).exists())]


def long_runs(args: argparse.Namespace) -> Rows:
    """The row of each method; draws the curves of all if `args.figure` is a path."""
    if not Path("/proc/self/statm").exists():
        raise HoldfastError("`bench long` reads memory and open files from /proc. Run it on Linux.")
    if args.steps < _POINTS:
        raise HoldfastError(f"--steps {args.steps} is too short. Pass at least {_POINTS}.")
    curves: dict[str, list[Point]] = {}
    missing = to_run(args)
    silence_lightning()
    for name, (kind, arguments) in rows(args.methods or METHODS).items():
        if name in missing:
            run = _measured(kind(load_backbone(args.backbone), **arguments), args)
            if args.folder:
                args.folder.mkdir(parents=True, exist_ok=True)
                write_json(_file(args, name), run)
        else:
            run = read_json(_file(args, name))
            if (run["setting"], run["steps"]) != (args.setting, args.steps):
                raise HoldfastError(
                    f"{_file(args, name)} is a run of {run['steps']} steps with {run['setting']}. "
                    "Pass another --folder."
                )
        curves[name] = [Point(*values) for values in run["points"]]
        yield name, _summary(curves[name]) | {"report": run["report"]}
    if args.figure is not None:
        _draw(curves, args.figure)


def _file(args: argparse.Namespace, name: str) -> Path:
    """Where the folder keeps the run of a method."""
    return Path(args.folder, f"{name}.json")


def _measured(method: LightningModule, args: argparse.Namespace) -> dict[str, Any]:
    """A run and its report: `points`, `report`, the report's seconds, `setting` and `steps`."""
    with tempfile.TemporaryDirectory() as folder:
        points = _run(method.to(args.device), Path(folder), args)
        started = time.process_time()
        with redirect_stdout(io.StringIO()):
            publish(Path(folder), find(Path(folder)))
        report = round(time.process_time() - started, 2)
    return {"setting": args.setting, "steps": args.steps, "points": points, "report": report}


def _run(method: Any, folder: Path, args: argparse.Namespace) -> list[Point]:
    """The points of a run in a folder, of `args.steps` steps of `args.batch` images."""
    points = _Points(folder, args.steps // _POINTS)
    stream = Clean(Glyphs(), images=args.steps * args.batch, batch_size=args.batch, num_workers=0)
    callbacks: list[Callback] = [
        AETTA(),
        RunRecord(folder),
        StreamCheckpoint(folder / "checkpoints", every=max(1, args.steps // 100)),
        points,
    ]
    trainer = Trainer(
        accelerator="cpu" if args.device.type == "cpu" else "auto",
        devices=1,
        callbacks=callbacks,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        inference_mode=False,
    )
    trainer.test(method, datamodule=stream, verbose=False)
    return points.points


def _summary(points: list[Point]) -> dict[str, float]:
    """Medians of the second and last quarters, and bytes per step; the first quarter fills memories."""
    quarter = len(points) // 4
    early, late = (
        np.median(part, axis=0) for part in (points[quarter : 2 * quarter], points[-quarter:])
    )
    first, last = points[quarter], points[-1]
    between = last.steps - first.steps
    return {
        "ms": round(early[1], 3),
        "ms_end": round(late[1], 3),
        "MiB": round(early[2], 1),
        "MiB_end": round(late[2], 1),
        "files_end": last.files - points[0].files,
        "record": round((last.record - first.record) / between, 1),
        "events": round((last.events - first.events) / between, 1),
        "checkpoints": last.checkpoints,
    }


def _draw(curves: dict[str, list[Point]], path: Path) -> None:
    """Draw each quantity against the steps, a line per method."""
    titles = {
        "milliseconds": "processor time per step (ms)",
        "memory": "resident memory (MiB)",
        "files": "open files",
        "record": "record (MB)",
        "events": "TensorBoard events (MB)",
        "checkpoints": "checkpoints (MB)",
    }
    looks = styles(curves)
    with panels(path, len(titles), 3, sharex=True) as (figure, axes):
        for axis, (field, title) in zip(axes, titles.items(), strict=True):
            for name, points in curves.items():
                values = np.array([getattr(point, field) for point in points])
                if title.endswith("(MB)"):
                    values = values / 1e6
                plot(axis, [point.steps / 1000 for point in points], values, name, looks[name])
            axis.set(title=title, xlabel="thousand steps", ylim=(0, None))
        legend(figure, axes)
