"""`holdfast cite compare`: paired comparison of two runs (McNemar)."""

import argparse
import json
from pathlib import Path

from ... import HoldfastError
from ..results import read
from ..score import compare
from .options import data_options, dataset_of


def main(argv: list[str]) -> None:
    """Print how many samples both, one or neither of the runs got right, and the test's p-value."""
    args = parser().parse_args(argv)
    (header_a, a), (header_b, b) = read(args.a), read(args.b)
    if header_a["dataset"]["sha256"] != header_b["dataset"]["sha256"]:
        raise HoldfastError("the two runs are on different data: compare runs on the same file.")
    figures = compare(a, b, dataset_of(args, header_a, args.a), strict=args.strict)
    if args.json:
        print(json.dumps(figures, indent=1))
        return
    print(
        f"A {args.a}\nB {args.b}\n"
        f"{figures['pairs']} pairs, split = {figures['split']}, {figures['matcher']} matcher\n"
        f"right by both {figures['both']}, only A {figures['only_a']}, only B {figures['only_b']}, "
        f"neither {figures['neither']}\n"
        f"A - B = {100 * figures['difference']:+.1f} points, exact McNemar p = {figures['p']:.4f}"
    )


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(prog="holdfast cite compare", description=__doc__)
    parser.add_argument("a", type=Path, metavar="RUN_A")
    parser.add_argument("b", type=Path, metavar="RUN_B")
    data_options(parser, default=None)
    parser.add_argument("--strict", action="store_true", help="use the strict matcher")
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    return parser
