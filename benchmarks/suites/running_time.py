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
    from ...datamodules import Stream
    from ...methods import TTAMethod

_Result = TypeVar("_Result")
_BATCHES = 4  # of a stream that are made, as its corruptions differ; the first of them is slower


def foretold(cells: Sequence[Cell], jobs: int) -> str:
    """How long the cells will take, from the first one of each method, network and data.

    Raises HoldfastError if a network or data cannot be loaded, as it would in each of their runs.
    """
    from ..test import silence_lightning  # deferred: imports torch

    silence_lightning()
    groups = grouped(cells, _network_and_data).values()
    return duration(sum(_seconds(alike, jobs) for alike in groups))


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


def _seconds(cells: Sequence[Cell], jobs: int) -> float:
    """The time of cells of one network and data, whose batches are made once, `jobs` at once."""
    from ..test import fixed_threads, parts  # deferred: imports torch

    where, total, stream = device(), 0.0, None
    for same in grouped(cells, lambda cell: cell.names["method"]).values():
        config = same[0].config
        threads = config.get("threads") or max(1, cores() // jobs)
        method, data = parts(config)
        method.to(where)
        if stream is None:
            stream = data
            stream.adopt(method.backbone)
            make, made = _made(stream, where)
        with fixed_threads(threads):
            method.fit([_shown(stream, made[0], where)])
            _step(method, stream, made[0], where)  # the first one is slower
            # Of a batch that the method has seen, ETA would select nothing.
            step, _ = _timed(_step, method, stream, made[1], where)
        batches = -(-(stream.images or stream.batch_size) // stream.batch_size)
        in_use = threads if where.type == "cpu" else 0
        pace = seconds_a_batch(step, make, stream.num_workers, in_use, jobs)
        total += len(same) * batches * pace
    return total


def _made(stream: "Stream", where: "torch.device") -> tuple[float, Sequence["Batch"]]:
    """The seconds in which a process makes one of the stream's batches, and some of these."""
    import torch  # deferred: slow to import

    from ..test import fixed_threads

    images, size = stream.images or stream.batch_size, stream.batch_size
    batches = -(-images // size)
    stream.segment(stream.segment_at(images - 1))  # CCC finds all its walks, once
    starts = [batches * number // _BATCHES * size for number in range(_BATCHES)]
    indices = [torch.arange(start, min(start + size, images)) for start in starts]
    with fixed_threads(1):  # as in the processes that make batches
        times, made = zip(*(_timed(stream.maker(where), i) for i in indices), strict=True)
    return sum(times[1:]) / len(times[1:]), made


def _shown(stream: "Stream", batch: "Batch", where: "torch.device") -> "torch.Tensor":
    """The images of a batch as the method sees them."""
    return stream.finished(batch, where).images.to(where)


def _step(method: "TTAMethod", stream: "Stream", batch: "Batch", where: "torch.device") -> None:
    method.adapt(_shown(stream, batch, where)).cpu()


def device() -> "torch.device":
    """Where a Trainer runs by default: the accelerator, if there is one, else the processor."""
    import torch  # deferred: slow to import

    return torch.accelerator.current_accelerator(True) or torch.device("cpu")


def _timed(work: Callable[..., _Result], *arguments: Any) -> tuple[float, _Result]:
    """The seconds that a call takes, and what it returns."""
    begun = time.perf_counter()
    result = work(*arguments)
    return time.perf_counter() - begun, result


def _network_and_data(cell: Cell) -> str:
    """What of a run may have to be downloaded, or be missing."""
    data = cell.config["data"]
    model = cell.config["model"].get("init_args", {}).get("backbone")
    varying = {"seed", "difficulty", "speed", "order", "severity"}
    arguments = {k: v for k, v in data.get("init_args", {}).items() if k not in varying}
    return json.dumps((model, data.get("class_path"), arguments), default=str, sort_keys=True)
