"""Compare an implementation of the corruptions with the committed vectors of `conformance.json`.

`python -m holdfast.datamodules.corruptions.conformance` checks Holdfast's engine, with
`MODULE:FUNCTION` another function with the signature of `imagecorruptions.corrupt`. The file holds,
for each corruption and severity, nine statistics of the corrupted `conformance.png` in grey levels
(the means of green, red - green and blue - green; each channel's standard deviation and mean absolute
difference between horizontal neighbours), averaged over seeds 0 to 63, their standard errors (0
unless the corruption is random), and the SHA-256 of the pixels [H,W,3] of seed 0.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ... import HoldfastError, in_range
from ...imagenet import CORRUPTIONS, EXTRA
from .image import read
from .imagecorruptions import corrupt

VECTORS = Path(__file__).with_name("conformance.json")
SEEDS = 64
TOLERANCE = 0.25  # grey levels, beyond which a statistic differs,
STANDARD_ERRORS = 5  # if by more than this many standard errors, too

Corrupt = Callable[..., np.ndarray]


class Comparison(NamedTuple):
    """One corruption at one severity, compared with its vector.

    identical: whether the pixels of the first seed are the same. excess: the largest difference of a
    statistic in units of what is tolerated; at most 1 conforms.
    """

    name: str
    severity: int
    identical: bool
    excess: float


def image() -> np.ndarray:
    """The test image, RGB uint8 [H,W,3]."""
    return read(VECTORS.with_suffix(".png"))


def vectors() -> dict[str, Any]:
    """The content of conformance.json, computed anew."""
    return {
        f"{name}.{severity}": _vector(_outputs(corrupt, name, severity, SEEDS, seeded=True))
        for name in CORRUPTIONS + EXTRA
        for severity in range(1, 6)
    }


def comparisons(
    function: Corrupt, seeds: int = SEEDS, seeded: bool = False
) -> Iterator[Comparison]:
    """Compare function(image, severity=, corruption_name=) -> uint8 [H,W,3] with every vector.

    Args:
        function: the implementation.
        seeds: number of calls per vector, each after `np.random.seed`.
        seeded: whether the function takes `seed=`.
    """
    for key, vector in json.loads(VECTORS.read_text()).items():
        name, severity = key.split(".")
        measured = _vector(_outputs(function, name, int(severity), seeds, seeded))
        # Of the difference between the means of SEEDS and of `seeds` images from one distribution.
        error = np.array(vector["errors"]) * (1 + SEEDS / seeds) ** 0.5
        difference = np.subtract(vector["statistics"], measured["statistics"])
        excess = np.abs(difference) / np.maximum(TOLERANCE, STANDARD_ERRORS * error)
        identical = vector["sha256"] == measured["sha256"]
        yield Comparison(name, int(severity), identical, float(excess.max()))


def _outputs(
    function: Corrupt, name: str, severity: int, seeds: int, seeded: bool
) -> Iterator[np.ndarray]:
    """The corrupted test image of each seed."""
    pixels = image()
    for seed in range(seeds):
        np.random.seed(seed)  # noqa: NPY002, the only way to seed imagecorruptions
        options = {"seed": seed} if seeded else {}
        yield function(pixels.copy(), severity=severity, corruption_name=name, **options)


def _vector(outputs: Iterator[np.ndarray]) -> dict[str, Any]:
    """The statistics of images [H,W,3] and the hash of the first one."""
    images = np.stack(list(outputs))
    x = images.astype(np.float64)
    detail = np.abs(np.diff(x, axis=2)).mean((1, 2))
    red, green, blue = x.mean((1, 2)).T
    means = np.stack([green, red - green, blue - green], axis=1)
    values = np.concatenate([means, x.std((1, 2)), detail], axis=1)
    errors = values.std(0, ddof=1) / len(values) ** 0.5
    return {
        "sha256": hashlib.sha256(np.ascontiguousarray(images[0]).tobytes()).hexdigest(),
        "statistics": values.mean(0).round(4).tolist(),
        "errors": errors.round(4).tolist(),
    }


def main(argv: list[str]) -> int:
    """Print a line per corruption; return 1 if a statistic differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "function", nargs="?", metavar="MODULE:FUNCTION", help="default: Holdfast's"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"default: {SEEDS}")
    parser.add_argument("--write", action="store_true", help="write the file anew, by Holdfast")
    args = parser.parse_args(argv)
    if args.write:
        lines = [f'"{key}": {json.dumps(vector)}' for key, vector in vectors().items()]
        VECTORS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return 0
    in_range(2, seeds=args.seeds)
    function = _imported(args.function) if args.function else corrupt
    results = list(comparisons(function, args.seeds, seeded=not args.function))
    for result in results:
        verdict = "identical" if result.identical else "conforms"
        verdict = verdict if result.excess <= 1 else "differs"
        print(f"{result.name:18} {result.severity}  {verdict:9}  {result.excess:.2f}")
    differing = sum(result.excess > 1 for result in results)
    identical = sum(result.identical for result in results)
    print(f"{len(results)} vectors: {identical} identical pixels, {differing} differ")
    return int(differing > 0)


def _imported(path: str) -> Corrupt:
    """The function MODULE:FUNCTION."""
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise HoldfastError(
            f"{path} cannot be imported ({error}). Pass MODULE:FUNCTION."
        ) from error


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except HoldfastError as error:
        sys.exit(f"conformance: {error}")
