"""An entry of the leaderboard: the results of one method on all streams and seeds of a track, as JSON.

`entry_of` makes it from finished runs and refuses what cannot be compared or repeated.
"""

import json
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, Field

from ... import HoldfastError
from ...files import read_json, whole_file
from ..results.run_statistics import last_eighth
from ..results.runs import Run
from ..suites.cell import Cell
from ..suites.suite_schema import validate
from .track import Key, Track, of_method

Array = np.ndarray


class Environment(BaseModel, extra="forbid"):
    """What rounding depends on."""

    device: str
    processor: str
    threads: int
    versions: dict[str, str | None]

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> "Environment":
        """The environment in an entry of `ran_on` in a run's provenance."""
        versions = {name: v for name, v in facts["versions"].items() if name != "holdfast"}
        device = facts["device"].partition(",")[0]  # without the number of cores
        processor, threads = facts["processor"], facts["threads"]
        return cls(device=device, processor=processor, threads=threads, versions=versions)


class Result(BaseModel, extra="forbid"):
    """One run: the number of right answers in each batch, separated by spaces.

    commits, environments: several if the run was resumed with other code, or elsewhere. lasting: the mean
    number of batches with the same corruption. step_ms, ready_ms: the median times in milliseconds of a
    step, and of its part until the logits are ready (None in entries from before it was recorded).
    """

    stream: str
    seed: int
    stream_id: str
    images: int = Field(gt=0)
    batch_size: int = Field(gt=0)
    lasting: int = Field(gt=0)
    step_ms: float
    ready_ms: float | None = None
    commits: list[str] = Field(min_length=1)
    environments: list[Environment] = Field(min_length=1)
    correct: str = Field(pattern=r"^\d+( \d+)*$")

    @property
    def key(self) -> Key:
        return self.stream, self.seed

    @property
    def counts(self) -> Array:
        """The number of right answers in each batch, [n]."""
        return np.array(self.correct.split(), dtype=int)

    @property
    def sizes(self) -> Array:
        """The number of images in each batch, [n]."""
        full, rest = divmod(self.images, self.batch_size)
        return np.array([self.batch_size] * full + [rest] * bool(rest))

    @property
    def accuracies(self) -> Array:
        """The accuracy of each batch in [0,1], [n]."""
        return self.counts / self.sizes

    @property
    def accuracy(self) -> float:
        """The mean accuracy over batches."""
        return float(self.accuracies.mean())

    @property
    def last_eighth(self) -> float:
        return float(last_eighth(self.accuracies).mean())


