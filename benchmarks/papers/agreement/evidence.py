"""What the ensembles of `holdfast ensemble` show, for each source of diversity, shift and seed."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .... import HoldfastError
from ....callbacks.functional.agreement import Resampled, resampled_lines
from ...results.agreement import Estimates, Models, best_of_both, estimate, from_files, shares
from ...results.lines import Points, points

Array = np.ndarray
REPEATS = 400
BASELINES = ("AC (oracle)", "DoC (oracle)", "ATC-MC (oracle)", "ATC-NE (oracle)")


class Ensemble(NamedTuple):
    """Which models: the file they are described in, their names there, and how they differ ("head-1").

    Several names: all of these models as one ensemble.
    """

    file: str
    names: tuple[str, ...]
    source: str

    def __str__(self) -> str:
        return f"{self.file}, {' + '.join(self.names)}: {self.source}"


class Seen(NamedTuple):
    """One ensemble on one shift with one seed: as it is, and drawn anew from its models."""

    models: Models
    result: Estimates
    own: Resampled  # as it is, one row
    drawn: Resampled  # REPEATS rows
    points: Points


Evidence = Mapping[Ensemble, Mapping[str, Mapping[int, Seen]]]  # by shift and seed


def evidence(folders: list[Path], wanted: Iterable[Ensemble]) -> Evidence:
    """Of these ensembles, whose models lie in FOLDER/NAME/seedS/SOURCE-SHARE/MEMBER.npz.

    A folder is called like the file that describes its ensembles.
    """
    found: dict[Ensemble, dict[str, dict[int, Seen]]] = {}
    for ensemble in wanted:
        of_seed = defaultdict(list)
        for folder in (folder for folder in folders if folder.name == ensemble.file):
            for name in ensemble.names:
                for file in sorted(folder.glob(f"{name}/seed*/{ensemble.source}/*.npz")):
                    of_seed[int(file.parts[-3].removeprefix("seed"))].append(file)
        for seed, files in sorted(of_seed.items()):
            for models in from_files(files, "", seed):
                by_shift = found.setdefault(ensemble, {})
                by_shift.setdefault(models.stream, {})[seed] = seen(models, seed)
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
    return Seen(
        models,
        result,
        resampled_lines(*given, 1, None, others),
        resampled_lines(*given, REPEATS, np.random.default_rng(seed), others),
        points(*given),
    )


def each_seed(found: Evidence, ensemble: Ensemble, shifts: Sequence[str]) -> dict[int, list[Seen]]:
    """What an ensemble shows on these shifts, for the seeds that have all of them."""
    by_shift = found.get(ensemble, {})
    seeds = [set(by_shift.get(shift, {})) for shift in shifts]
    return {s: [by_shift[shift][s] for shift in shifts] for s in sorted(set.intersection(*seeds))}
