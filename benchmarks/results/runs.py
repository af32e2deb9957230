"""`Run`: a run as everything that reads results sees it, finished or not."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ... import HoldfastError
from ...files import read_json, read_yaml
from ...run_folder import CELL, OUTPUTS, PROVENANCE, SUMMARY, begun, images_used, read_rows
from .collapse import gap, has_collapsed, lasting, stays_below
from .old import with_pairs
from .run_protocol import Protocol, protocol
from .run_statistics import last_eighth, mean
from .state import State, fault, folders, state
from .text_table import natural

Array = np.ndarray
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


@dataclass(eq=False)
class Run:
    """One run, as its folder tells; its record is read when it is first asked for.

    `method`, `override`, `stream` and `setting` are the names that a suite gave it, and the classes of
    method and stream where no suite did; "" where the files cannot be read. The streams of one `setting`
    are reported together (all corruptions of a data set); it is the stream's name where a suite has
    none. `factors` is what the suite varies, {"every": 125}. Accuracies lie in [0,1].
    """

    folder: Path
    method: str = ""
    override: str = ""
    stream: str = ""
    setting: str = ""
    seed: int | None = None
    factors: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict, repr=False)
    source: "Run | None" = field(default=None, repr=False)  # the source model on the same images
    bnadapt: "Run | None" = field(default=None, repr=False)  # and BNAdapt

    @classmethod
    def load(cls, folder: Path) -> "Run":
        """The run in this folder; without names if its files cannot be read."""
        if fault(folder):
            return cls(folder)
        cell, facts = read_json(folder / CELL), read_json(folder / PROVENANCE)
        names = cell.get("names", {})
        stream = str(names.get("stream") or facts.get("stream", ""))
        return cls(
            folder,
            method=str(names.get("method") or facts.get("method", "")),
            override=str(names.get("override") or ""),
            stream=stream,
            setting=str(names.get("setting") or stream),
            seed=facts.get("seed") if facts else names.get("seed"),
            factors=cell.get("factors", {}),
            provenance=facts,
        )

    def factor(self, name: str) -> Any:
        """The value of a factor that the suite varies.

        Raises:
            HoldfastError: if it varies none of that name, or if the folder does not say.
        """
        if name in self.factors:
            return self.factors[name]
        if "factors" in read_json(self.folder / CELL):
            known = ", ".join(self.factors) or "none"
            raise HoldfastError(f"{self.folder} has no factor '{name}'. Its factors: {known}.")
        command = read_json(self.folder / CELL).get("command", "the suite")
        raise HoldfastError(
            f"{self.folder} does not state its factors, as its version of Holdfast kept none. Repeat "
            f"{command}: it adds them and repeats no finished run."
        )

    @property
    def label(self) -> str:
        """The displayed name of method and override; different runs may share it."""
        return "-".join(filter(None, (self.method, self.override)))

    @property
    def variant(self) -> tuple[str, str]:
        """Method and override, the key for grouping runs."""
        return self.method, self.override

    @property
    def place(self) -> str:
        """The stream and its seed: what runs on the same images have in common."""
        return f"{self.stream}, seed {self.seed}"

    @property
    def state(self) -> State:
        """Its current state."""
        return state(self.folder)

    @property
    def finished(self) -> bool:
        return (self.folder / SUMMARY).exists()

    @property
    def adapts(self) -> bool:
        """Whether it is of any other method than the frozen source model."""
        return self.provenance.get("method") != "Source"

    @property
    def stream_id(self) -> str:
        """A key of the pixels and their order."""
        return self.provenance["stream_id"]

    @property
    def setting_id(self) -> str:
        """A key of the stream without its seed; for runs of earlier versions, with it."""
        return self.provenance.get("setting_id") or self.provenance.get("stream_id", "")

    @cached_property
    def protocol(self) -> Protocol:
        """The protocol: recovery, and order of the images."""
        return protocol(self.provenance)

    @property
    def weights(self) -> str | None:
        """A key of the source model's weights."""
        return self.provenance.get("weights")

    @property
    def environments(self) -> list[dict[str, Any]]:
        """Where it ran: device, threads and versions, each with the step and image it begins at."""
        return self.provenance.get("ran_on") or [{"step": 0, "images": 0, **self.provenance}]

    # ---- what the files hold -------------------------------------------------------------------------

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The record: one row for each batch; `corruptions` are pairs of name and severity."""
        return [with_pairs(row) for row in read_rows(self.folder)]

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The summary of the whole run; {} if it is not finished."""
        return read_json(self.folder / SUMMARY)

    @cached_property
    def config(self) -> dict[str, Any]:
        """The resolved configuration of `holdfast test`; {} for a run from Python."""
        path = self.folder / "config.yaml"
        content = read_yaml(path) if path.exists() else {}
        return content if isinstance(content, dict) else {}

    def column(self, name: str) -> Array:
        """One value of each row, [n]; NaN where it is missing."""
        return np.array([row.get(name, np.nan) for row in self.rows], dtype=float)

    def of_source(self, name: str) -> Array | None:
        """The source model's values of the same batches, [n]; None unless it has seen them all."""
        size = len(self.rows)
        if self.source is None or len(self.source.rows) < size:
            return None
        return self.source.column(name)[:size]

    @property
    def estimators(self) -> list[str]:
        """The per-batch estimators that watched it."""
        names = {key: None for row in self.rows for key in row}
        known = self.provenance.get("estimators") or {}
        return [name for name in names if name in known or f"{name}_error" in names]

    # ---- results -------------------------------------------------------------------------------------

    @property
    def accuracy(self) -> float | None:
        """The mean over batches; None without labels, like all that follow."""
        return mean(self.column("accuracy"))

    @property
    def accuracy_per_image(self) -> float | None:
        return mean(self.column("accuracy"), np.diff([0, *(row["images"] for row in self.rows)]))

    @property
    def accuracy_last_eighth(self) -> float | None:
        return mean(last_eighth(self.column("accuracy")))

    @cached_property
    def differences(self) -> Array | None:
        """Accuracy less the source model's on the same batches, [n]; None without a source model."""
        reference = self.of_source("accuracy")
        return None if reference is None else self.column("accuracy") - reference

    @cached_property
    def lasting(self) -> int:
        """The mean number of batches that a corruption lasts, at any severity."""
        return lasting([[name for name, _ in row.get("corruptions") or ()] for row in self.rows])

    @cached_property
    def below_source(self) -> bool | None:
        """Whether it is below the source model over the stream, by an interval over batches (`collapse`).

        None if that cannot be said.
        """
        found = None if self.differences is None else gap([self.differences], self.lasting)
        return None if found is None else found.below

    @cached_property
    def collapsed(self) -> bool | None:
        """Whether it has collapsed by the end of its stream (`collapse.has_collapsed`); None if unknown."""
        reference = self.of_source("accuracy")
        if reference is None:
            return None
        end = last_eighth(self.column("accuracy"))
        return has_collapsed(end, last_eighth(reference), self.lasting)

    @property
    def collapse_step(self) -> int | None:
        """The step from which on it stays `collapse.below` the source model; None unless it collapsed."""
        reference = self.of_source("accuracy") if self.collapsed else None
        return None if reference is None else stays_below(self.column("accuracy"), reference)

    @property
    def negative_flips(self) -> float | None:
        """The share of images that the source model has right and this run wrong.

        None unless both kept their predictions (`DatasetEstimates`, adapting: true): records have none.
        """
        paths = [run.folder / OUTPUTS for run in (self, self.source) if run is not None]
        if not self.adapts or len(paths) < 2 or not all(path.exists() for path in paths):
            return None
        with np.load(paths[0]) as own, np.load(paths[1]) as source:
            if not np.array_equal(own["labels"], source["labels"]):
                return None
            lost = (source["classes"] == own["labels"]) & (own["classes"] != own["labels"])
        return float(lost.mean())

    @property
    def adapting_share(self) -> float | None:
        """The share of the backbone's parameters that adapt; None where a provenance does not say."""
        adapting, all_of_them = map(self.provenance.get, ("adapted_parameters", "parameters"))
        return adapting / all_of_them if all_of_them and adapting is not None else None

    @property
    def images(self) -> int:
        """Images seen so far."""
        return self.rows[-1]["images"]

    @property
    def seconds(self) -> float:
        return max(self.rows[-1]["seconds"], 1e-9)

    @property
    def step_seconds(self) -> float:
        """The time of the steps, without waiting for batches."""
        return max(self.seconds - (self.rows[-1].get("waited") or 0.0), 1e-9)

    @property
    def images_per_second(self) -> float:
        return self.images / self.seconds

    @property
    def resets(self) -> int:
        return int(sum(row.get("reset", 0) for row in self.rows))

    @property
    def images_used(self) -> float | None:
        """The share of images that the method selected; None if it does not select."""
        return images_used(self.rows)

    @property
    def never_updated(self) -> bool:
        """Whether it has parameters that adapt, and none has changed; of an unfinished run a guess."""
        return bool(self.summary.get("never_updated")) or self.images_used == 0

    @property
    def not_finite(self) -> int:
        """Steps that changed nothing since something in them was not finite."""
        return sum("not_finite" in row for row in self.rows)

    @property
    def not_finite_images(self) -> int:
        """Images that were left out since they were not finite; they count as wrong."""
        return int(sum(row.get("not_finite_images") or 0 for row in self.rows))


