"""Fit f, which turns weighted flips into the source model's accuracy, to runs of a suite."""

from pathlib import Path

import numpy as np

from ...command_parser import Parser
from ..results.flip_points import fit_points, points


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("estimators fit", __doc__, "runs/flips-glyphs --out f.json")
    parser.add("folders", type=Path, nargs="+", help="of suites with WeightedFlips")
    parser.add("--streams", default="*", help="pattern of the streams' names")
    parser.add("--method", default="*", help="pattern of the adapting method's name")
    parser.add("--degree", type=int, default=2, choices=(1, 2, 3))
    parser.flag("--unweighted", "fit to flips without weights")
    parser.add("--out", type=Path, required=True, help="JSON file for WeightedFlips(f=...)")
    return parser


def main(argv: list[str]) -> int:
    """Fit, print the quality of the fit, and write the file."""
    args = parser().parse_args(argv)
    found = points(args.folders, args.streams, args.method)
    f = fit_points(found, args.degree, not args.unweighted)
    f.save(args.out)
    errors = [abs(f(p.flips[f.weighted]) - p.accuracy) for p in found]
    terms = ", ".join(f"{c:.6g}" for c in f.coefficients)
    print(
        f"{args.out}: coefficients {terms} (highest degree first), fitted to {len(found)} streams,"
    )
    print(f"on which it is wrong by {100 * np.mean(errors):.2f} points in the mean")
    return 0
