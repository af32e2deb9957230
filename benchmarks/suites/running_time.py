"""How long runs will take, from the times of a few of their batches and steps on this machine."""

import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..results.runs import grouped
from ..results.text_table import duration
from .cell import Cell
from .execution import cores

if TYPE_CHECKING:
    import torch

    from ...batch import Batch

_Result = TypeVar("_Result")
_BATCHES = 4  # of a stream that are made, as its corruptions differ; the first of them is slower


def foretold(cells: Sequence[Cell], jobs: int) -> str:
    """How long the cells will take, from the first one of each method, network and data.

    Raises HoldfastError if a network or data cannot be loaded, as it would in each of their runs.
    """
    from ..test import silence_lightning  # deferred: imports torch

    silence_lightning()
    groups = grouped(cells, _parts_to_load).values()
    return duration(sum(len(same) * _seconds(same[0].config, jobs) for same in groups))


def seconds_a_batch(step: float, make: float, workers: int, threads: int, jobs: int) -> float:
    """Seconds in which `jobs` runs at once get through a batch, by the slowest of what they need.

    Args:
        step: seconds of a step.
        make: seconds in which one process makes a batch.
        workers: number of processes of a run that make batches beside its steps.
        threads: number of cores that a step uses; 0 on a GPU, which the runs share.
        jobs: number of runs at once.

    >>> seconds_a_batch(step=2, make=0.001, workers=1, threads=0, jobs=4)
    2.0
    """
    alone = max(step, make / workers) if workers else step + make
    on_processor = (step * threads + make) / cores()
    return float(max(alone / jobs, on_processor, 0 if threads else step))


def _seconds(config: dict[str, Any], jobs: int) -> float:
    """The part of the time of `jobs` runs at once that a run of this configuration takes."""
    # Deferred: they import torch.
    import torch

    from ..test import fixed_threads, parts

    threads = config.get("threads") or max(1, cores() // jobs)
    method, stream = parts(config)
    where = device()
    method.to(where)
    stream.adopt(method.backbone)
    images, size = stream.images or stream.batch_size, stream.batch_size
    batches, make = -(-images // size), stream.maker(where)
    stream.segment(stream.segment_at(images - 1))  # CCC finds all its walks, once

    def step(batch: "Batch") -> None:
        method.adapt(stream.finished(batch, where).images.to(where)).cpu()

    with fixed_threads(1):  # as in the processes that make batches
        starts = [batches * number // _BATCHES * size for number in range(_BATCHES)]
        indices = [torch.arange(start, min(start + size, images)) for start in starts]
        times, made = zip(*(_timed(make, index) for index in indices), strict=True)
    with fixed_threads(threads):
        method.fit([stream.finished(made[0], where).images.to(where)])
        step(made[0])  # the first one is slower
        # Of a batch that the method has seen, ETA would select nothing.
        seconds, _ = _timed(step, made[1])
    in_use = threads if where.type == "cpu" else 0
    making = sum(times[1:]) / len(times[1:])
    return batches * seconds_a_batch(seconds, making, stream.num_workers, in_use, jobs)


def device() -> "torch.device":
    """Where a Trainer runs by default: the accelerator, if there is one, else the processor."""
    import torch  # deferred: slow to import

    return torch.accelerator.current_accelerator(True) or torch.device("cpu")


def _timed(work: Callable[..., _Result], *arguments: Any) -> tuple[float, _Result]:
    """The seconds that a call takes, and what it returns."""
    begun = time.perf_counter()
    result = work(*arguments)
    return time.perf_counter() - begun, result


def _parts_to_load(cell: Cell) -> str:
    """The method, and what of a run may have to be downloaded, or be missing."""
    data = cell.config["data"]
    model = cell.config["model"].get("init_args", {}).get("backbone")
    varying = {"seed", "difficulty", "speed", "order", "severity"}
    arguments = {k: v for k, v in data.get("init_args", {}).items() if k not in varying}
    parts = cell.names["method"], model, data.get("class_path"), arguments
    return json.dumps(parts, default=str, sort_keys=True)
