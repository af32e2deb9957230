"""Fit f, which maps weighted flips to the source model's accuracy, to the runs of a suite."""

from pathlib import Path

import numpy as np

from ...command_parser import Parser
from ..results.flip_points import fit_points, points


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("estimators fit", __doc__, "runs/flips-glyphs --out f.json")
    parser.add("folders", type=Path, nargs="+", help="folders of suites with WeightedFlips")
    parser.add("--streams", default="*", help="glob pattern of stream names (default: all)")
    parser.add("--method", default="*", help="glob pattern of the adapting method (default: all)")
    parser.add("--degree", type=int, default=2, choices=(1, 2, 3))
    parser.flag("--unweighted", "fit to unweighted flips")
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
    print(f"mean absolute error on these streams: {100 * np.mean(errors):.2f} points")
    return 0
