"""Meters for the commands of this folder: seconds of work and peak memory."""

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from torch.utils.benchmark import Timer


class Clock:
    """Seconds of work: processor time on a CPU, which excludes other processes, otherwise real time."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __call__(self) -> float:
        if self.device.type == "cpu":
            return time.process_time()
        torch.cuda.synchronize(self.device)
        return time.perf_counter()


def seconds(
    work: Callable[[], Any], device: torch.device, least: float = 0, calls: int = 0
) -> float:
    """Seconds of one call: the mean over `calls` calls, or the median over `least` seconds of calls."""
    threads = torch.get_num_threads()
    timer = Timer("work()", globals={"work": work}, timer=Clock(device), num_threads=threads)
    found = timer.timeit(calls) if calls else timer.blocked_autorange(min_run_time=least)
    return found.median


def quiet_trainer(device: torch.device, callback: Callback) -> Trainer:
    """A quiet Trainer on the device."""
    quiet: dict[str, Any] = {"logger": False, "enable_progress_bar": False}
    kind = "gpu" if device.type == "cuda" else device.type
    devices: Any = [device.index or 0] if device.type == "cuda" else 1
    return Trainer(
        accelerator=kind, devices=devices, callbacks=[callback], enable_model_summary=False, **quiet
    )


class PeakMemory:
    """A context manager that measures the increase to the peak memory; None if unknown."""

    bytes: int | None = None
    status = Path("/proc/self/status")  # contains the peak of a process, which Linux can reset

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def resident(self, key: str) -> int:
        line = next(x for x in self.status.read_text().splitlines() if x.startswith(key))
        return 1024 * int(line.split()[1])

    def __enter__(self) -> "PeakMemory":
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            self.before = torch.cuda.memory_allocated(self.device)
        elif self.status.exists():
            getattr(ctypes.CDLL(None), "malloc_trim", int)(0)  # return unused memory
            Path("/proc/self/clear_refs").write_text("5")
            self.before = self.resident("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        if self.device.type == "cuda":
            self.bytes = torch.cuda.max_memory_allocated(self.device) - self.before
        elif self.status.exists():
            self.bytes = self.resident("VmHWM") - self.before
