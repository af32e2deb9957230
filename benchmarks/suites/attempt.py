"""Run a cell: acquire the lease on its folder, start or resume it, and record the outcome."""

import contextlib
import gc
import traceback
from copy import deepcopy
from typing import Any, NamedTuple, Protocol

from ... import HoldfastError, lease
from ...files import whole_file
from ...run_folder import CHECKSUMS, ERROR, ROWS
from .cell import Cell, check_same


class Outcome(NamedTuple):
    """The outcome of a cell: finished, failed, elsewhere (another process runs it), or died."""

    cell: Cell
    state: str
    note: str = ""


def attempt(cell: Cell, worker: int = 0) -> Outcome:
    """Start or resume a cell, unless another process runs it; errors are recorded.

    Args:
        cell: what to run.
        worker: the index of this process, which selects the GPU if there are several.
    """
    try:
        check_same(cell)
        with lease.Lease(cell.folder) as held:
            # Another process may have finished it since the list was made.
            return Outcome(cell, "finished") if cell.finished else run_cell(cell, held, worker)
    except (lease.Busy, lease.LeaseLost):
        return Outcome(cell, "elsewhere", lease.owner(cell.folder) or "another process")
    except HoldfastError as error:
        return Outcome(cell, "failed", str(error))


def run_cell(cell: Cell, held: lease.Lease, worker: int) -> Outcome:
    """Start or resume a cell in a folder that this process has locked."""
    import torch  # deferred: torch is slow to import

    from ...callbacks.lease_guard import LeaseGuard
    from ...datamodules.loader import WorkerDied
    from ..run.one_run import run

    (cell.folder / ERROR).unlink(missing_ok=True)
    if held.took_over:
        lease.replace_by_copy(cell.folder / ROWS, cell.folder / CHECKSUMS)
    always = {"out": str(cell.folder), "resume": True, "progress": False}
    try:
        held.check()
        config = choose_gpu(deepcopy(cell.config), worker, torch.cuda.device_count())
        run({**config, **always}, LeaseGuard(held.check))
    except lease.LeaseLost:
        raise
    except WorkerDied as error:
        return Outcome(cell, "died", str(error))
    except Exception as error:
        return record_failure(cell, error_line(error), traceback.format_exc())
    finally:
        gc.collect()
    return Outcome(cell, "finished")


def choose_gpu(config: dict[str, Any], worker: int, gpus: int) -> dict[str, Any]:
    """Assign a single-GPU run to one of several GPUs."""
    trainer = config.setdefault("trainer", {})
    on_gpu = trainer.get("accelerator", "auto") in ("auto", "cuda", "gpu")
    if on_gpu and gpus > 1 and trainer.get("devices", 1) == 1:
        trainer["devices"] = [worker % gpus]
    return config


def record_failure(cell: Cell, message: str, details: str = "") -> Outcome:
    """Write the reason for a failure to the cell's folder."""
    with (
        contextlib.suppress(OSError),  # such as a full disk
        whole_file(cell.folder / ERROR) as partial,
    ):
        partial.write_text(f"{message}\n\n{details}")
    return Outcome(cell, "failed", message)


def error_line(error: Exception) -> str:
    """An error's message, preceded by its type unless it is a HoldfastError."""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, HoldfastError) else f"{type(error).__name__}: {text}"


STOPPING = "stopping: runs save their state (press Ctrl-C again to end them immediately)"


class Executor(Protocol):
    """Runs cells in this process, in several processes of this machine, or on a cluster."""

    def free(self) -> bool:
        """Whether another cell can be started now."""

    def start(self, cell: Cell) -> None:
        """Start or resume a cell."""

    def wait(self, seconds: float) -> list[Outcome]:
        """The outcomes since the last call; waits at most `seconds` for one."""

    def stop(self) -> None:
        """Let running cells save their state, wait for them, and end all processes."""


class SerialExecutor:
    """Runs cells one after another in this process."""

    def __init__(self) -> None:
        self._ended: list[Outcome] = []

    def free(self) -> bool:
        return not self._ended

    def start(self, cell: Cell) -> None:
        self._ended.append(attempt(cell))

    def wait(self, seconds: float) -> list[Outcome]:
        ended, self._ended = self._ended, []
        return ended

    def stop(self) -> None:
        pass