class Entry(BaseModel, extra="forbid"):
    """A method on a track; `configuration` is that of `holdfast test` without stream and seed."""

    track: str
    method: str
    backbone: str
    weights: str
    version: str
    configuration: dict[str, Any]
    runs: list[Result] = Field(min_length=1)

    def write(self, folder: Path) -> Path:
        """Write FOLDER/METHOD.json."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.method}.json"
        with whole_file(path) as partial:
            partial.write_text(json.dumps(self.model_dump(), indent=1) + "\n", encoding="utf-8")
        return path


def read_entry(path: Path) -> Entry:
    """Read an entry.

    Raises:
        HoldfastError: if the file does not exist or does not have the form of an entry.
    """
    content = read_json(path)
    if not content:
        raise HoldfastError(f"{path} does not exist or is empty. Pass the JSON file of an entry.")
    validate(Entry, content, str(path))
    return Entry(**content)


def check_form(entry: Entry, track: Track) -> None:
    """Refuse an entry that is incomplete or has impossible numbers.

    Raises:
        HoldfastError: what differs from the track.
    """
    cells, name = track.cells(entry.method), f"The entry {entry.method}"
    keys = [result.key for result in entry.runs]
    if sorted(keys) != sorted(cells):
        raise HoldfastError(
            f"{name} has {_listed(keys)}, but the track {track.name} has {_listed(cells)}. Add an entry "
            "with each of them once."
        )
    for result in entry.runs:
        if len(result.counts) != len(result.sizes) or (result.counts > result.sizes).any():
            raise HoldfastError(
                f"{name} has impossible numbers for {_listed([result.key])}: {result.images} images in "
                f"batches of {result.batch_size}. Add it again from the runs."
            )


def check_configuration(entry: Entry, track: Track) -> None:
    """Refuse an entry with other settings than the track's.

    Raises:
        HoldfastError: the first setting that differs.
    """
    cell = next(iter(track.cells(entry.method).values()))
    stated = Cell(cell.names, cell.folder, {**cell.config, **entry.configuration}, {})
    check_settings(stated, cell, f"The entry {entry.method} has", track)


def check_settings(cell: Cell, expected: Cell, subject: str, track: Track) -> None:
    """Refuse a run whose settings differ from those of the track's run.

    Raises:
        HoldfastError: the first setting that differs, of the stream, the rule of rates or the rest.
    """
    from ..suites.settings import settings  # deferred: imports torch

    both = [{k: s.value for k, s in settings(each).items()} for each in (cell, expected)]
    for path in dict.fromkeys([*both[1], *both[0]]):
        values = [side.get(path) for side in both]
        if values[0] == values[1]:
            continue
        differing = f"{subject} {path} {values[0]}, but the track {track.name} has {values[1]}."
        if path.partition(".")[0] == "data":
            raise HoldfastError(f"{differing} The streams differ: run `{track.command}`.")
        if path.startswith("model."):
            raise HoldfastError(
                f"{differing} It was tuned by another rule: use the settings of the track, or tune by "
                "the rule of the track (docs/leaderboard.md)."
            )
        raise HoldfastError(f"{differing} Run `{track.command}`.")


def entry_of(runs: Iterable[Run], track: Track) -> Entry:
    """The entry of the runs of one method.

    Raises:
        HoldfastError: if a run is missing or unfinished, of another stream, tuned by another rule, or of
            uncommitted code.
    """
    by_key = {(run.stream, run.seed): run for run in runs}
    method = next(iter(by_key.values())).label
    cells = track.cells(method)
    for key, run in by_key.items():
        if key not in cells:
            raise HoldfastError(
                f"{run.folder} is a run on another stream ({_listed([key])}) than those of the track "
                f"{track.name}. Pass only runs of `{track.command}`."
            )
        stored = Cell(cells[key].names, run.folder, run.cell.get("config", {}), {})
        check_settings(stored, cells[key], f"{run.folder} has", track)
    for key in cells:
        if key not in by_key or not by_key[key].finished:
            raise HoldfastError(
                f"{method} is unfinished on {_listed([key])}. Run `{track.command} --methods {method}`."
            )
    first = by_key[next(iter(cells))]
    return Entry(
        track=track.name,
        method=method,
        backbone=str(first.cell["config"]["model"]["init_args"]["backbone"]),
        weights=first.weights or "",
        version=version("holdfast"),
        configuration=of_method(cells[first.stream, first.seed or 0]),
        runs=[_result(by_key[key]) for key in cells],
    )


def _result(run: Run) -> Result:
    facts = run.provenance
    commits = [*dict.fromkeys(entry["commit"] for entry in facts["ran_on"])]
    for commit in commits:
        if not commit or commit.endswith("-dirty"):
            state = "code that is not committed" if commit else "an installation without a commit"
            raise HoldfastError(
                f"{run.folder} ran with {state}, so nobody can repeat it. Commit the code in a clone of "
                "Holdfast, remove the run, and run it again."
            )
    sizes = np.diff(run.column("images"), prepend=0)
    correct = run.column("accuracy") * sizes
    if np.isnan(correct).any():
        raise HoldfastError(f"{run.folder} has batches without labels. Run a stream with labels.")
    times = run.column("seconds") - run.column("waited")
    return Result(
        stream=run.stream,
        seed=run.seed or 0,
        stream_id=run.stream_id,
        images=run.images,
        batch_size=facts["batch_size"],
        lasting=run.lasting,
        step_ms=_milliseconds(np.diff(times, prepend=0)),
        ready_ms=_milliseconds(run.column("logits_ready")),
        commits=commits,
        environments=[Environment.of(entry) for entry in facts["ran_on"]],
        correct=" ".join(map(str, np.rint(correct).astype(int))),
    )


def _milliseconds(seconds: Array) -> float:
    return round(1000 * float(np.median(seconds)), 1)


def _listed(keys: Iterable[tuple[str, int | None]]) -> str:
    return "; ".join(f"{stream}, seed {seed}" for stream, seed in keys)