def find(*places: Path) -> list[Run]:
    """Every run below these folders once, begun or not, readable or not.

    Raises:
        HoldfastError: if there is no such folder.
    """
    found = {path.resolve(): path for place in places for path in folders(place)}
    return [Run.load(path) for path in found.values()]


def collect(*places: Path) -> list[Run]:
    """The runs below these folders that have results, sorted, each beside its source model."""
    return with_results(find(*places))


def with_results(runs: Iterable[Run]) -> list[Run]:
    """Those that have rows in their record, each beside its source model and BNAdapt.

    They are sorted by stream, seed and name, the source model first. What is beside a run has the same
    weights and stream: if there are several, a finished one, and one of the same override.
    """
    known = [run for run in runs if run.provenance and begun(run.folder)]
    set_beside(known, "source", "Source")
    set_beside(known, "bnadapt", "BNAdapt")
    return sorted(
        known,
        key=lambda run: (
            *(natural(run.stream), run.seed is None, run.seed or 0),
            *(run.adapts, natural(run.label), run.provenance["started"]),
        ),
    )


def set_beside(runs: list[Run], attribute: str, method: str) -> None:
    """Set each run beside the one of another method with the same weights on the same stream."""
    others = (run for run in runs if run.provenance["method"] == method)
    found = grouped(others, lambda run: (run.stream_id, run.weights))
    for run in runs:
        same = found.get((run.stream_id, run.weights), [])
        rank = lambda other: (other.finished, other.override == run.override)  # noqa: B023, E731
        setattr(run, attribute, max(same, key=rank, default=None))


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Groups of items with equal keys, in the order of first appearance."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
