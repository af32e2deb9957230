"""Means over runs: those of one method in one setting, over the same streams and seeds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .collapse import gap, is_negative
from .palette import Style, method_styles
from .run_protocol import alike
from .run_statistics import above_zero, deviation, mean
from .runs import Run, grouped
from .text_table import natural

ENDS = ("", "_low", "_high")  # of the names of a difference and of the ends of its interval


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
        runs, accuracies = self.runs, self.known("accuracy")
        collapsed = self.known("collapsed") if self.adapts else []
        times = [run.step_seconds / run.source.step_seconds for run in runs if run.source]
        return {
            "setting": self.setting,
            "method": self.label,
            "accuracy": mean(accuracies),
            "sd": deviation(accuracies),
            "runs": len(runs),
            "runs_wanted": self.wanted,
            "worst": min(accuracies, default=None),
            "last_eighth": mean(self.known("accuracy_last_eighth")),
            "below_source": self.below_source(),
            "collapsed": sum(collapsed) if collapsed else None,
            "collapse_rate": mean(collapsed),
            "first_collapse_step": min(self.known("collapse_step"), default=None),
            **self.gain("source"),
            **self.gain("bnadapt"),
            "negative_flips": mean(self.known("negative_flips")),
            "time_in_sources": float(np.median(times)) if times else None,
            "never_updated": sum(self.known("never_updated")),
            "images_used": mean(self.known("images_used")),
            "adapting_share": mean(self.known("adapting_share")),
            "protocol": str(runs[0].protocol) if runs else None,
            "adapts": self.adapts,
            "compared": len(collapsed),  # number of runs with a source model on the same images
        }

    def known(self, name: str) -> list[Any]:
        """A property of the runs, of those where it is known."""
        return [value for run in self.runs if (value := getattr(run, name)) is not None]

    def below_source(self) -> bool | None:
        """Whether the runs are significantly below the source model (95 % interval over batches)."""
        others = [run for run in self.runs if run.source is not run]
        differences = [run.differences for run in others if run.differences is not None]
        found = gap(differences, max((run.lasting for run in others), default=1))
        return is_negative(found) if found is not None and self.adapts else None

    def gain(self, reference: str) -> dict[str, Any]:
        """The mean gain over the runs of another method (`source` or `bnadapt`), and its 95 % interval."""
        pairs = [(run, other) for run in self.runs if (other := getattr(run, reference))]
        itself = any(other is run for run, other in pairs)
        gains = {run: run.accuracy - o.accuracy for run, o in pairs if o.accuracy is not None}
        found = above_zero(gains) if self.adapts and not itself else None
        ends = (None, None, None) if found is None else found[:3]
        return {f"gain_over_{reference}{end}": v for end, v in zip(ENDS, ends, strict=True)}


def groups(everything: Iterable[Run]) -> list[Group]:
    """All runs, started or not, grouped by setting and method; the source model first, then by name."""
    found: list[Group] = []
    for setting, same in settings(everything).items():
        wanted = len({(run.stream, run.seed) for run in same})
        own = [Group(setting, label, scored(runs), wanted) for label, runs in apart(same)]
        found += sorted(own, key=lambda g: (g.adapts or not g.runs, natural(g.label)))
    return found


def scored(runs: list[Run]) -> list[Run]:
    """The finished runs with labels."""
    return [r for r in runs if r.finished and r.provenance and r.accuracy is not None]


def settings(everything: Iterable[Run]) -> dict[str, list[Run]]:
    """Runs by the name of their setting, in the order of the names.

    Runs outside a suite form one setting per stream, with all seeds. Streams with different protocols are
    always different settings, and their names say what differs; runs that have not begun join the first.
    """
    found: dict[str, list[Run]] = {}
    named = [run for run in everything if run.method]
    for name, same in grouped(named, lambda run: run.setting).items():
        kinds = grouped(same, kind)
        begun = {key: runs[0] for key, runs in kinds.items() if key}
        for key, runs in kinds.items():
            what = differing(key, begun) if key and len(begun) > 1 else ""
            found.setdefault(f"{name} ({what})" if what else name, []).extend(runs)
    return dict(sorted(found.items(), key=lambda item: natural(item[0])))


def kind(run: Run) -> str:
    """What runs of one setting share: the protocol in a suite, or else the stream without its seed."""
    if "names" in run.cell:
        return run.protocol.stream if run.provenance else ""
    return run.provenance.get("setting_id") or run.stream_id


def differing(key: str, kinds: Mapping[str, Run]) -> str:
    """What distinguishes the runs of one kind: a suite's protocol, or facts such as "images 64"."""
    own = kinds[key].provenance
    others = [run.provenance for run in kinds.values()]
    names = [] if "names" in kinds[key].cell else own.get("setting", ())
    facts = [
        f"{name} {own[name]}"
        for name in names
        if name not in ("stream", "seed")
        and isinstance(own.get(name), str | int | float)
        and any(other.get(name) != own[name] for other in others)
    ]
    return ", ".join(facts) or key


def apart(runs: list[Run]) -> list[tuple[str, list[Run]]]:
    """Runs grouped by method and recovery.

    Runs with the same name on the same images differ in another option, so each forms its own group.
    """
    found = []
    for same in grouped(runs, lambda run: run.variant).values():
        label = same[0].label
        recoveries = grouped([run for run in same if run.provenance], lambda r: r.protocol.recovery)
        if len(recoveries) > 1:
            found += [(f"{label} ({name})", runs) for name, runs in recoveries.items()]
        elif len({(run.place, run.stream_id) for run in same}) == len(same):
            found.append((label, same))
        else:
            found += [(f"{label} ({run.folder.name})", [run]) for run in same]
    return found


def average(several: Sequence[Group]) -> float | None:
    """The mean of the settings' means; None unless all are known and share one protocol."""
    means = [group.row["accuracy"] for group in several]
    same = alike(group.runs[0].protocol for group in several if group.runs)
    return mean(means) if same and None not in means else None


# ---- for figures ---------------------------------------------------------------------------------------

Methods = list[tuple[str, list[Run]]]  # the runs of each method, by its name in tables


def methods_by_setting(runs: Iterable[Run]) -> dict[str, Methods]:
    """The runs of each method in each setting."""
    return {name: apart(same) for name, same in settings(runs).items()}


def styles_of(found: Mapping[str, Methods]) -> dict[str, Style]:
    """The style of each method in all settings; the source model comes first, then by name."""
    methods = {label: runs[0] for methods in found.values() for label, runs in methods}
    ordered = sorted(methods.items(), key=lambda item: (item[1].adapts, natural(item[0])))
    return method_styles((label, run.provenance["method"]) for label, run in ordered)
