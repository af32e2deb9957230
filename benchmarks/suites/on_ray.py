"""Runs cells as tasks of a Ray cluster, or of a local one; one process per run."""

import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ...class_paths import ALLOWED, search_current_folder
from ...endings import held
from ...run_folder import CELL
from ..run.common_options import CACHE
from .attempt import STOPPING, Outcome, attempt, error_line, record_failure
from .cell import Cell
from .cell_workers import redirect_output

try:
    import ray
except ImportError:
    raise HoldfastError(
        "--backend ray needs the package ray: pip install 'ray>=2.40', or leave the option out."
    ) from None

STORE = 100 << 20  # bytes of shared memory of a new cluster; runs communicate through files


class RayExecutor:
    """Tasks of the cluster that Ray finds (RAY_ADDRESS, or the last one started here), or of a new one.

    Results must lie on a folder that all machines share.

    Args:
        jobs: runs handed to Ray at once, which make a cluster that can grow do so; None: as many as its
            cores and GPUs suffice for.
        cpus: cores for each run.
        gpus: GPUs for each run, a fraction if several may share one; None: 1 if the cluster has any.
    """

    def __init__(self, jobs: int | None = None, cpus: float = 1, gpus: float | None = None) -> None:
        if not ray.is_initialized():
            start()
        resources = ray.cluster_resources()
        gpus = float("GPU" in resources) if gpus is None else gpus
        self.jobs, self._wanted = jobs, {"CPU": cpus, "GPU": gpus}
        for name, wanted in self._wanted.items():
            if wanted > resources.get(name, 0):
                raise HoldfastError(
                    f"a run asks for {wanted:g} {name} and the cluster has {resources.get(name, 0):g}: "
                    f"give a smaller --{name.lower()}s."
                )
        # A process serves one run, then ends and frees its GPU; retries are the schedule's business.
        once = ray.remote(num_cpus=cpus, num_gpus=gpus, max_calls=1, max_retries=0)
        self._task = once(attempt_there)
        self._running: dict[Any, Cell] = {}

    def free(self) -> bool:
        resources = ray.cluster_resources()
        fit = (resources.get(name, 0) // n for name, n in self._wanted.items() if n)
        return len(self._running) < (self.jobs or min(fit, default=1))

    def start(self, cell: Cell) -> None:
        there = cell._replace(folder=cell.folder.absolute())
        environment = {name: os.environ[name] for name in (ALLOWED, CACHE) if name in os.environ}
        self._running[self._task.remote(there, os.getcwd(), environment)] = cell

    def wait(self, seconds: float) -> list[Outcome]:
        if not self._running:
            time.sleep(seconds)
            return []
        ended, _ = ray.wait(list(self._running), num_returns=1, timeout=seconds)
        return [self._outcome(task, self._running.pop(task)) for task in ended]

    def _outcome(self, task: Any, cell: Cell) -> Outcome:
        try:
            return ray.get(task)._replace(cell=cell)
        except ray.exceptions.RayTaskError as error:  # of our own errors `attempt` makes outcomes
            return record_failure(cell, f"Ray cannot run it: {error_line(error.cause)}", str(error))
        except ray.exceptions.LocalRayletDiedError:
            raise HoldfastError(
                "Ray has stopped on this machine and ended the runs: the same command goes on."
            ) from None
        except ray.exceptions.RayError as error:
            return Outcome(cell, "died", error_line(error))

    def stop(self) -> None:
        if not self._running:
            return
        print(STOPPING, flush=True)
        for task in self._running:
            ray.cancel(task)  # as Ctrl-C would in its process
        ray.wait(list(self._running), num_returns=len(self._running))


def start() -> None:
    """Join the cluster there is, or make one of this machine."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
    try:
        ray.init(address="auto", **quiet)
    except ConnectionError:
        # Else the cluster ends at once, and the runs with it, where SIGTERM reaches all processes of a
        # job. It ends with this process.
        with held(signal.SIGTERM):
            ray.init(address="local", include_dashboard=False, object_store_memory=STORE, **quiet)


def attempt_there(cell: Cell, folder: str, environment: dict[str, str]) -> Outcome:
    """`attempt` in a process of the cluster, in the folder that relative paths begin from."""
    if not (cell.folder / CELL).exists():
        return Outcome(cell, "failed", f"{cell.folder} is not shared with {socket.gethostname()}")
    if Path(folder).is_dir():
        os.chdir(folder)
    os.environ.update(environment)
    search_current_folder()  # if modules of the user's own were allowed
    if hasattr(signal, "pthread_sigmask"):  # a run gets signals that the cluster blocks
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    redirect_output(cell)
    return attempt(cell)
