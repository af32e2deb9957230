"""The claims of Saxena et al. 2024 about ensembles, checked on those of `holdfast ensemble`.

A mechanism check at the embedded scale, not a reproduction:

    holdfast ensemble glyphs
    holdfast ensemble glyphs-whole
    holdfast estimators claims runs/ensembles/glyphs runs/ensembles/glyphs-whole
"""

import argparse
from pathlib import Path
from typing import Any

from ...files import write_json
from ..papers.agreement.claims import CLAIMS, Verdict, judge
from ..papers.agreement.evidence import Number, evidence, summary
from ..results.text import aligned

SHOWN = ("agreement", "ALine-S", "ALine-D", "DoC (oracle)", "ATC-MC (oracle)")
ABOUT = """\
A mechanism check at the embedded scale, not a reproduction: glyphs, the embedded net as base model,
corruptions as shifts. Each difference is above 0 where the claim holds; its interval is over seeds and
models. "Not run" stands also where the best model has less than a quarter right in distribution, as the
probes of pixels (C6), and where there is one base only (C4). Subset-0.1 is a tenth of the images for each
model; head-0.1 and order-0.1 share one tenth."""


def main(argv: list[str]) -> int:
    """Print each claim's verdict with its least difference, and keep the numbers if asked."""
    parser = argparse.ArgumentParser(
        prog="holdfast estimators claims",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", type=Path, nargs="+", help="of ensembles")
    parser.add_argument("--out", type=Path, help="JSON file for verdicts and lines")
    parser.add_argument("--page", type=Path, help="the same as a page in Markdown")
    args = parser.parse_args(argv)
    found = evidence(args.folders)
    verdicts = [judge(claim, found) for claim in CLAIMS]
    print(aligned([["", "claim", "verdict", "least difference, 95 %"], *map(line, verdicts)]))
    names = " ".join(map(str, args.folders))
    content = {
        "command": f"holdfast estimators claims {names} --out claims.json --page claims.md",
        "about": ABOUT,
        "claims": [as_json(verdict) for verdict in verdicts],
        "ensembles": summary(found),
    }
    if args.out:
        write_json(args.out, content)
    if args.page:
        args.page.write_text(page(content))
    return 0


def page(content: dict[str, Any]) -> str:
    """Verdicts and lines as Markdown."""
    claims = [
        [c["key"], c["text"], c["state"], said(least) if (least := smallest(c)) else "not run"]
        for c in content["claims"]
    ]
    lines = []
    for row in content["ensembles"]:
        both = [
            f"{row[f'{kind} slope']:.2f}, {row[f'{kind} bias']:+.2f}, {row[f'{kind} r2']:.2f}"
            for kind in ("accuracy", "agreement")
        ]
        errors = [f"{row['errors'][name]:.1f}" for name in SHOWN]
        lines.append([row["ensemble"], row["shift"], *both, f"{row['excess ID']:+.2f}", *errors])
    return "\n".join(
        [
            "# Agreement-on-the-line for finetuned models (Saxena et al. 2024)",
            f"\n{content['about']}\n",
            f"    {content['command']}\n",
            *markdown([["", "claim", "verdict", "least difference, 95 %"], *claims]),
            "\nLines on probit axes (slope, bias, R²), mean agreement less mean accuracy in distribution,",
            "and mean absolute errors in points; means over the seeds.\n",
            *markdown([["ensemble", "shift", "accuracy", "agreement", "excess", *SHOWN], *lines]),
            "",
        ]
    )


def smallest(claim: dict[str, Any]) -> Number | None:
    """The difference with the lowest end."""
    return min((Number(**n) for n in claim["numbers"]), key=lambda n: n.low, default=None)


def markdown(lines: list[list[str]]) -> list[str]:
    """A table."""
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return [rows[0], "|---" * len(lines[0]) + "|", *rows[1:]]


def line(verdict: Verdict) -> list[str]:
    """A row of the table."""
    least = min(verdict.numbers, key=lambda n: n.low, default=None)
    return [verdict.key, verdict.text, verdict.state, "-" if least is None else said(least)]


def said(number: Number) -> str:
    """A difference with its interval."""
    return f"{number.mean:+.3f} [{number.low:+.3f}, {number.high:+.3f}], {number.seeds} seeds"


def as_json(verdict: Verdict) -> dict[str, Any]:
    """For programs."""
    numbers = [
        {key: round(value, 4) for key, value in number._asdict().items()}
        for number in verdict.numbers
    ]
    return {**verdict._asdict(), "numbers": numbers}
