"""`holdfast long-run`: does memory stay flat, how large do records grow, what does saving cost?"""

import argparse
import re
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, Trainer
from lightning.pytorch.profilers import SimpleProfiler

from ...run_folder import ROWS
from .. import test

SETTLED = 2_000  # steps after which memory should have stopped growing
OWN = re.compile(r"\[Callback\](RunRecord|StreamCheckpoint)\b")


class Gauge(Callback):
    """Notes the run's seconds, and the peak resident memory in MiB after some steps and at the end."""

    def on_test_start(self, *_: Any) -> None:
        self.begin = time.perf_counter()

    def on_test_batch_end(self, trainer: Trainer, method: Any, *_: Any) -> None:
        if method.step_count == SETTLED:
            self.settled = peak_memory()

    def on_test_end(self, *_: Any) -> None:
        self.end = peak_memory()
        self.seconds = time.perf_counter() - self.begin


def peak_memory() -> float:
    """The largest resident memory of this process so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def observed_run(
    steps: int, batch_size: int, folder: Path, profiler: str | None = None
) -> tuple[Gauge, Any]:
    """RDumb on the embedded stream by `holdfast test`; returns the Trainer's profiler as well."""
    stream = {
        "source": "Glyphs",
        "calibration": "glyphs",
        "difficulty": 20,
        "quality": None,
        "speed": 256,
        "images": steps * batch_size,
        "batch_size": batch_size,
    }
    config = {
        "model": {"class_path": "RDumb", "init_args": {"backbone": "glyphs"}},
        "data": {"class_path": "CCC", "init_args": stream},
        "trainer": {"accelerator": "cpu", "profiler": profiler},
        "out": str(folder),
        "progress": False,
    }
    gauge = Gauge()
    return gauge, test.run(config, gauge).trainer.profiler  # type: ignore[attr-defined]


def saving_seconds(profiler: SimpleProfiler) -> float:
    """Time spent in recording and saving."""
    spent = profiler.recorded_durations.items()
    return sum(sum(times) for name, times in spent if OWN.search(name))


def megabytes_per_million(paths: list[Path], images: int) -> float:
    """The size of files that `images` images have left, in MB per million of them."""
    return sum(path.stat().st_size for path in paths) / images


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="holdfast long-run",
        description=__doc__,
        epilog="example: holdfast long-run --steps 20000",
    )
    parser.add_argument("--steps", type=int, default=200_000, help="of the run whose memory counts")
    parser.add_argument("--batch_size", type=int, default=4, help="in that run")
    parser.add_argument("--timed_steps", type=int, default=6_000, help="of 64 images, timed before")
    return parser


def main(argv: list[str]) -> int:
    """Print the share of time, the sizes and the memory."""
    args = parser().parse_args(argv)
    if args.steps < SETTLED:
        parser().error(f"--steps: give at least {SETTLED}")
    with tempfile.TemporaryDirectory() as name:
        folder, images = Path(name), 64 * args.timed_steps
        gauge, profiler = observed_run(args.timed_steps, 64, folder, "simple")
        curves = list(folder.glob("events*"))
        share = saving_seconds(profiler) / gauge.seconds
        print(f"recording and saving: {share:.2%} of {gauge.seconds:.0f} s")
        print(f"record: {megabytes_per_million([folder / ROWS], images):.1f} MB per million images")
        print(f"curves: {megabytes_per_million(curves, images):.2f} MB per million images")
    with tempfile.TemporaryDirectory() as name:
        gauge, _ = observed_run(args.steps, args.batch_size, Path(name))
        print(
            f"peak memory: {gauge.settled:.0f} MiB after {SETTLED:,} steps, {gauge.end:.0f} MiB after "
            f"{args.steps:,}, x {gauge.end / gauge.settled:.3f}"
        )
    return 0
