"""`holdfast gpu-check`: check and time this machine's GPU in under ten minutes; prints a table."""

import argparse
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch

from ... import HoldfastError
from ...callbacks import RunRecord
from ...command_parser import Parser
from ...files import write_json
from ...methods import TTAMethod
from ...methods.backbones.load import find_network
from ...run_folder import read_rows
from ..results.text_table import aligned
from ..run.one_run import silence_lightning
from .meters import quiet_trainer, seconds
from .step_cost import WORKLOADS, Repeated
from .throughput import CCC as CORRUPTIONS
from .throughput import pair, sources

FULL = 7_500_000  # number of images in CCC
TOLERANCE = 1e-3  # for logits after one float32 step, relative to the largest logit
CODE = "import sys; from holdfast.benchmarks.cli import main; sys.exit(main(sys.argv[1:]))"


class Row(NamedTuple):
    """A row of the table; `value` is None if it could not be measured, for the reason in `note`."""

    part: str
    what: str
    value: float | None
    unit: str
    note: str = ""


class Check:
    """The parts of the check, each of which yields rows; the parts share the time limit."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.device, self.args = torch.device(args.device), args
        self.small = self.device.type == "cpu"
        self.images = torch.rand(args.batch, 3, args.size, args.size).to(self.device)
        self.step = 1.0  # seconds of the plain step, set when measured

    def method(self, name: str = "RDumb", device: torch.device | None = None) -> TTAMethod:
        torch.manual_seed(0)
        network = find_network(self.args.backbone, self.args.size)
        method = WORKLOADS[name](network).to(device or self.device)
        method.fit([self.images.to(method.device)])
        return method

    def seconds(self, work: Callable[[], Any]) -> float:
        work()
        return seconds(work, self.device, least=0.01 if self.small else 2)

    def throughput(self) -> Iterator[Row]:
        """The throughput of CCC's corruption pairs on the device and on one core."""
        names = CORRUPTIONS[:2] if self.small else CORRUPTIONS
        photographs = sources(4 if self.small else self.args.batch, 375, 500)
        threads = torch.get_num_threads()
        for place, some in (("one core", photographs[:8]), (str(self.device), photographs)):
            torch.set_num_threads(1 if place == "one core" else threads)
            some, total = some.to("cpu" if place == "one core" else self.device), 0.0
            for a, b in zip(names, names[1:] + names[:1], strict=True):
                total += self.seconds(lambda a=a, b=b, x=some: pair(x, a, b, 3, self.args.size))  # type: ignore[misc]
            yield Row("pairs", place, len(names) * len(some) / total, "images/s")
        torch.set_num_threads(threads)

    def steps(self) -> Iterator[Row]:
        """The time of RDumb's step with several speed-ups, relative to eager contiguous float32."""
        bf16, last = torch.bfloat16, torch.channels_last
        inductor: dict[str, Any] = {"backend": "eager"} if self.small else {}
        graphs = {**inductor} if self.small else {"mode": "reduce-overhead"}
        variants: dict[str, tuple[Any, Any, dict[str, Any] | None]] = {
            "float32": (None, None, None),
            "channels_last": (None, last, None),
            "bf16": (bf16, None, None),
            "bf16, channels_last": (bf16, last, None),
            "bf16, channels_last, compile": (bf16, last, inductor),
            "bf16, channels_last, CUDA graphs": (bf16, last, graphs),
        }
        for name, (dtype, layout, options) in variants.items():
            method, images = self.method(), self.images
            if layout is not None:
                method.backbone.to(memory_format=layout)
                images = images.to(memory_format=layout)
            if options is not None:
                method.backbone.compile(**options)
            low = nullcontext() if dtype is None else torch.autocast(self.device.type, dtype)
            try:
                with low:
                    cost = self.seconds(lambda m=method, x=images: m.adapt(x))  # type: ignore[misc]
            except Exception as error:  # a compiler may fail in any way; the failure is the result
                yield Row("step", name, None, "ms", f"{type(error).__name__} here")
                continue
            self.step = cost if name == "float32" else self.step
            yield Row("step", name, 1000 * cost, "ms", f"{self.step / cost:.2f} times as fast")

    def waits(self) -> Iterator[Row]:
        """The operations in a step for which the host waits, as reported by CUDA."""
        if self.small:
            yield Row("waits", "of a step", None, "", "reported only by CUDA")
            return
        for name in WORKLOADS:
            method = self.method(name)
            method.adapt(self.images)
            torch.cuda.set_sync_debug_mode("warn")
            try:
                with warnings.catch_warnings(record=True) as found:
                    warnings.simplefilter("always")
                    method.adapt(self.images)
            finally:
                torch.cuda.set_sync_debug_mode("default")
            count = sum("synchroniz" in str(warning.message) for warning in found)
            yield Row("waits", name, count, "a step")

    def run(self) -> Iterator[Row]:
        """A recorded run over batches in memory until the time limit, extrapolated to CCC."""
        batch = self.args.batch
        count = max(
            2, min(self.args.images, int(self.args.run_seconds / self.step) * batch) // batch
        )
        with TemporaryDirectory() as folder:
            trainer = quiet_trainer(self.device, RunRecord(folder))
            data, start = Repeated(self.images.cpu(), count), time.perf_counter()
            trainer.test(self.method(), datamodule=data, verbose=False)
            wall, rows = time.perf_counter() - start, len(read_rows(Path(folder)))
        yield Row("run", f"{rows * batch:,} images", rows * batch / wall, "images/s", "RDumb")
        yield Row(
            "run", f"{FULL:,} images", FULL * wall / (rows * batch) / 60, "minutes", "projected"
        )

    def equality(self) -> Iterator[Row]:
        """Logits before and after one step compared with the CPU's, in float32 without TF32."""
        for name in ("Source", "Tent", "RDumb"):
            here, there = self.method(name, torch.device("cpu")), self.method(name)
            apart, images = 0.0, self.images.cpu()
            with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
                for _ in range(2):
                    a, b = here.adapt(images), there.adapt(self.images).cpu()
                    apart = max(apart, float((a - b).abs().max() / a.abs().max()))
            note = "equal" if apart <= TOLERANCE else f"NOT within {TOLERANCE:g}"
            yield Row("equality", name, apart, "of the largest logit", note)

    def sync(self) -> Iterator[Row]:
        """A small run on one device compared with the same run divided over two."""
        if not self.small and torch.cuda.device_count() < 2:
            yield Row("sync", "two devices", None, "", "there is one device")
            return
        found = [[float(row["loss"]) for row in self.recorded(count)] for count in (1, 2)]
        apart = max(abs(a - b) / abs(a) for a, b in zip(*found, strict=True))
        note = "equal" if apart <= TOLERANCE else f"NOT within {TOLERANCE:g}"
        yield Row("sync", "loss on two devices", apart, "of one device's", note)

    def recorded(self, devices: int) -> list[dict[str, Any]]:
        """The rows of a run of Tent on `devices` devices."""
        kind = "cpu" if self.small else "cuda"
        words = ["test", "--model", "Tent", "--model.backbone", "glyphs", "--data", "CCC"]
        words += ["--data.source", "Glyphs", "--data.images", "640", "--data.num_workers", "0"]
        words += ["--trainer.accelerator", kind, "--trainer.devices", str(devices)]
        words += ["--trainer.strategy", "sync"] if devices > 1 else []
        with TemporaryDirectory() as folder:
            command = [sys.executable, "-c", CODE, *words, "--out", f"{folder}/run"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=200)
            if done.returncode:
                raise HoldfastError(f"{' '.join(words)} failed: {done.stderr[-500:]}")
            return read_rows(Path(folder) / "run")


