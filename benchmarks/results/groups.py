"""Means over runs: those of one method in one setting, over the same streams and seeds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...files import read_json
from ...run_folder import CELL
from .collapse import gap, is_negative
from .run_protocol import alike
from .run_statistics import Values, deviation, mean, paired
from .runs import Run, grouped, natural

Place = tuple[str, int | None, str]  # stream, seed, and the key of its pixels


@dataclass(eq=False)
class Group:
    """The runs of one method in one setting, and their means.

    `runs` are the finished runs with labels; `wanted` is the expected number of (stream, seed) pairs.
    """

    setting: str
    label: str
    runs: list[Run]
    wanted: int

    @property
    def adapts(self) -> bool:
        return any(run.adapts for run in self.runs)

    @cached_property
    def row(self) -> dict[str, Any]:
        """The means over the runs, and what follows from several runs; None where unknown."""
        runs, accuracies = self.runs, self.accuracies()
        collapsed = [r.collapsed for r in runs if r.collapsed is not None] if self.adapts else []
        steps = [run.collapse_step for run in runs if run.collapse_step is not None]
        times = [run.step_seconds / run.source.step_seconds for run in runs if run.source]
        return {
            "setting": self.setting,
            "method": self.label,
            "accuracy": self.mean("accuracy"),
            "sd": deviation(accuracies),
            "runs": len(runs),
            "runs_wanted": self.wanted,
            "worst": min(accuracies.values(), default=None),
            "last_eighth": self.mean("accuracy_last_eighth"),
            "below_source": self.below_source(),
            "collapsed": sum(collapsed) if collapsed else None,
            "collapse_rate": sum(collapsed) / len(collapsed) if collapsed else None,
            "first_collapse_step": min(steps, default=None),
            **self.gain("source"),
            **self.gain("bnadapt"),
            "negative_flips": self.mean("negative_flips"),
            "time_in_sources": float(np.median(times)) if times else None,
            "never_updated": sum(run.never_updated for run in runs),
            "images_used": self.mean("images_used"),
            "adapting_share": self.mean("adapting_share"),
            "protocol": str(runs[0].protocol) if runs else None,
            "adapts": self.adapts,
            "compared": len(collapsed),  # number of runs with a source model on the same images
        }

    def mean(self, name: str) -> float | None:
        """The mean of a property over the runs where it is known; None if it is for no run."""
        return mean(np.array([getattr(run, name) for run in self.runs], dtype=float))

    def accuracies(self, reference: str = "") -> Values[Place]:
        """The accuracy of each run, or of its `reference`: the runs' attribute "source" or "bnadapt"."""
        both = {place(run): getattr(run, reference) if reference else run for run in self.runs}
        known = {key: run.accuracy for key, run in both.items() if run is not None}
        return {key: accuracy for key, accuracy in known.items() if accuracy is not None}

    def below_source(self) -> bool | None:
        """Whether the runs are significantly below the source model (95 % interval over batches)."""
        others = [run for run in self.runs if run.source is not run]
        differences = [run.differences for run in others if run.differences is not None]
        found = gap(differences, max((run.lasting for run in others), default=1))
        return is_negative(found) if found is not None and self.adapts else None

    def gain(self, reference: str) -> dict[str, float | None]:
        """The mean gain over the runs of another method (`source` or `bnadapt`), and its 95 % interval."""
        found = None
        if self.adapts and not any(getattr(run, reference) is run for run in self.runs):
            found = paired(self.accuracies(), self.accuracies(reference))
        mean, low, high = (None, None, None) if found is None else found[:3]
        name = f"gain_over_{reference}"
        return {name: mean, f"{name}_low": low, f"{name}_high": high}


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
    return sorted(
        found, key=lambda g: (natural(g.setting), g.adapts or not g.runs, natural(g.label))
    )


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
        for stream, same in several.items():  # runs that have not started join the first setting
            full_name = name if len(begun) < 2 or not stream else f"{name} ({stream})"
            found.setdefault(full_name, []).extend(same)
    alone = grouped([run for run in named if not in_suite(run)], setting_id)
    for (key, runs), name in zip(alone.items(), names(list(alone.values())), strict=True):
        found[name if name not in found else f"{name} ({key})"] = runs
    return found


def names(several: list[list[Run]]) -> list[str]:
    """A name for each unnamed setting: its stream, what distinguishes it, and a single seed if any."""
    found = []
    for runs in several:
        first = runs[0].provenance
        others = [same[0].provenance for same in several if same[0].stream == runs[0].stream]
        differ = [
            f"{key} {value}"
            for key, value in first.items()
            if key in first.get("setting", ())
            and key not in ("stream", "seed")
            and isinstance(value, str | int | float)
            and any(other.get(key) != value for other in others)
        ]
        seed = [f"seed {runs[0].seed}"] if len({run.seed for run in runs}) == 1 else []
        found.append(", ".join([runs[0].stream, *differ, *seed]))
    return found


def setting_id(run: Run) -> str:
    """A key of the stream without its seed (with the seed for runs of earlier versions)."""
    return run.provenance.get("setting_id") or run.provenance.get("stream_id", "")


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
            found += [(f"{runs[0].label} ({name})", runs) for name, runs in recoveries.items()]
        elif len({place(run) for run in same}) == len(same):
            found.append((same[0].label, same))
        else:
            found += [(f"{run.label} ({run.folder.name})", [run]) for run in same]
    return found


def place(run: Run) -> Place:
    return run.stream, run.seed, run.provenance.get("stream_id", "")


def average(several: Sequence[Group]) -> float | None:
    """The mean of the settings' means; None unless all are known and share one protocol."""
    if not alike(group.runs[0].protocol for group in several if group.runs):
        return None
    means = [group.row["accuracy"] for group in several]
    return None if None in means else mean(np.array(means, dtype=float))
