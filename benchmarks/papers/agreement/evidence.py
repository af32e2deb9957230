"""What the ensembles of `holdfast ensemble` show, for each source of diversity, shift and seed."""

from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .... import HoldfastError
from ....callbacks.functional.agreement import Resampled, resampled_lines
from ...results.agreement import Estimates, Models, best_of_both, estimate, from_files, shares

Array = np.ndarray
REPEATS = 400
BASELINES = ("AC (oracle)", "DoC (oracle)", "ATC-MC (oracle)", "ATC-NE (oracle)")


class Ensemble(NamedTuple):
    """Which models: their name in the YAML, and how they differ ("head-1")."""

    name: str
    source: str

    def __str__(self) -> str:
        return f"{self.name} {self.source}"


BASES = Ensemble("probe", "bases")  # all bases with random heads as one ensemble


class Seen(NamedTuple):
    """One ensemble on one shift with one seed: as it is, and drawn anew from its models."""

    result: Estimates
    own: Resampled  # as it is, one row
    drawn: Resampled  # REPEATS rows
    models: int
    best: float  # accuracy in distribution of the best model


Evidence = dict[Ensemble, dict[str, dict[int, Seen]]]  # by shift and seed


def evidence(folders: list[Path]) -> Evidence:
    """Of all ensembles below these folders: FOLDER/NAME/seedS/SOURCE-SHARE/MEMBER.npz."""
    found: Evidence = defaultdict(lambda: defaultdict(dict))
    for folder in folders:
        groups: dict[tuple[Ensemble, int], list[Path]] = defaultdict(list)
        for file in sorted(folder.glob("*/seed*/*/*.npz")):
            name, seed, source = file.parts[-4], int(file.parts[-3][4:]), file.parts[-2]
            groups[Ensemble(name, source), seed].append(file)
            if source == "head-1" and "pixels" not in name and name.startswith("probe"):
                groups[BASES, seed].append(file)
        groups = {k: own for k, own in groups.items() if k[0] != BASES or several(own)}
        for (ensemble, seed), files in groups.items():
            for models in from_files(files, "", seed):
                found[ensemble][models.stream][seed] = seen(models, seed)
    if not found:
        raise HoldfastError(f"{folders[0]} has no ensembles: make them with `holdfast ensemble`.")
    return found


def seen(models: Models, seed: int) -> Seen:
    """What one ensemble shows on one shift."""
    result = estimate(models)
    (inside, truth), agreement = shares(models)
    if truth is None:
        raise HoldfastError(f"{models.stream} has no labels: its claims cannot be checked.")
    oracle = best_of_both(result)
    others = np.array([oracle.get(name, np.full(len(truth), np.nan)) for name in BASELINES])
    given = ((inside, truth), agreement, models.samples)
    own = resampled_lines(*given, 1, None, others)
    drawn = resampled_lines(*given, REPEATS, np.random.default_rng(seed), others)
    return Seen(result, own, drawn, len(truth), float(inside.max()))


def several(files: list[Path]) -> bool:
    """Whether they are of more than one base."""
    return len({file.parts[-4] for file in files}) > 1


class Number(NamedTuple):
    """A difference over seeds: its mean, and the interval of 95 % over seeds and models."""

    mean: float
    low: float
    high: float
    seeds: int


def number(own: Array, drawn: Array) -> Number:
    """From values of each seed [s] and of its ensembles drawn anew [s,r]: seeds are drawn anew, too.

    With one seed the interval is that of its models alone.
    """
    random = np.random.default_rng(0)
    count, repeats = drawn.shape
    chosen = random.integers(count, size=(repeats, count))
    means = drawn[chosen, np.arange(repeats)[:, None]].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Number(float(own.mean()), float(low), float(high), count)


def summary(found: Evidence) -> list[dict[str, Any]]:
    """A row for each ensemble and shift: means over the seeds, for a file and a table."""
    rows = []
    for ensemble, by_shift in sorted(found.items()):
        for shift, by_seed in by_shift.items():
            own = list(by_seed.values())
            names = ("slope", "bias", "r2")
            lines = {
                f"{kind} {name}": np.mean([getattr(s.own, kind)[0, k] for s in own])
                for kind in ("accuracy", "agreement")
                for k, name in enumerate(names)
            }
            errors = {
                name: 100 * np.mean([np.abs(e - s.result.truth).mean() for s, e in pairs])
                for name in ("agreement", "ALine-S", "ALine-D", *BASELINES)
                if (pairs := estimates_named(name, own))
            }
            excess = np.mean([s.own.excess[0] for s in own], 0)
            rows.append(
                {
                    **{"ensemble": str(ensemble), "shift": shift, "seeds": len(own)},
                    "models": own[0].models,
                    **{key: round(float(value), 3) for key, value in lines.items()},
                    "excess ID": round(float(excess[0]), 3),
                    "excess OOD": round(float(excess[1]), 3),
                    "errors": {key: round(float(value), 2) for key, value in errors.items()},
                }
            )
    return rows


def estimates_named(name: str, own: list[Seen]) -> list[tuple[Seen, Array]]:
    """That estimate of each seed; none if a seed lacks it."""
    all_estimates = [{**s.result.estimates, **best_of_both(s.result)} for s in own]
    if not all(name in e for e in all_estimates):
        return []
    return [(s, e[name]) for s, e in zip(own, all_estimates, strict=True)]
