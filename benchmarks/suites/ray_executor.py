"""Run cells as tasks of an existing or local Ray cluster, with one process per run."""

import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ...endings import delayed
from ...run_folder import CELL
from .cell import Cell
from .execution import STOPPING, Outcome, attempt, redirect_output

try:
    import ray
except ImportError:
    raise HoldfastError(
        "--backend ray needs the package ray. Run: pip install 'ray>=2.40', or omit the option."
    ) from None

GRACE = 2.0  # seconds
STORE = 100 << 20  # bytes of shared memory of a new cluster; runs communicate through files


class RayTasks:
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
        self._attempt = once(attempt_there)
        self._running: list[Any] = []
        self._stopped = False

    def __call__(self, cell: Cell) -> Outcome:
        task = self._attempt.remote(cell._replace(folder=cell.folder.absolute()), os.getcwd())
        self._running.append(task)
        try:
            return ray.get(task)._replace(cell=cell)
        except ray.exceptions.LocalRayletDiedError:
            time.sleep(GRACE)  # a signal to all processes may reach the suite's last
            raise HoldfastError(
                "Ray has stopped on this machine and ended the runs. Rerun the same command to continue."
            ) from None
        except ray.exceptions.RayError as error:
            text = " ".join(str(error).split())[:300]
            state = "stopped" if self._stopped else "died"
            return Outcome(cell, state, f"{type(error).__name__}: {text}")
        finally:
            self._running.remove(task)

    def stop(self, force: bool = False) -> None:
        self._stopped = True
        if self._running and not force:
            print(STOPPING, flush=True)
        for task in [*self._running]:
            ray.cancel(task, force=force)  # raises KeyboardInterrupt in its process, like Ctrl-C

    def kill(self) -> None:
        self.stop(force=True)


def start() -> None:
    """Connect to an existing cluster, or start one on this machine."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning"}
    try:
        ray.init(address="auto", **quiet)
    except ConnectionError:
        # Where SIGTERM reaches all processes of a job, the cluster would end immediately, and the runs
        # with it. With SIGTERM blocked, the cluster ends together with this process.
        with delayed(signal.SIGTERM):
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
