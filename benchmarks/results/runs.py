"""`Run`: the interface to the results of a run, finished or not."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ... import HoldfastError
from ...files import read_json
from ...run_folder import CELL, PROVENANCE, SUMMARY, begun, images_used, read_rows
from .collapse import gap, has_collapsed, is_negative, lasting, stays_below
from .run_files import fault
from .run_protocol import Protocol, protocol
from .run_state import State, folders, state
from .run_statistics import last_eighth, mean
from .text_table import natural

_Array = np.ndarray
_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)


@dataclass(eq=False)
class Run:
    """One run, read from its folder; the record is read on first access.

    `method`, `override`, `stream` and `setting` are the names from the suite, or the classes of method and
    stream outside a suite; "" if the files cannot be read. Streams with the same `setting` are reported
    together (such as all corruptions of a dataset); its default is the stream's name. `factors` are the
    values that the suite varies, such as {"every": 125}. Accuracies are in [0,1].
    """

    folder: Path
    method: str = ""
    override: str = ""
    stream: str = ""
    setting: str = ""
    seed: int | None = None
    factors: dict[str, Any] = field(default_factory=dict)
    cell: dict[str, Any] = field(default_factory=dict, repr=False)  # what the suite wrote
    provenance: dict[str, Any] = field(default_factory=dict, repr=False)
    source: "Run | None" = field(default=None, repr=False)  # the source model on the same images
    bnadapt: "Run | None" = field(default=None, repr=False)  # BNAdapt on the same images
    limit: tuple[float, bool] | None = field(
        default=None, repr=False
    )  # `deadline.Limit` of reports

    @classmethod
    def load(cls, folder: Path) -> "Run":
        """Load the run in a folder; its names are empty if its files cannot be read."""
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
            cell=cell,
            provenance=facts,
        )

    def factor(self, name: str) -> Any:
        """The value of a factor that the suite varies.

        Raises HoldfastError if the suite does not vary it, or if the folder does not record it.
        """
        if name not in self.factors:
            raise HoldfastError(
                f"{self.folder} has no factor '{name}' (its factors: {', '.join(self.factors) or 'none'})."
                " Rerun its suite, which records them; finished runs are not repeated."
            )
        return self.factors[name]

    @property
    def label(self) -> str:
        """The displayed name of method and override, which is not unique."""
        return "-".join(filter(None, (self.method, self.override)))

    @property
    def variant(self) -> tuple[str, str]:
        """Method and override, the key for grouping runs."""
        return self.method, self.override

    @property
    def place(self) -> str:
        """The stream and its seed, which runs on the same images share."""
        return f"{self.stream}, seed {self.seed}"

    @property
    def state(self) -> State:
        return state(self.folder)

    @property
    def finished(self) -> bool:
        return (self.folder / SUMMARY).exists()

    @property
    def begun(self) -> bool:
        """Whether the run has a result, of one batch at least."""
        return bool(self.provenance) and begun(self.folder)

    @property
    def adapts(self) -> bool:
        """Whether the method is not the frozen source model."""
        return self.provenance.get("method") != "Source"

    @property
    def stream_id(self) -> str:
        """A key of the pixels and their order; "" if the run has not begun."""
        return self.provenance.get("stream_id", "")

    @property
    def weights(self) -> str | None:
        """A key of the source model's weights."""
        return self.provenance.get("weights")

    @cached_property
    def protocol(self) -> Protocol:
        """The evaluation protocol: recovery and order of the images."""
        return protocol(self.provenance)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The record with one row per batch; `corruptions` are pairs of name and severity."""
        return read_rows(self.folder)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The summary of the whole run; {} if the run is unfinished."""
        return read_json(self.folder / SUMMARY)

    @cached_property
    def columns(self) -> list[str]:
        """The names in the record, in order of first appearance."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    @property
    def estimators(self) -> list[str]:
        """The per-batch estimators of the run."""
        known = self.provenance.get("estimators") or {}
        return [n for n in self.columns if n in known or f"{n}_error" in self.columns]

    def column(self, name: str) -> _Array:
        """One value of each row, [n]; NaN where it is missing."""
        return np.array([row.get(name, np.nan) for row in self.rows], dtype=float)

    def of_source(self, name: str) -> _Array | None:
        """The source model's values on the same batches, [n]; None unless it has all of them."""
        size = len(self.rows)
        if self.source is None or len(self.source.rows) < size:
            return None
        return self.source.column(name)[:size]

    @property
    def accuracy(self) -> float | None:
        """The mean accuracy over batches."""
        return mean(self.column("accuracy"))

    @property
    def accuracy_per_image(self) -> float | None:
        return mean(self.column("accuracy"), np.diff(self.column("images"), prepend=0))

    @property
    def nll(self) -> float | None:
        """The mean negative log-likelihood of the images in nats."""
        return mean(self.column("nll"), np.diff(self.column("images"), prepend=0))

    @property
    def ece(self) -> float | None:
        """The expected calibration error of a finished run, in [0,1]."""
        return self.summary.get("ece")

    @property
    def accuracy_last_eighth(self) -> float | None:
        return mean(last_eighth(self.column("accuracy")))

    @cached_property
    def differences(self) -> _Array | None:
        """Accuracy minus the source model's on the same batches, [n]; None without a source model."""
        reference = self.of_source("accuracy")
        return None if reference is None else self.column("accuracy") - reference

    @cached_property
    def lasting(self) -> int:
        """The mean number of consecutive batches with the same corruption, at any severity."""
        return lasting([[name for name, _ in row.get("corruptions") or ()] for row in self.rows])

    @cached_property
    def below_source(self) -> bool | None:
        """Whether the run is below the source model over the stream (`collapse.gap`)."""
        return (
            None if self.differences is None else is_negative(gap([self.differences], self.lasting))
        )

    @cached_property
    def collapsed(self) -> bool | None:
        """Whether the run has collapsed by its end (`collapse.has_collapsed`)."""
        reference = self.of_source("accuracy")
        if reference is None:
            return None
        end = last_eighth(self.column("accuracy"))
        return has_collapsed(end, last_eighth(reference), self.lasting)

    @property
    def collapse_step(self) -> int | None:
        """The step after which the run stays `collapse.below` the source model, if it has collapsed."""
        reference = self.of_source("accuracy") if self.collapsed else None
        return None if reference is None else stays_below(self.column("accuracy"), reference)

    @property
    def images(self) -> int:
        """The number of images processed so far."""
        return self.rows[-1]["images"]

    @property
    def seconds(self) -> float:
        return max(self.rows[-1]["seconds"], 1e-9)

    @property
    def step_seconds(self) -> float:
        """The time of the steps in seconds, without waiting for batches."""
        return max(self.seconds - (self.rows[-1].get("waited") or 0.0), 1e-9)

    @property
    def images_per_second(self) -> float:
        return self.images / self.seconds

    @property
    def resets(self) -> int:
        return int(np.nansum(self.column("reset")))

    @property
    def images_used(self) -> float | None:
        """The share of images that the method selected; None for a method without selection."""
        return images_used(self.rows)

    @property
    def never_updated(self) -> bool:
        """Whether no adaptable parameter has changed; preliminary for an unfinished run."""
        return bool(self.summary.get("never_updated")) or self.images_used == 0

    @property
    def not_finite(self) -> int:
        """The number of steps that were undone because of non-finite values."""
        return sum("not_finite" in row for row in self.rows)

    @property
    def not_finite_images(self) -> int:
        """The number of non-finite images, which were excluded and count as wrong."""
        return int(np.nansum(self.column("not_finite_images")))


