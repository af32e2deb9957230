"""Measure the costs of a run on this machine in its first steps."""

import contextlib
import io
import tempfile
import time
import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from ...datamodules import Stream
from ...run_folder import CHECKSUMS, ROWS, read_rows
from ..run.one_run import fixed_threads, run

WARM = 5  # untypical first steps of a trial run
BATCHES = 9  # number of timed batches of a stream
MANY = 10**6  # number of images assumed for an endless stream


def run_costs(config: dict[str, Any], steps: int) -> dict[str, Any]:
    """The seconds and bytes of a run, per run (start, disk_start) and per batch, and its stream.

    Args:
        config: configuration of `holdfast test`.
        steps: number of steps in the trial run.
    """
    with tempfile.TemporaryDirectory() as folder:
        config = deepcopy(config)
        trainer = config.setdefault("trainer", {})
        trainer["limit_test_batches"] = min(trainer.get("limit_test_batches") or steps, steps)
        out, begin = Path(folder) / "run", time.perf_counter()
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            cli = run({**config, "out": str(out), "progress": False})
        whole = time.perf_counter() - begin
        rows = read_rows(out)
        ends = [0.0, *(row["seconds"] - row["waited"] for row in rows)]
        taken = [after - before for before, after in pairwise(ends)]
        written = sum((out / name).stat().st_size for name in (ROWS, CHECKSUMS))
        disk = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    # The mean rather than the median: rows round to milliseconds, and periodic steps cost more.
    step = fmean(taken[WARM:] or taken[1:] or taken)
    stream = cli.datamodule
    assert isinstance(stream, Stream)
    if stream.num_workers:  # receiving a batch from a worker takes time even if it is ready
        waits = sorted(b["waited"] - a["waited"] for a, b in pairwise(rows))
        step += fmean(waits[: len(waits) // 4] or [0.0])
    read, corrupt = batch_costs(stream)
    return {
        "start": whole - rows[-1]["seconds"] + max(0.0, sum(taken) - len(taken) * step),
        "step": step,
        "read": read,
        "corrupt": corrupt,
        "disk": written / len(rows),
        "disk_start": disk - written,
        "images": stream.images,
        "batch_size": stream.batch_size,
        "workers": stream.num_workers,
        "on_device": stream.on_device,
        "device": cli.trainer.strategy.root_device.type,
    }


def batch_costs(stream: Stream) -> tuple[float, float]:
    """Mean seconds on one core for reading (decoding, cropping) and corrupting a batch.

    The first use of a corruption loads its textures and tables, so each batch is generated twice and the
    second time counts.
    """
    reading, corrupting = [], []
    end = max((stream.images or MANY) - stream.batch_size, 0)
    with fixed_threads(1):
        for first in torch.linspace(0, end, BATCHES).long().tolist():
            index = torch.arange(first, min(first + stream.batch_size, stream.images or MANY))
            for _ in range(2):
                read, batch = timed(partial(stream.clean, index))
                corrupt, _ = timed(partial(stream.corrupted, batch))
            reading.append(read)
            corrupting.append(corrupt)
    return fmean(reading), fmean(corrupting)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result
