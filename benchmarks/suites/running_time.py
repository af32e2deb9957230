"""How long runs will take, from short runs and the making of a few batches on this machine."""

import json
import time
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import HoldfastError
from ...files import without
from ...run_folder import held, last_images, read_rows
from ..results.runs import grouped
from ..results.text_table import duration
from .cell import Cell
from .execution import cores

if TYPE_CHECKING:
    import torch

_PLACES = 16  # of a stream at which a quarter of a batch is made: corruptions take different times
_STEPS = 6  # of a short run; the first two are slower
_NOT_OF_MAKING = "seed", "difficulty", "speed", "order", "severity"
_OF_A_STEP = "source", "batch_size"


def foretold(cells: Sequence[Cell], jobs: int) -> str:
    """How long the cells will take, `jobs` at once, from a short run of each method and what watches it.

    Raises HoldfastError if networks or data cannot be loaded, as it would in each of their runs.
    """
    from ..test import silence_lightning  # deferred: imports torch

    silence_lightning()
    total = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the runs repeat them
        alike = grouped(cells, lambda cell: (_network_and_data(cell), _step(cell)))
        making = _all_made({data: same[0] for (data, _), same in alike.items()})
        tried = {key: same[0] for (_, key), same in alike.items()}
        steps = {key: _steps(cell, jobs) for key, cell in tried.items()}
    for (data, key), same in alike.items():
        make, number, size, workers = making[data]
        start, step, threads = steps[key]
        pace = seconds_a_batch(step, make, workers, threads, jobs)
        left = sum(number - (last_images(cell.folder) or 0) // size for cell in same)
        total += len(same) * start / min(jobs, cores()) + left * pace
    return duration(total)


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


class _Batches(NamedTuple):
    """Seconds in which a process makes one of a run's batches; their number and size; the processes."""

    make: float
    number: int
    size: int
    workers: int


def _all_made(cells: Mapping[str, Cell]) -> dict[str, _Batches]:
    """The batches of cells by network and data; an error names all that are missing."""
    made, lacking = {}, []
    for key, cell in cells.items():
        try:
            made[key] = _made(cell)
        except HoldfastError as error:
            lacking.append(str(error))
    if lacking:
        raise HoldfastError(" ".join(dict.fromkeys(lacking)))
    return made


def _made(cell: Cell) -> _Batches:
    import torch  # deferred: slow to import

    from ..test import fixed_threads, parts

    method, stream = parts(cell.config)
    stream.adopt(method.backbone)
    size = stream.batch_size
    images = stream.images or size
    number = -(-images // size)
    if limit := _trainer(cell).get("limit_test_batches"):
        number = min(number, int(limit))
    last = min(number * size, images)
    stream.segment(stream.segment_at(last - 1))  # CCC finds all its walks, once
    make, times = stream.maker(_device(cell)), []
    with fixed_threads(1):  # as in the processes that make batches
        for place in (0, *range(_PLACES)):  # the first is slower
            start = place * last // _PLACES
            index = torch.arange(start, min(start + max(1, size // 4), last))
            begun = time.perf_counter()
            make(index)
            times.append((time.perf_counter() - begun) / len(index))
    return _Batches(size * fmean(times[1:]), number, size, stream.num_workers)


class _Steps(NamedTuple):
    """Seconds of a run before its second step, and of each later one with all that watches it.

    threads: number of cores that a step uses; 0 on a GPU.
    """

    start: float
    step: float
    threads: int


def _steps(cell: Cell, jobs: int) -> _Steps:
    """A run of a few steps; no time for one that fails, as the real one will say why."""
    from ..test import RunCLI, carry_out, parser_errors  # deferred: imports torch

    begun = time.perf_counter()
    threads = cell.config.get("threads") or max(1, cores() // jobs)
    in_use = threads if _device(cell).type == "cpu" else 0
    limit = min(_STEPS, _trainer(cell).get("limit_test_batches") or _STEPS)
    trainer = {**_trainer(cell), "limit_test_batches": limit}
    with TemporaryDirectory() as folder:
        out = Path(folder, "run")
        try:
            with parser_errors():
                more = {"out": str(out), "threads": threads, "progress": False}
                cli = RunCLI(deepcopy({**cell.config, **more, "trainer": trainer}))
            cli.datamodule.num_workers = 0  # so that a step has its cores to itself
            with held(out):
                carry_out(cli)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted before the first run") from None
        except Exception:
            return _Steps(0, 0, in_use)
        rows = read_rows(out)
    later = rows[-1]["seconds"] - rows[0]["seconds"]
    busy = [after - before for before, after in pairwise(r["seconds"] - r["waited"] for r in rows)]
    # A GPU may end its work later than the host, which does not wait for it in each step.
    steps = [max(host, row["update_ended"]) for host, row in zip(busy, rows[1:], strict=True)]
    step = fmean(steps[1:] or steps or [0])
    return _Steps(time.perf_counter() - begun - later, step, in_use)


def device(accelerator: str = "auto") -> "torch.device":
    """Where a Trainer runs: by default the accelerator, if there is one, else the processor."""
    import torch  # deferred: slow to import

    there = None if accelerator == "cpu" else torch.accelerator.current_accelerator(True)
    return there or torch.device("cpu")


def _device(cell: Cell) -> "torch.device":
    return device(_trainer(cell).get("accelerator", "auto"))


def _trainer(cell: Cell) -> dict[str, Any]:
    """The Trainer's arguments."""
    return cell.config.get("trainer") or {}


def _network_and_data(cell: Cell) -> str:
    """What decides how long a batch is made, and may have to be downloaded or be missing."""
    data = without(cell.config["data"], *_NOT_OF_MAKING)
    return json.dumps((_backbone(cell), data), default=str, sort_keys=True)


def _step(cell: Cell) -> str:
    """What decides how long a step takes."""
    rest = {k: v for k, v in cell.config.items() if k not in ("data", "model", "seed_everything")}
    images = [*cell.of_data(*_OF_A_STEP)]
    facts = cell.names["method"], _backbone(cell), images, without(rest, "seed")
    return json.dumps(facts, default=str, sort_keys=True)


def _backbone(cell: Cell) -> Any:
    return cell.config["model"].get("init_args", {}).get("backbone")
