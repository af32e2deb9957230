"""Means over a method's runs in one setting, with the same streams and seeds for all methods."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...files import read_json
from ...run_folder import CELL
from .collapse import gap
from .run_protocol import Protocol, alike
from .run_statistics import Difference, Values, deviation, paired
from .runs import Run, grouped
from .text_table import natural

Place = tuple[str, int | None, str]  # stream, seed, and the key of its pixels


@dataclass(eq=False)
class Group:
    """The runs of one method in one setting.

    `runs` are the finished runs with labels; `wanted` is the expected number of (stream, seed) pairs.
    Accuracies are in [0,1]; unknown values are None.
    """

    setting: str
    label: str
    runs: list[Run]
    wanted: int

    def values(self, name: str, of: str = "") -> Values[Place]:
        """One property of each run, or of its reference run (`of`: the attribute with the reference)."""
        found = {}
        for run in self.runs:
            other = getattr(run, of) if of else run
            value = None if other is None else getattr(other, name)
            if value is not None:
                found[place(run)] = float(value)
        return found

    def mean(self, name: str) -> float | None:
        values = self.values(name)
        return float(np.mean(list(values.values()))) if values else None

    @property
    def protocol(self) -> Protocol | None:
        """The properties that all runs share; None without runs."""
        return self.runs[0].protocol if self.runs else None

    @property
    def n(self) -> int:
        return len(self.runs)

    @property
    def complete(self) -> bool:
        return self.n == self.wanted

    @property
    def adapts(self) -> bool:
        return any(run.adapts for run in self.runs)

    @cached_property
    def accuracy(self) -> float | None:
        return self.mean("accuracy")

    @property
    def accuracy_sd(self) -> float | None:
        return deviation(self.values("accuracy"))

    @property
    def worst(self) -> float | None:
        """The lowest accuracy of a run."""
        return min(self.values("accuracy").values(), default=None)

    @cached_property
    def below_source(self) -> bool | None:
        """Whether the runs are significantly below the source model (95 % interval over batches)."""
        known = [(r.differences, r.lasting) for r in self.runs if r.source is not r]
        differences = [values for values, _ in known if values is not None]
        found = gap(differences, max((lasting for _, lasting in known), default=1))
        return None if found is None or not self.adapts else found.below

    @cached_property
    def gain_over_source(self) -> Difference | None:
        return self._gain("source")

    @cached_property
    def gain_over_bnadapt(self) -> Difference | None:
        return self._gain("bnadapt")

    def _gain(self, of: str) -> Difference | None:
        if not self.adapts or any(getattr(run, of) is run for run in self.runs):
            return None
        return paired(self.values("accuracy"), self.values("accuracy", of))

    @property
    def collapsed(self) -> int | None:
        """The number of collapsed runs."""
        known = self.values("collapsed")
        return round(sum(known.values())) if known and self.adapts else None

    @property
    def collapse_rate(self) -> float | None:
        return None if self.collapsed is None else self.collapsed / len(self.values("collapsed"))

    @property
    def first_collapse_step(self) -> int | None:
        """The earliest step after which a collapsed run stays below the source model by the margin."""
        steps = [run.collapse_step for run in self.runs if run.collapse_step is not None]
        return min(steps, default=None)

    @property
    def time_in_sources(self) -> float | None:
        """The median over runs of the step time relative to the source model's."""
        ratios = [run.step_seconds / run.source.step_seconds for run in self.runs if run.source]
        return float(np.median(ratios)) if ratios else None

    @property
    def never_updated(self) -> int:
        """The number of runs in which no adaptable parameter changed."""
        return sum(run.never_updated for run in self.runs)


def groups(everything: Iterable[Run]) -> list[Group]:
    """All runs, started or not, grouped by setting and method; the source model first, then by name."""
    found = []
    for setting, same in settings(everything).items():
        wanted = len({place(run)[:2] for run in same})
        for label, runs in apart(same):
            done = [
                run for run in runs if run.finished and run.provenance and run.accuracy is not None
            ]
            found.append(Group(setting, label, done, wanted))
    return sorted(found, key=lambda g: (natural(g.setting), g.adapts or not g.n, natural(g.label)))


def settings(everything: Iterable[Run]) -> dict[str, list[Run]]:
    """Runs by the name of their setting.

    Runs outside a suite form one setting per stream, with all seeds. Streams with different protocols are
    always different settings.
    """
    named = [run for run in everything if run.method]
    found: dict[str, list[Run]] = {}
    for name, runs in grouped([r for r in named if in_suite(r)], lambda r: r.setting).items():
        several = grouped(runs, lambda run: run.protocol.stream if run.provenance else "")
        begun = [stream for stream in several if stream]
        for stream, own in several.items():  # runs that have not started join the first setting
            own_name = name if len(begun) < 2 or not stream else f"{name} ({stream})"
            found.setdefault(own_name, []).extend(own)
    alone = grouped([run for run in named if not in_suite(run)], lambda run: run.setting_id)
    for (setting_id, runs), name in zip(alone.items(), names(list(alone.values())), strict=True):
        found[name if name not in found else f"{name} ({setting_id})"] = runs
    return found


def names(several: list[list[Run]]) -> list[str]:
    """A name for each unnamed setting: its stream, what distinguishes it, and a single seed if any."""
    found = []
    for runs in several:
        first, seeds = runs[0].provenance, {run.seed for run in runs}
        others = [same[0].provenance for same in several if same[0].stream == runs[0].stream]
        differ = [
            f"{key} {value}"
            for key, value in first.items()
            if key in first.get("setting", ())
            and key not in ("stream", "seed")
            and isinstance(value, str | int | float)
            and any(o.get(key) != value for o in others)
        ]
        found.append(
            ", ".join([runs[0].stream, *differ, *([f"seed {runs[0].seed}"] * (len(seeds) == 1))])
        )
    return found


def in_suite(run: Run) -> bool:
    return "names" in read_json(run.folder / CELL)


def apart(runs: list[Run]) -> list[tuple[str, list[Run]]]:
    """Runs grouped by method and recovery.

    Runs with the same name on the same images differ in another option, so each forms its own group.
    """
    found = []
    for same in grouped(runs, lambda run: run.variant).values():
        recoveries = grouped([run for run in same if run.provenance], lambda r: r.protocol.recovery)
        if len(recoveries) > 1:
            found += [(f"{own[0].label} ({name})", own) for name, own in recoveries.items()]
            continue
        if len({place(run) for run in same}) == len(same):
            found.append((same[0].label, same))
        else:
            found += [(f"{run.label} ({run.folder.name})", [run]) for run in same]
    return found


def place(run: Run) -> Place:
    return run.stream, run.seed, run.provenance.get("stream_id", "")


def average(several: list[Group]) -> float | None:
    """The mean of the settings' means; None unless all are known and share one protocol."""
    if not alike(group.protocol for group in several if group.protocol):
        return None
    means = [group.accuracy for group in several]
    known = [mean for mean in means if mean is not None]
    return float(np.mean(known)) if known and len(known) == len(means) else None
