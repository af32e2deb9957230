"""Results of the ensembles of `holdfast train --ensemble` by source of diversity, shift and seed."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .... import HoldfastError
from ....callbacks.functional.aline import pairs
from ...results.agreement_plot import Points, points
from ...results.model_agreement import Estimates, Models, estimate, from_files, shares

Array = np.ndarray


class Ensemble(NamedTuple):
    """An ensemble: the file that describes it, its names there, and its source of diversity ("head-1").

    With several names, all these models form one ensemble.
    """

    file: str
    names: tuple[str, ...]
    source: str

    @classmethod
    def read(cls, declared: list[Any]) -> "Ensemble":
        """Read an ensemble from the declaration in a paper's file."""
        file, names, source = declared
        return cls(file, tuple(names), source)

    def __str__(self) -> str:
        return f"{self.file}, {' + '.join(self.names)}: {self.source}"


class Seen(NamedTuple):
    """The results of one ensemble on one shift with one seed."""

    models: Models
    result: Estimates
    truth: Array  # accuracy out of distribution, [m]
    outside: float  # mean agreement minus mean accuracy out of distribution
    inside: float  # the same in distribution
    points: Points


Evidence = Mapping[Ensemble, Mapping[str, Mapping[int, Seen]]]  # by shift and seed


def evidence(folders: list[Path], wanted: Iterable[Ensemble]) -> Evidence:
    """Collect the results of ensembles with models in FOLDER/NAME/seedS/SOURCE-SHARE/MEMBER.npz.

    A folder has the name of the file that describes its ensembles.
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
                by_shift.setdefault(models.stream, {})[seed] = seen(models)
    return found


def seen(models: Models) -> Seen:
    """The results of one ensemble on one shift."""
    (inside, truth), agreement = shares(models)
    if truth is None:
        raise HoldfastError(
            f"{models.stream} has no labels, which the claims need. Add them to its predictions."
        )
    pair = pairs(len(inside))
    excess = [
        float(a[pair].mean() - b.mean()) for a, b in zip(agreement, (inside, truth), strict=True)
    ]
    given = ((inside, truth), agreement, models.samples)
    return Seen(models, estimate(models), truth, excess[1], excess[0], points(*given))