def find(*parents: Path) -> list[Run]:
    """Every run below these folders, started or not, readable or not, without duplicates.

    Raises HoldfastError if a folder does not exist.
    """
    paths = {path.resolve(): path for parent in parents for path in folders(parent)}
    return [Run.load(path) for path in paths.values()]


def collect(*parents: Path) -> list[Run]:
    """The runs with results below these folders, sorted and linked to their source models."""
    return with_results(find(*parents))


def with_results(runs: Iterable[Run]) -> list[Run]:
    """The runs with rows in their record, linked to their source model and BNAdapt.

    They are sorted by stream, seed and name, the source model first. Linked runs have the same weights and
    stream; of several, a finished one is preferred, then one with the same override.
    """
    known = [run for run in runs if run.begun]
    set_beside(known)

    def order(run: Run) -> tuple[Any, ...]:
        stream = natural(run.stream), run.seed is None, run.seed or 0
        return *stream, run.adapts, natural(run.label), run.provenance["started"]

    return sorted(known, key=order)


def set_beside(runs: list[Run]) -> None:
    """Link each run to those of the source model and BNAdapt with the same weights on the same stream."""
    alike = grouped(runs, lambda run: (run.provenance["method"], run.stream_id, run.weights))
    for run in runs:
        for attribute, method in (("source", "Source"), ("bnadapt", "BNAdapt")):
            same = alike.get((method, run.stream_id, run.weights), [])
            best = max(same, key=lambda o: (o.finished, o.override == run.override), default=None)
            setattr(run, attribute, best)


def grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """Group items by key, in order of first appearance."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
