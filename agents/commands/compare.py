"""`holdfast cite compare`: paired comparison of two runs, repeated or not."""

import argparse
import json
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ..compare import compare
from ..results import read
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
        f"A {spread(figures['a'])}, B {spread(figures['b'])}\n"
        f"A - B = {100 * figures['difference']:+.1f} points "
        f"[{100 * figures['interval'][0]:+.1f}, {100 * figures['interval'][1]:+.1f}], "
        f"{figures['test']} p = {figures['p']:.4f}"
    )


def spread(run: dict[str, Any]) -> str:
    """A run's accuracy, over repeats if there are several."""
    deviation = f" ± {100 * run['sd']:.1f}" if run["repeats"] > 1 else ""
    repeats = f" over {run['repeats']} repeats" if run["repeats"] > 1 else ""
    return f"{100 * run['mean']:.1f}{deviation} %{repeats}"


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="holdfast cite compare",
        description=__doc__,
        epilog="example: holdfast cite compare runs/bm25.jsonl runs/rules.jsonl",
    )
    parser.add_argument("a", type=Path, metavar="RUN_A")
    parser.add_argument("b", type=Path, metavar="RUN_B")
    data_options(parser, default=None)
    parser.add_argument("--strict", action="store_true", help="use the strict matcher")
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    return parser
