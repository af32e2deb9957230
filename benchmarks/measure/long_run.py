"""`holdfast long-run`: measure memory growth, record size and checkpoint cost in a long run."""

import re
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.profilers import SimpleProfiler

from ...callbacks import AccuracyReset, LabelBudget, RiskMonitor, SoftmaxScore, Watch
from ...command_parser import Parser
from ...methods import Tent
from ...run_folder import ROWS
from ..run import one_run as test

SETTLED = 2_000  # steps after which memory should have stopped growing
OWN = re.compile(r"\[Callback\](RunRecord|StreamCheckpoint)\b")


class Gauge(Callback):
    """Records the run's seconds, and its peak resident memory in MiB after SETTLED steps and at the end."""

    def on_test_start(self, *_: Any) -> None:
        self.begin = time.perf_counter()

    def on_test_batch_end(self, trainer: Trainer, method: Any, *_: Any) -> None:
        if method.step_count == SETTLED:
            self.settled = peak_memory()

    def on_test_end(self, *_: Any) -> None:
        self.end = peak_memory()
        self.seconds = time.perf_counter() - self.begin


def peak_memory() -> float:
    """The peak resident memory of this process so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def observed_run(
    steps: int, batch_size: int, folder: Path, profiler: str | None = None
) -> tuple[Gauge, Any]:
    """Run RDumb on the embedded stream by `holdfast test`; also returns the Trainer's profiler."""
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


def watched_loop(images: int, batch_size: int = 64) -> tuple[float, float]:
    """Peak memory in MiB of a `Watch` loop with monitors, after SETTLED steps and after `images` images.

    The network is tiny, so that any growth is visible.
    """
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.BatchNorm2d(4),
        torch.nn.Flatten(),
        torch.nn.Linear(144, 10),
    )
    score = SoftmaxScore()
    watch = Watch(
        Tent(net), [score], AccuracyReset(score), [RiskMonitor(), RiskMonitor(rule="running")]
    )
    budget, settled = LabelBudget(), 0.0
    batches = torch.rand(8, batch_size, 3, 8, 8)
    for step in range(-(-images // batch_size)):
        logits = watch.step(batches[step % len(batches)])
        budget.note(budget.choose(logits, step) % 2 == 0)
        if step == SETTLED:
            settled = peak_memory()
    return settled, peak_memory()


def saving_seconds(profiler: SimpleProfiler) -> float:
    """The seconds spent on recording and saving."""
    spent = profiler.recorded_durations.items()
    return sum(sum(times) for name, times in spent if OWN.search(name))


def megabytes_per_million(paths: list[Path], images: int) -> float:
    """The size of the files after `images` images, in MB per million images."""
    return sum(path.stat().st_size for path in paths) / images


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("long-run", __doc__, "--steps 20000")
    parser.add(
        "--steps", type=int, default=200_000, help="steps of the run for memory (default: 200,000)"
    )
    parser.add("--batch_size", type=int, default=4, help="batch size of that run (default: 4)")
    parser.add(
        "--watch",
        type=int,
        metavar="IMAGES",
        help="measure only the memory of a plain loop with Watch, estimators and monitors",
    )
    parser.add(
        "--timed_steps",
        type=int,
        default=6_000,
        help="steps of 64 images for times (default: 6,000)",
    )
    return parser


def main(argv: list[str]) -> int:
    """Print the share of time, the file sizes and the memory."""
    args = parser().parse_args(argv)
    if args.watch is not None:
        settled, end = watched_loop(max(args.watch, 64 * SETTLED + 64))
        print(
            f"peak memory of Watch with monitors: {settled:.0f} MiB after {64 * SETTLED:,} images, "
            f"{end:.0f} MiB after {args.watch:,}, x {end / settled:.3f}"
        )
        return 0
    if args.steps < SETTLED:
        parser().error(f"--steps must be at least {SETTLED}, not {args.steps}")
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
