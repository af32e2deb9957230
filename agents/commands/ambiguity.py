"""`holdfast cite ambiguity`: how many excerpts cite several papers at once, at the least."""

import argparse
import json
from pathlib import Path

from ... import HoldfastError
from ..curation.ambiguity import excerpts, is_ambiguous
from ..curation.quality import published
from ..rates import proportion
from ..report.text import percent


def main(argv: list[str]) -> None:
    """Print the share for each file, beside CiteME's table 6; with --list the excerpts too."""
    args = parser().parse_args(argv)
    figures = {}
    for path in args.files:
        judged, unmarked = [], 0
        for excerpt, target in excerpts(path):
            try:
                judged.append((is_ambiguous(excerpt, target or args.target), excerpt))
            except ValueError:
                unmarked += 1
        if not judged:
            raise HoldfastError(
                f"{path} has no excerpt that marks its target: name the mark with --target, or have a "
                "column target."
            )
        rate = proportion(sum(found for found, _ in judged), len(judged))
        figures[str(path)] = {**rate, "unmarked": unmarked}
        if not args.json:
            left = f"; {unmarked} without a mark of the target left out" if unmarked else ""
            print(f"{path.name}: {percent(rate)}{left}")
            if args.list:
                print(*(f"  {' '.join(e.split())}" for found, e in judged if found), sep="\n")
    if args.json:
        print(json.dumps(figures, indent=1))
        return
    printed = ", ".join(f"{name} {value} %" for name, value in published()["ambiguous"].items())
    print(f"CiteME, table 6, by an expression that is not printed there: {printed}.")


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="holdfast cite ambiguity",
        description=__doc__,
        epilog="example: holdfast cite ambiguity DATASET.csv --list",
    )
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="one excerpt a line, or a table"
    )
    parser.add_argument(
        "--target", metavar="MARK", help="what marks the citation (TARGETCIT or [CITATION])"
    )
    parser.add_argument("--list", action="store_true", help="print the ambiguous excerpts")
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    return parser
