"""Several devices: `sync`, one stream whose batches are divided; `streams`, a stream on each device."""

import os
import signal
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from threading import Event, Thread
from typing import Any

import torch
import torch.distributed as dist
from lightning.fabric.plugins.environments import LightningEnvironment
from lightning.fabric.utilities.distributed import _set_num_threads_if_needed
from lightning.pytorch import Trainer
from lightning.pytorch.strategies import (
    DDPStrategy,
    SingleDeviceStrategy,
    Strategy,
    StrategyRegistry,
)
from lightning.pytorch.strategies.launchers.subprocess_script import _SubprocessScriptLauncher
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from ... import HoldfastError
from ...endings import sigterm_as_ctrl_c
from .sync import join_batches

PARENT = "HOLDFAST_PARENT"  # in the environment of a process that another rank's has started
LOST = (
    "the process of another device has ended or cannot be reached ({}): see what it says above, then go on "
    "with --resume from the last checkpoint."
)
RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID")  # set by torchrun, by ourselves, by srun


@cache
def parent() -> int:
    """The id of the process of another rank that has started this one; 0 if none has.

    Removed from the environment, so that child processes do not inherit it.
    """
    return int(os.environ.pop(PARENT, 0))


class Launcher(_SubprocessScriptLauncher):
    """Starts this command once more for each further device, unless torchrun or srun has done
    so."""

    patience = 10.0  # seconds

    def launch(self, function: Callable, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("trainer", None)
        try:
            self.cluster_environment.validate_settings(self.num_processes, self.num_nodes)
        except ValueError as error:
            raise HoldfastError(str(error)) from None
        if not self.cluster_environment.creates_processes_externally:
            self._call_children_scripts()
        _set_num_threads_if_needed(self.num_processes)
        return function(*args, **kwargs)

    def _call_children_scripts(self) -> None:
        os.environ[PARENT] = str(os.getpid())
        super()._call_children_scripts()
        del os.environ[PARENT]


class SyncLauncher(Launcher):
    """Ends the run with one message if the process of another rank dies."""

    def launch(self, function: Callable, *args: Any, **kwargs: Any) -> Any:
        over = Event()
        Thread(target=self.watch, args=(over,), daemon=True).start()
        try:
            return super().launch(function, *args, **kwargs)
        except RuntimeError as error:
            if isinstance(error, dist.DistError) or "gloo/transport" in str(error):
                why = str(error).rpartition("] ")[2].partition(". ")[0]
                raise HoldfastError(LOST.format(why)) from error
            raise
        finally:
            over.set()

    def watch(self, over: Event) -> None:
        """End the process during a collective that would wait for a dead process forever, as with NCCL."""
        while not any(status := [process.poll() for process in self.procs]):
            if over.wait(1):
                return
        if not over.wait(self.patience):
            print("holdfast:", LOST.format(f"exit status {max(status, key=bool)}"), file=sys.stderr)
            os._exit(2)


class StreamsLauncher(Launcher):
    """Waits for all streams, even if some fail; `failed` counts those.

    If only this process was asked to stop, it stops the others.
    """

    failed = 0

    def launch(self, function: Callable, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().launch(function, *args, **kwargs)
        except KeyboardInterrupt:
            self.kill(signal.SIGTERM)
            raise
        finally:
            self.failed = self.wait()

    def wait(self) -> int:
        """The number of other processes that failed; a signal received meanwhile is passed on to them."""
        try:
            with sigterm_as_ctrl_c():
                return sum(process.wait() != 0 for process in self.procs)
        except KeyboardInterrupt:
            self.kill(signal.SIGTERM)
            for process in self.procs:
                process.wait()
            raise


class EndsWithParent(Strategy):
    """Ends this process during a run when its parent ends, even by SIGKILL."""

    over: Event | None = None

    def setup_environment(self) -> None:
        self.over = Event()
        if parent():
            Thread(target=self.watch, args=(self.over,), daemon=True).start()
        super().setup_environment()

    def watch(self, over: Event) -> None:
        while os.getppid() == parent():
            time.sleep(1)
        if not over.is_set():
            os.kill(os.getpid(), signal.SIGKILL)

    def teardown(self) -> None:
        super().teardown()
        if self.over:
            self.over.set()


class SyncStrategy(EndsWithParent, DDPStrategy):
    """One stream: each rank sees all of every batch, and computes a part of it.

    The result is that of a run on a single device, up to rounding: batch statistics, losses, filters
    and memories are those of the whole batch, and gradients are averaged. See `TTAMethod.logits`.
    """

    strategy_name = "sync"

    def _configure_launcher(self) -> None:
        assert self.cluster_environment is not None
        self._launcher = SyncLauncher(self.cluster_environment, self.num_processes, self.num_nodes)

    def setup(self, trainer: Trainer) -> None:
        # Lightning would deal out the samples of map-style data sets, and some of them twice.
        trainer._accelerator_connector.use_distributed_sampler = False
        super().setup(trainer)

    def process_dataloader(self, dataloader: Any) -> Any:
        if hasattr(dataloader, "divide"):  # a Stream's; any other makes whole batches on each rank
            join = partial(join_batches, device=self.root_device)
            dataloader.divide(self.global_rank, self.world_size, join)
        return dataloader


class StreamsStrategy(EndsWithParent, SingleDeviceStrategy):
    """An independent run on each device.

    Use `stream_number` to tell them apart: add it to the seeds of stream and method, and write to separate
    folders, as `holdfast test` does.
    """

    strategy_name = "streams"
    cluster_environment: Any = None
    parallel_devices: Any = None
    num_nodes = 1

    @property
    def root_device(self) -> torch.device:
        return self.parallel_devices[self.cluster_environment.local_rank()]

    def _configure_launcher(self) -> None:
        environment, devices = self.cluster_environment, len(self.parallel_devices)
        if self.num_nodes > 1 and isinstance(environment, LightningEnvironment):
            raise HoldfastError(
                "Streams on several nodes must be started by srun, by torchrun or one by one."
            )
        self._launcher = StreamsLauncher(environment, devices, self.num_nodes)
        rank_zero_only.rank = 0  # type: ignore[attr-defined]


def stream_number() -> int:
    """Which of several streams this process runs, from the environment; 0 where there is only one."""
    return next((int(os.environ[name]) for name in RANKS if name in os.environ), 0)


# So that Trainer(strategy="sync") knows them; importing this module has no other effect.
for kind in (SyncStrategy, StreamsStrategy):
    StrategyRegistry.register(kind.strategy_name, kind, kind.__doc__, override=True)
