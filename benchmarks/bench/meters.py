"""Timing of jobs that take turns."""

import time
from collections.abc import Callable, Iterator, Mapping
from statistics import median

import torch
from torch.utils.benchmark import Timer, timer

Job = Callable[[], object]
Rows = Iterator[tuple[str, dict[str, float]]]  # names, and numbers by column


def times(
    jobs: Mapping[str, Job], device: torch.device, rounds: int, calls: int = 1
) -> dict[str, list[float]]:
    """Seconds per call of each job in each round; the jobs alternate, after one round to warm up.

    On a CPU it is processor time, which excludes other processes; elsewhere the time until all queued work
    is done.
    """
    clock = time.process_time if device.type == "cpu" else timer
    threads = torch.get_num_threads()
    timers = {
        name: Timer("job()", globals={"job": job}, timer=clock, num_threads=threads)
        for name, job in jobs.items()
    }
    turns = [
        {name: own.timeit(calls).mean for name, own in timers.items()} for _ in range(rounds + 1)
    ]
    return {name: [turn[name] for turn in turns[1:]] for name in jobs}


def seconds(jobs: Mapping[str, Job], device: torch.device, rounds: int) -> dict[str, float]:
    """The median over rounds of the seconds of each job."""
    return {name: median(own) for name, own in times(jobs, device, rounds).items()}
