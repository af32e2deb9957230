"""Check an entry by replaying random windows of its runs.

`windows` draws consecutive batches of runs that are chosen at random. A window is replayed from the start
of its stream, since the state of a method depends on all earlier batches, or from the nearest checkpoint in
the run's folder; every replayed batch is compared, those before the window, too.

It finds numbers that the configuration, the stream and the code do not give: changed accuracies, another
stream or seed, another learning rate. A change of a run from batch b on is found if a window of this run
ends after b (`detection` states the probability). In the environment of the entry each batch must be equal.
Elsewhere rounding differs and adapting amplifies it, so what is within the tolerance is not found, such as
a somewhat different learning rate. It cannot find a change of batches that are not replayed, rates tuned on
the track's streams, or, from a checkpoint, a forged state in it.
"""

import shutil
from collections.abc import Callable, Iterator
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from scipy.stats import hypergeom

from ... import HoldfastError, in_range
from ...callbacks.checkpoint import files
from ...run_folder import CHECKPOINTS, PROVENANCE, ROWS, read_rows
from ..results.runs import Run
from ..suites.grid import merged
from .entry import Array, Entry, Environment, Result
from .track import Track

LONGEST = 32  # batches of a window, if there are enough runs
# In another environment: by which share of the replayed images, and of those of a batch, right answers may
# differ. docs/leaderboard.md has the measurement.
MEAN_TOLERANCE, BATCH_TOLERANCE = 0.01, 0.125


class Window(NamedTuple):
    """The batches `first` to `last` of a run, without the last."""

    result: Result
    first: int
    last: int


class Replay(NamedTuple):
    """The number of right answers in the batches from `first` on, [n]."""

    first: int
    counts: Array
    exact: bool  # whether the environment is the entry's


def windows(entry: Entry, share: float, random: np.random.Generator) -> Iterator[Window]:
    """Windows with this share of the batches, each in another run.

    They have at most LONGEST batches if there are enough runs.
    """
    in_range(0, 1, share=share)
    number, length = _shape(entry, share)
    for chosen in random.permutation(len(entry.runs))[:number]:
        result = entry.runs[chosen]
        size = len(result.counts)
        last = int(random.integers(min(length, size), size + 1))
        yield Window(result, max(0, last - length), last)


def _shape(entry: Entry, share: float) -> tuple[int, int]:
    """The number of windows and their length in batches."""
    sizes = [len(result.counts) for result in entry.runs]
    batches = max(1, round(share * sum(sizes)))
    number = min(len(sizes), ceil(batches / min(LONGEST, *sizes)))
    return number, ceil(batches / number)


def detection(entry: Entry, share: float, runs: int, first: int = 0) -> float:
    """The probability that a check replays a change of `runs` runs from batch `first` (from 0) on.

    With k windows of w batches in k of the R runs, each ending at a random one of the batches w to n: a
    window in a changed run misses the change with q = max(0, first - w + 1) / (n - w + 1), so the
    probability is 1 - E[q^X], where X, the number of windows in changed runs, is hypergeometric.
    """
    number, length = _shape(entry, share)
    size = min(len(result.counts) for result in entry.runs)
    length = min(length, size)
    missed = max(0, min(first, size) - length + 1) / (size - length + 1)
    hits = np.arange(number + 1)
    chances = hypergeom.pmf(hits, len(entry.runs), runs, number)
    return 1 - float(np.sum(chances * missed**hits))


def replay(entry: Entry, window: Window, track: Track, run: Run | None = None) -> Replay:
    """Run the track's configuration, which `check_configuration` compares, to the end of the window.

    run: the run of the entry, whose checkpoints are used if it has some before the window.

    Raises:
        HoldfastError: if the stream, its length or the weights are not the entry's.
    """
    result = window.result
    cell = track.cells(entry.method)[result.key]
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        first = 0 if run is None else _copy_checkpoint(run, window.first, folder)
        limits = {"limit_test_batches": window.last}
        options = {"out": str(folder), "resume": first > 0, "progress": False, "trainer": limits}
        from ..test import run as test_run  # deferred: LightningCLI is slow to import

        stream = test_run(merged(cell.config, options)).datamodule
        facts, rows = Run.load(folder).provenance, read_rows(folder)
    for name, claim, fact in (
        ("stream_id", result.stream_id, facts["stream_id"]),
        ("images", result.images, stream.images),
        ("batch_size", result.batch_size, stream.batch_size),
        ("weights", entry.weights, facts["weights"]),
    ):
        if claim != fact:
            raise HoldfastError(
                f"{_called(entry, result)} states {name} {claim}, but the track gives {fact}. It belongs "
                "to another stream, network or version."
            )
    accuracies = np.array([row["accuracy"] for row in rows[first:]])
    counts = np.rint(accuracies * result.sizes[first : len(rows)]).astype(int)
    here = Environment.of(facts["ran_on"][-1])
    return Replay(first, counts, result.environments == [here])


def _copy_checkpoint(run: Run, latest: int, folder: Path) -> int:
    """Copy a run with its last checkpoint up to step `latest`; returns its step, 0 if there is none."""
    steps = {int(path.stem.partition("-")[2]): path for path in files(run.folder / CHECKPOINTS)}
    step = max((step for step in steps if step <= latest), default=0)
    if step:
        (folder / CHECKPOINTS).mkdir(parents=True)
        shutil.copy(steps[step], folder / CHECKPOINTS)
        for name in (ROWS, PROVENANCE):
            shutil.copy(run.folder / name, folder)
    return step


def compare(entry: Entry, result: Result, replayed: Replay) -> None:
    """Compare the entry's numbers with replayed ones.

    Raises:
        HoldfastError: the first batch that differs, or by how much all do.
    """
    last = replayed.first + len(replayed.counts)
    gaps = result.counts[replayed.first : last] - replayed.counts
    sizes = result.sizes[replayed.first : last]
    tolerance = np.zeros(len(gaps)) if replayed.exact else BATCH_TOLERANCE * sizes
    for batch in np.flatnonzero(abs(gaps) > tolerance):
        number = replayed.counts[batch]
        raise HoldfastError(
            f"{_called(entry, result)} has {number + gaps[batch]} right answers in batch "
            f"{replayed.first + batch}, but the replay has {number}."
        )
    if abs(gaps.sum()) > MEAN_TOLERANCE * sizes.sum():
        points = 100 * gaps.sum() / sizes.sum()
        raise HoldfastError(
            f"{_called(entry, result)} is {points:+.1f} points from the replay over the batches "
            f"{replayed.first} to {last - 1}; {100 * MEAN_TOLERANCE:g} are allowed on another machine."
        )


def _called(entry: Entry, result: Result) -> str:
    return f"{entry.method} on {result.stream}, seed {result.seed},"


Replayer = Callable[[Entry, Window], Replay]


def check(
    entry: Entry, share: float, random: np.random.Generator, replayer: Replayer
) -> Iterator[str]:
    """Replay windows with this share of the batches; yields a sentence for each that is equal.

    Raises:
        HoldfastError: the first difference.
    """
    for window in windows(entry, share, random):
        replayed = replayer(entry, window)
        compare(entry, window.result, replayed)
        how = "equal" if replayed.exact else "within the tolerance of another environment"
        start = f"the checkpoint at {replayed.first}" if replayed.first else "the start"
        yield (
            f"{_called(entry, window.result)} batches {replayed.first} to {window.last - 1}, "
            f"replayed from {start}: {how}"
        )
