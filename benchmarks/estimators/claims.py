"""The claims of Saxena et al. 2024 about ensembles, checked on those of `holdfast ensemble`.

A mechanism check at the embedded scale, not a reproduction:

    holdfast ensemble glyphs
    holdfast ensemble glyphs-whole
    holdfast estimators claims runs/ensembles/glyphs runs/ensembles/glyphs-whole
"""

import argparse
from pathlib import Path

from ...files import write_json
from ..papers.agreement.claims import CLAIMS, Verdict, judge
from ..papers.agreement.evidence import Number, evidence, summary
from ..results.text import aligned


def main(argv: list[str]) -> int:
    """Print each claim's verdict with its least difference, and keep the numbers if asked."""
    parser = argparse.ArgumentParser(
        prog="holdfast estimators claims",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", type=Path, nargs="+", help="of ensembles")
    parser.add_argument("--out", type=Path, help="JSON file for verdicts and lines")
    args = parser.parse_args(argv)
    found = evidence(args.folders)
    verdicts = [judge(claim, found) for claim in CLAIMS]
    print(aligned([["", "claim", "verdict", "least difference, 95 %"], *map(line, verdicts)]))
    if args.out:
        names = " ".join(map(str, args.folders))
        content = {
            "command": f"holdfast estimators claims {names} --out {args.out.name}",
            "about": "a mechanism check at the embedded scale, not a reproduction",
            "claims": [as_json(verdict) for verdict in verdicts],
            "ensembles": summary(found),
        }
        write_json(args.out, content)
    return 0


def line(verdict: Verdict) -> list[str]:
    """A row of the table."""
    least = min(verdict.numbers, key=lambda n: n.low, default=None)
    return [verdict.key, verdict.text, verdict.state, "-" if least is None else said(least)]


def said(number: Number) -> str:
    """A difference with its interval."""
    return f"{number.mean:+.3f} [{number.low:+.3f}, {number.high:+.3f}], {number.seeds} seeds"


def as_json(verdict: Verdict) -> dict:
    """For programs."""
    numbers = [
        {key: round(value, 4) for key, value in number._asdict().items()}
        for number in verdict.numbers
    ]
    return {**verdict._asdict(), "numbers": numbers}
