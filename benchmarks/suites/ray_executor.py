"""Run cells as tasks of an existing or local Ray cluster, with one process per run."""

import os
import signal
import socket
import time
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ...endings import held
from ...run_folder import CELL
from .cell import Cell
from .execution import STOPPING, Outcome, attempt, error_line, redirect_output

try:
    import ray
except ImportError:
    raise HoldfastError(
        "--backend ray needs the package ray. Run: pip install 'ray>=2.40', or omit the option."
    ) from None

GRACE = 2.0  # seconds
STORE = 100 << 20  # bytes of shared memory of a new cluster; runs communicate through files


class RayExecutor:
    """Runs cells on the cluster that Ray finds (RAY_ADDRESS, or the last one started here) or on a new one.

    Results must be in a folder that all machines share.

    Args:
        jobs: number of runs submitted to Ray at once, which lets an autoscaling cluster grow; None: as many
            as its cores and GPUs allow.
        cpus: cores per run.
        gpus: GPUs per run, a fraction to share one; None: 1 if the cluster has any.
    """

    def __init__(self, jobs: int | None = None, cpus: float = 1, gpus: float | None = None) -> None:
        if not ray.is_initialized():
            start()
        resources = ray.cluster_resources()
        wanted = {"CPU": cpus, "GPU": float("GPU" in resources) if gpus is None else gpus}
        for name, number in wanted.items():
            if number > resources.get(name, 0):
                raise HoldfastError(
                    f"Each run requests {number:g} {name}, but the cluster has "
                    f"{resources.get(name, 0):g}. Pass a smaller --{name.lower()}s."
                )
        fit = (int(resources.get(name, 0) // number) for name, number in wanted.items() if number)
        self.jobs = jobs or min(fit, default=1)
        # A process ends after one run and frees its GPU; `run_all` handles retries.
        once = ray.remote(num_cpus=cpus, num_gpus=wanted["GPU"], max_calls=1, max_retries=0)
        self._task = once(attempt_there)
        self._running: dict[Future[Outcome], Any] = {}

    def submit(self, cell: Cell) -> "Future[Outcome]":
        there = cell._replace(folder=cell.folder.absolute())
        task = self._task.remote(there, os.getcwd())
        future = task.future()
        self._running[future] = task
        return future

    def death(self, cell: Cell, error: BaseException) -> str | None:
        if isinstance(error, ray.exceptions.LocalRayletDiedError):
            time.sleep(GRACE)  # a signal to all processes may reach this one last
            raise HoldfastError(
                "Ray has stopped on this machine and ended the runs. Rerun the same command to continue."
            ) from None
        # `attempt` returns our own errors as outcomes.
        died = isinstance(error, ray.exceptions.RayError)
        return (
            error_line(error)
            if died and not isinstance(error, ray.exceptions.RayTaskError)
            else None
        )

    def stop(self) -> None:
        running = {future: task for future, task in self._running.items() if not future.done()}
        if not running:
            return
        print(STOPPING, flush=True)
        for task in running.values():
            ray.cancel(task)  # raises KeyboardInterrupt in its process, like Ctrl-C
        wait_for(running)


def start() -> None:
    """Connect to an existing cluster, or start one on this machine."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
    try:
        ray.init(address="auto", **quiet)
    except ConnectionError:
        # Where SIGTERM reaches all processes of a job, the cluster would end immediately, and the runs
        # with it. With SIGTERM blocked, the cluster ends together with this process.
        with held(signal.SIGTERM):
            ray.init(address="local", include_dashboard=False, object_store_memory=STORE, **quiet)


def attempt_there(cell: Cell, folder: str) -> Outcome:
    """Call `attempt` in a process of the cluster, in the folder that relative paths start from."""
    if not (cell.folder / CELL).exists():
        return Outcome(cell, "failed", f"{cell.folder} is not shared with {socket.gethostname()}")
    if Path(folder).is_dir():
        os.chdir(folder)
    if hasattr(signal, "pthread_sigmask"):  # the cluster blocks signals that a run needs
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    redirect_output(cell)
    return attempt(cell)
