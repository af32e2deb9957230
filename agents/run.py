"""Run an agent over a dataset, several samples at a time; a stopped run can be resumed."""

import contextlib
import multiprocessing
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from importlib.metadata import version
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from .. import HoldfastError
from .data import Dataset, Sample
from .episode import Agent, Budget, Episode, Stop
from .limits import Allowance
from .records import Call, Record, ResultFile, lines, settings_of
from .search.provider import ProviderError, SearchProvider
from .world import World

_GIVE_UP_AFTER = 10  # successive provider errors that indicate an outage
_Task = tuple[Sample, int]  # a sample and the number of its repeat


def run(
    dataset: Dataset,
    agent: Agent,
    provider: SearchProvider,
    out: str | Path,
    *,
    budget: Budget | None = None,
    workers: int = 1,
    repeats: int = 1,
    run_limit: Allowance | None = None,
    world: World | None = None,
    progress: Callable[[int, int, Record], None] | None = None,
) -> dict[str, int]:
    """Run every sample that is missing in `out`; returns the number of samples by status.

    If the process is killed, only the `workers` samples in progress are lost; the next call repeats
    provider errors and crashes.

    Args:
        out: the result file; created, or resumed.
        budget: the limits of a sample (default: CiteME's, and 12,000 characters per read).
        repeats: answers per sample.
        run_limit: limits of the run, including the costs already in `out` or in `world`.
        world: where the agent's model and `provider` record; on replay, the run's settings are the recorded
            ones, and no costs count.
        progress: called with (number, total, record) after every sample.

    Raises `HoldfastError` if `out` has other settings, `max(10, 2 * workers)` samples in a row end with
    provider errors, or a limit of the run is reached. Completed samples are kept.
    """
    budget, allowance = budget or Budget(), run_limit or Allowance()
    settings = settings_of(
        dataset, agent.describe(), provider.describe(), budget.describe(), repeats
    )
    settings["version"] = version("holdfast")
    if world:
        recorded = world.begin(settings)
        if world.is_replay:
            replay = {"world": world.path.name, "sha256": world.sha256}
            settings = {**recorded, "n": settings["n"], "repeats": repeats, "replay": replay}
            allowance = Allowance()

    def work(task: _Task) -> Record | None:
        if allowance.used_up():
            return None
        sample, repeat = task
        episode = Episode(sample, provider, budget, repeat=repeat, allowance=allowance)
        record = attempt(agent, episode)
        return world.timed(record) if world else record

    with ResultFile(out, settings) as file:
        for call in _paid_calls(file.path, world):
            allowance.spend(call)
        tasks = [(s, repeat) for repeat in range(repeats) for s in dataset.samples]
        todo = [(s, repeat) for s, repeat in tasks if (s.id, repeat) not in file.finished]
        unanswered = 0
        with contextlib.closing(_parallel(work, todo, workers)) as stream:
            for done, record in enumerate(filter(None, stream), start=1):
                file.append(record)
                if progress:
                    progress(done, len(todo), record)
                is_refused = record.status in ("provider_error", "refused")
                unanswered = unanswered + 1 if is_refused else 0
                if unanswered >= max(_GIVE_UP_AFTER, 2 * workers):
                    raise HoldfastError(
                        f"{unanswered} successive samples had no answer (the last: {record.detail}). Fix "
                        "the cause and rerun the same command to continue."
                    )
        left = sum((s.id, repeat) not in file.finished for s, repeat in todo)
        if left and (why := allowance.used_up()):
            raise HoldfastError(
                f"{why} spent: {len(file.finished)} samples are finished in {out}, {left} remain. Raise "
                "the limit and rerun the same command to continue."
            )
        return dict(Counter(record.status for record in file.records.values()))


def _paid_calls(path: Path, world: World | None) -> Iterator[Call]:
    """The calls that a run has paid for so far, each once: those of a world, or of a result file."""
    if world:
        for result in world.paid():
            unsaid: dict[str, Any] = {"prompt": [], "new_messages": [], "seconds": 0.0, "reply": ""}
            yield Call(kind="lm", step=0, **unsaid, **result)
        return
    for line in lines(path):
        # Those of samples that were rerun, too.
        yield from line.calls if isinstance(line, Record) else ()


def attempt(agent: Agent, episode: Episode) -> Record:
    """The agent's record of one sample; raises `HoldfastError` for errors that affect all samples."""
    try:
        agent.answer(episode)
    except Stop as stop:
        return episode.record(stop.status, str(stop))
    except ProviderError as error:
        return episode.record("provider_error", str(error))
    except HoldfastError:
        raise
    except Exception:
        # An unexpected error must not end the run; this sample is run again on resume.
        return episode.record("crash", traceback.format_exc())
    if episode.selection is None:
        return episode.record("no_selection")
    return episode.record("selected" if episode.selection.id else "guessed")


def _parallel(
    work: Callable[[_Task], Record | None], todo: list[_Task], workers: int
) -> Generator[Record | None, None, None]:
    """Yield records as samples finish; the threads are daemons, so an interrupt ends immediately."""
    # A worker waits until its last record is in the file, so a kill loses only samples in progress.
    unwritten = threading.Semaphore(workers)

    def bounded(task: _Task) -> Record | None:
        unwritten.acquire()
        return work(task)

    with ThreadPool(min(workers, len(todo)) or 1) as pool:
        records = pool.imap_unordered(bounded, todo)
        while True:
            try:
                # Ctrl-C just before a wait interrupts it only after its timeout.
                record = records.next(timeout=1.0)
            except multiprocessing.TimeoutError:
                continue
            except StopIteration:
                return
            yield record
            unwritten.release()