PARTS = ("throughput", "steps", "waits", "run", "equality", "sync")


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("gpu-check", __doc__, "--json gpu.json")
    parser.add("--device", default="cuda", help="cpu runs a small test of the command itself")
    parser.add("--backbone", help="network (default: resnet50; glyphs on a CPU)")
    parser.add("--size", type=int, help="pixels per side (default: 224; 32 on a CPU)")
    parser.add("--batch", type=int, help="images per batch (default: 64; 8 on a CPU)")
    parser.add("--images", type=int, help="images in the run (default: 100000; 64 on a CPU)")
    parser.add(
        "--run-seconds", type=float, default=200, help="maximum seconds of the run (default: 200)"
    )
    parser.add("--parts", nargs="+", choices=PARTS, default=PARTS, help="parts (default: all)")
    parser.add("--json", type=Path, metavar="FILE", help="also write the table to this file")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Measure and print; returns 1 if a result differs from the CPU's by more than TOLERANCE."""
    args = parser().parse_args(argv)
    if torch.device(args.device).type != "cpu" and not torch.cuda.is_available():
        raise HoldfastError(
            f"--device {args.device} is unavailable: PyTorch finds no CUDA device. Use a machine with a "
            "GPU, or try the command with --device cpu."
        )
    small = torch.device(args.device).type == "cpu"
    defaults = {"backbone": "glyphs", "size": 32, "batch": 8, "images": 64} if small else {}
    full = {"backbone": "resnet50", "size": 224, "batch": 64, "images": 100_000}
    for name, value in (full | defaults).items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    silence_lightning()
    where = args.device if small else torch.cuda.get_device_name(args.device)
    setting = (
        f"{where}, {os.cpu_count()} cores, torch {torch.__version__}, {args.backbone}, batches of "
        f"{args.batch} images of {args.size} x {args.size}"
    )
    print(setting, flush=True)
    check, rows = Check(args), list[Row]()
    for part in (part for part in PARTS if part in args.parts):
        for row in getattr(check, part)():
            rows.append(row)
            print(f"  {row.part}: {row.what}", file=sys.stderr, flush=True)
    lines = [["part", "what", "value", "unit", "note"]]
    lines += [
        [r.part, r.what, "" if r.value is None else f"{r.value:.4g}", r.unit, r.note] for r in rows
    ]
    print(aligned(lines))
    if args.json is not None:
        write_json(args.json, {"setting": setting, "rows": [row._asdict() for row in rows]})
    return int(any(row.note.startswith("NOT") for row in rows))
