"""Meters of `holdfast bench`: the time of jobs that take turns, and the peak memory of one."""

import ctypes
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import torch
from torch.utils.benchmark import Timer, timer

Job = Callable[[], object]
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def clock(device: torch.device) -> Callable[[], float]:
    """Processor time on a CPU, which excludes other processes; otherwise time after all queued work."""
    return time.process_time if device.type == "cpu" else timer


def times(
    jobs: Mapping[str, Job], device: torch.device, rounds: int, calls: int = 1
) -> dict[str, list[float]]:
    """Seconds per call of each job in each round; the jobs alternate, after one round to warm up."""
    threads = torch.get_num_threads()
    timers = {
        name: Timer("job()", globals={"job": job}, timer=clock(device), num_threads=threads)
        for name, job in jobs.items()
    }
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(rounds + 1):
        for name, own in timers.items():
            seconds = own.timeit(calls).mean
            if turn:
                found[name].append(seconds)
    return found


def seconds(
    jobs: Mapping[str, Job], device: torch.device, rounds: int, calls: int = 1
) -> dict[str, float]:
    """The median over rounds of the seconds per call of each job."""
    return {name: median(own) for name, own in times(jobs, device, rounds, calls).items()}


def peak_memory(job: Job, device: torch.device) -> float:
    """The bytes that a job adds to the memory in use at its peak; NaN where nothing counts them."""
    if device.type != "cpu":
        torch.accelerator.reset_peak_memory_stats()
        before = torch.accelerator.memory_allocated()
        job()
        return torch.accelerator.max_memory_allocated() - before
    if not CLEAR.exists():  # only Linux can reset the peak of a process
        return float("nan")
    getattr(ctypes.CDLL(None), "malloc_trim", int)(0)  # return unused memory
    CLEAR.write_text("5")
    before = resident("VmRSS")
    job()
    return resident("VmHWM") - before


def resident(key: str) -> int:
    """A field of this process's status in bytes."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(key))
    return 1024 * int(line.split()[1])
