"""Weighted flips: how predictions on held-out images change while a model adapts."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from ... import HoldfastError
from ...files import read_json, write_json, written
from .bands import Band, prediction_band

Array = np.ndarray
_SCALE = 1000  # flips are counted per this number of held-out images
_RESNET50 = 25_557_032  # its parameters, in torchvision and in timm


def flips(start: Array, end: Array, confidence: Array, weighted: bool = True) -> float:
    """Flips per 1,000 held-out images from their classes [n] at the start and at the end (Press et al.).

    Weighted: a flip counts by the rank of its confidence at the start, from 1/n to 1 (equal confidences
    share their mean rank), so that flips of confident predictions count most.

    >>> flips(np.array([0, 1, 2]), np.array([0, 2, 0]), np.array([0.9, 0.8, 0.5]))
    333.3333333333333
    """
    weight = rankdata(confidence) / len(confidence) if weighted else np.ones(len(confidence))
    return float(weight[np.asarray(start) != np.asarray(end)].sum()) * _SCALE / len(confidence)


class FlipFunction(NamedTuple):
    """f: the accuracy in percent as a polynomial of the flips, and what it was fitted to."""

    coefficients: tuple[float, ...]  # highest degree first
    weighted: bool
    parameters: int  # of the backbone to which it applies
    provenance: dict[str, Any]

    def __call__(self, count: float) -> float:
        """Accuracy in [0,1], clipped as in the paper; the official code does not clip."""
        return float(np.clip(np.polyval(self.coefficients, count) / 100, 0, 1))

    def band(self, count: float) -> Band | None:
        """The 95 % prediction interval in [0,1]; None if the pairs that f was fitted to are not known."""
        pairs = np.array(self.provenance.get("pairs", []), dtype=np.float64).reshape(-1, 2)
        degree = len(self.coefficients) - 1
        if len(pairs) < degree + 2:
            return None
        _, low, high = prediction_band(pairs[:, 0], pairs[:, 1] / 100, count, degree)
        return max(0.0, low), min(1.0, high)

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        with written(path, "or choose another --out."):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, self._asdict())

    @classmethod
    def load(cls, name: str | Path) -> "FlipFunction":
        """A published f by its name, or one that `holdfast estimators fit` wrote.

        Raises HoldfastError if there is none, or the file does not describe an f.
        """
        if name in PUBLISHED:
            return PUBLISHED[str(name)]
        if not Path(name).is_file():
            raise HoldfastError(
                f"Unknown f '{name}'. Pass a published one ({', '.join(PUBLISHED)}) or a file "
                "written by `holdfast estimators fit`."
            )
        try:
            facts = read_json(Path(name))
            facts["coefficients"] = tuple(map(float, facts["coefficients"]))
            return cls(**facts)
        except (HoldfastError, ValueError, TypeError, KeyError):
            raise HoldfastError(
                f"{name} does not contain an f. Pass a file written by `holdfast estimators fit`."
            ) from None


def fit(pairs: Array, degree: int, weighted: bool, parameters: int, **facts: Any) -> FlipFunction:
    """The least-squares polynomial through pairs [k,2] of flips and accuracy in percent.

    Raises HoldfastError if there are too few pairs.
    """
    pairs = np.asarray(pairs, dtype=np.float64)
    if len(np.unique(pairs[:, 0])) <= degree:
        raise HoldfastError(
            f"{len(pairs)} pairs do not determine a polynomial of degree {degree}. Measure the "
            "flips on more streams."
        )
    coefficients = tuple(float(c) for c in np.polyfit(pairs[:, 0], pairs[:, 1], degree))
    return FlipFunction(coefficients, weighted, parameters, {**facts, "pairs": pairs.tolist()})


_OFFICIAL = {
    "origin": "Press et al., WeightedFlips, fitted to ImageNet's holdout corruptions; official code",
    "stop": 990,
}
PUBLISHED = {
    "resnet50": FlipFunction((3.55553868e-4, -0.321445023, 75.661858), True, _RESNET50, _OFFICIAL),
    "resnet50-unweighted": FlipFunction(
        (-1.01165493e-5, -0.0959406999, 82.5756446), False, _RESNET50, _OFFICIAL
    ),
    "resnet50-unweighted-linear": FlipFunction(
        (-0.10318227, 83.55158891), False, _RESNET50, _OFFICIAL
    ),
}
