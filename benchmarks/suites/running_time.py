"""How long runs will take, from short runs and the making of a few batches on this machine."""

import json
import time
import warnings
from collections.abc import Sequence
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the runs repeat them
        making: dict[str, _Batches] = {}
        lacking: list[str] = []
        for key, same in grouped(cells, _network_and_data).items():
            try:
                making[key] = _making(same[0])
            except HoldfastError as error:
                lacking.append(str(error))
        if lacking:
            raise HoldfastError(" ".join(dict.fromkeys(lacking)))
        steps = {key: _steps(same[0], jobs) for key, same in grouped(cells, _step).items()}
    total = 0.0
    for cell in cells:
        make, number, size, workers = making[_network_and_data(cell)]
        start, step = steps[_step(cell)]
        left = number - (last_images(cell.folder) or 0) // size
        in_use = _threads(cell, jobs) if device(_accelerator(cell)).type == "cpu" else 0
        pace = seconds_a_batch(step, make, workers, in_use, jobs)
        total += start / min(jobs, cores()) + left * pace
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


def _making(cell: Cell) -> _Batches:
    import torch  # deferred: slow to import

    from ..test import fixed_threads, parts

    method, stream = parts(cell.config)
    stream.adopt(method.backbone)
    size = stream.batch_size
    images = stream.images or size
    number = -(-images // size)
    if limit := (cell.config.get("trainer") or {}).get("limit_test_batches"):
        number = min(number, int(limit))
    last = min(number * size, images)
    stream.segment(stream.segment_at(last - 1))  # CCC finds all its walks, once
    make, times = stream.maker(device(_accelerator(cell))), []
    with fixed_threads(1):  # as in the processes that make batches
        for place in (0, *range(_PLACES)):  # the first is slower
            start = place * last // _PLACES
            index = torch.arange(start, min(start + max(1, size // 4), last))
            begun = time.perf_counter()
            make(index)
            times.append((time.perf_counter() - begun) / len(index))
    return _Batches(size * fmean(times[1:]), number, size, stream.num_workers)


class _Steps(NamedTuple):
    """Seconds of a run before its second step, and of each later one with all that watches it."""

    start: float
    step: float


def _steps(cell: Cell, jobs: int) -> _Steps:
    """A run of a few steps; no time for one that fails, as the real one will say why."""
    from ..test import RunCLI, carry_out, parser_errors  # deferred: imports torch

    config, begun = deepcopy(cell.config), time.perf_counter()
    trainer = config["trainer"] = config.get("trainer") or {}
    trainer["limit_test_batches"] = min(_STEPS, trainer.get("limit_test_batches") or _STEPS)
    with TemporaryDirectory() as folder:
        out = Path(folder, "run")
        try:
            with parser_errors():
                more = {"out": str(out), "threads": _threads(cell, jobs), "progress": False}
                cli = RunCLI({**config, **more})
            cli.datamodule.num_workers = 0  # so that a step has its cores to itself
            with held(out):
                carry_out(cli)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted before the first run") from None
        except Exception:
            return _Steps(0, 0)
        rows = read_rows(out)
    later = rows[-1]["seconds"] - rows[0]["seconds"]
    busy = [after - before for before, after in pairwise(r["seconds"] - r["waited"] for r in rows)]
    # A GPU may end its work later than the host, which does not wait for it in each step.
    steps = [max(host, row["update_ended"]) for host, row in zip(busy, rows[1:], strict=True)]
    return _Steps(time.perf_counter() - begun - later, fmean(steps[1:] or steps or [0]))


def device(accelerator: str = "auto") -> "torch.device":
    """Where a Trainer runs: by default the accelerator, if there is one, else the processor."""
    import torch  # deferred: slow to import

    there = None if accelerator == "cpu" else torch.accelerator.current_accelerator(True)
    return there or torch.device("cpu")


def _accelerator(cell: Cell) -> str:
    return (cell.config.get("trainer") or {}).get("accelerator", "auto")


def _threads(cell: Cell, jobs: int) -> int:
    """The number of cores that a step on a processor uses."""
    return cell.config.get("threads") or max(1, cores() // jobs)


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
