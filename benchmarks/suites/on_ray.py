"""Run cells as tasks of an existing or local Ray cluster, with one process per run."""

import math
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
from .attempt import STOPPING, Outcome, attempt, error_line, record_failure
from .cell import Cell
from .cell_workers import redirect_output

try:
    import ray
except ImportError:
    raise HoldfastError(
        "--backend ray needs the package ray. Run: pip install 'ray>=2.40', or omit the option."
    ) from None

POLL, GRACE = 0.1, 2.0  # seconds
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
        gpus = float("GPU" in resources) if gpus is None else gpus
        self.jobs, self._wanted = jobs, {"CPU": cpus, "GPU": gpus}
        for name, wanted in self._wanted.items():
            if wanted > resources.get(name, 0):
                raise HoldfastError(
                    f"Each run requests {wanted:g} {name}, but the cluster has "
                    f"{resources.get(name, 0):g}. Pass a smaller --{name.lower()}s."
                )
        # A process ends after one run and frees its GPU; `Schedule` handles retries.
        once = ray.remote(num_cpus=cpus, num_gpus=gpus, max_calls=1, max_retries=0)
        self._task = once(attempt_there)
        self._running: dict[Any, Cell] = {}

    def free(self) -> bool:
        resources = ray.cluster_resources()
        fit = (resources.get(name, 0) // n for name, n in self._wanted.items() if n)
        return len(self._running) < (self.jobs or min(fit, default=1))

    def start(self, cell: Cell) -> None:
        there = cell._replace(folder=cell.folder.absolute())
        environment = {name: os.environ[name] for name in (ALLOWED,) if name in os.environ}
        self._running[self._task.remote(there, os.getcwd(), environment)] = cell

    def wait(self, seconds: float) -> list[Outcome]:
        return [self._outcome(task, self._running.pop(task)) for task in self._ended(1, seconds)]

    def _ended(self, count: int, seconds: float = math.inf) -> list[Any]:
        """The tasks that have ended; waits until `count` of them have, or `seconds` have passed."""
        # Time passes in `sleep`: `ray.wait` loses a signal that arrives as the cluster dies.
        tasks, until = list(self._running), time.monotonic() + seconds
        while True:
            ended = ray.wait(tasks, num_returns=len(tasks), timeout=0)[0] if tasks else []
            if len(ended) >= count or time.monotonic() >= until:
                return ended
            time.sleep(POLL)

    def _outcome(self, task: Any, cell: Cell) -> Outcome:
        try:
            return ray.get(task)._replace(cell=cell)
        except ray.exceptions.RayTaskError as error:  # `attempt` returns our own errors as outcomes
            return record_failure(cell, f"Ray cannot run it: {error_line(error.cause)}", str(error))
        except ray.exceptions.LocalRayletDiedError:
            time.sleep(GRACE)  # a signal to all processes may reach this one last
            raise HoldfastError(
                "Ray has stopped on this machine and ended the runs. Rerun the same command to continue."
            ) from None
        except ray.exceptions.RayError as error:
            return Outcome(cell, "died", error_line(error))

    def stop(self) -> None:
        if not self._running:
            return
        print(STOPPING, flush=True)
        for task in self._running:
            ray.cancel(task)  # raises KeyboardInterrupt in its process, like Ctrl-C
        self._ended(len(self._running))


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


def attempt_there(cell: Cell, folder: str, environment: dict[str, str]) -> Outcome:
    """Call `attempt` in a process of the cluster, in the folder that relative paths start from."""
    if not (cell.folder / CELL).exists():
        return Outcome(cell, "failed", f"{cell.folder} is not shared with {socket.gethostname()}")
    if Path(folder).is_dir():
        os.chdir(folder)
    os.environ.update(environment)
    search_current_folder()  # if the user's own modules are allowed
    if hasattr(signal, "pthread_sigmask"):  # the cluster blocks signals that a run needs
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    redirect_output(cell)
    return attempt(cell)
