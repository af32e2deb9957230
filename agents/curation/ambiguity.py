r"""`holdfast cite ambiguity`: a lower bound on the share of excerpts that cite several papers at once.

CiteME, appendix A.1, table 6. Only citations in one group are detected, such as `\cite{a, TARGETCIT}`,
`[OTHERCIT, TARGETCIT]`, `(Lee 1998; TARGETCIT)` or `TARGETCIT OTHERCIT`. The paper prints no regular
expression; this one is Holdfast's.
"""

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ...files import reason
from ..commands.options import CiteParser
from ..data import MARKER
from ..schema import Shape, Text, checked
from ..stats import proportion
from .data_quality import published

TARGETS = ("TARGETCIT", MARKER)
# Another citation: a masked one, a LaTeX command, numbers in brackets, a name and a year.
NO_NAME = r"(?!(?:In|Since|By|From|Until|Before|After|During)\b)"
AUTHOR = NO_NAME + r"[A-Z][^\s\d,;()\[\]]+"
NAME = rf"{AUTHOR}(?:\s+(?:et\s+al\.?|(?:and|&)\s+{AUTHOR}))?"
NUMBERS = r"\[\d+(?:\s*[,–-]\s*\d+)*\]"
OTHER = rf"(?:OTHERCIT|\\cite[a-z]*\*?\{{[^}}]*\}}|{NUMBERS}|{NAME},?\s+\(?(?:19|20)\d\d[a-z]?)"
# Text allowed between citations of one group, including the letter of a year ("TARGETCIT a").
LINK = r"(?:\s+[a-z]\b(?!\s+\w))?[\s,;&(\[\])]*(?:\band\b)?[\s,;&(\[]*"
BEFORE = re.compile(OTHER + r"[\s,;&)\]]*(?:\band\b)?[\s,;&(\[]*$")
AFTER = re.compile(LINK + OTHER)
KEYS = re.compile(r"\\cite[a-z]*\*?(?:\[[^\]]*\])*\{([^}]*)$")


class ExcerptRow(Shape):
    """A user's own excerpt; CiteME's code says `context`, and `target` marks what it cites."""

    excerpt: Text = None
    context: Text = None
    target: Text = None


def is_ambiguous(excerpt: str, target: str | None = None) -> bool:
    """Whether the target is cited together with other papers; `target` is its mark or LaTeX key.

    Raises:
        ValueError: if the excerpt does not mark its target.
    """
    marks = [target] if target else [mark for mark in TARGETS if mark in excerpt]
    if not marks or marks[0] not in excerpt:
        raise ValueError("the excerpt does not mark its target")
    before, _, after = excerpt.partition(marks[0])
    if keys := KEYS.search(before):  # within the braces of a LaTeX command
        return "," in keys[1] or "," in after.partition("}")[0]
    if BEFORE.search(before) or AFTER.match(after):
        return True
    group = bracketed(before, after)
    return bool(re.search(OTHER, group)) or bool(re.search(r"(?:^|,)\s*\d+\s*(?:,|$)", group))


def bracketed(before: str, after: str) -> str:
    """The rest of the bracket around the target; "" if it is not in brackets."""
    opened = max(before.rfind("("), before.rfind("["))
    if opened < 0 or re.search(r"[)\]]", before[opened:]):
        return ""
    closed = re.search(r"[()\[\]]|\.\s+[A-Z]", after)
    if not closed or closed[0] not in ")]":
        return before[opened + 1 :]
    return before[opened + 1 :] + "," + after[: closed.start()]


def excerpts(path: Path) -> Iterator[tuple[str, str | None]]:
    """The excerpts of a file and the marks of their targets (None if the file has no such column).

    A table (.csv, .tsv) or JSON Lines (.jsonl) with `excerpt` or `context` and optionally `target`; any
    other file has one excerpt per line.

    Raises:
        HoldfastError: if the file cannot be read as excerpts.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            if path.suffix in (".csv", ".tsv"):
                rows = csv.DictReader(
                    file, restkey="", delimiter="\t" if path.suffix == ".tsv" else ","
                )
                yield from (cells(row) for row in rows)
            elif path.suffix == ".jsonl":
                yield from (cells(json.loads(line)) for line in file if line.strip())
            else:
                yield from ((line, None) for line in file if line.strip())
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        raise HoldfastError(
            f"Cannot read {path} as excerpts ({reason(error)}). Pass a .csv, .tsv or .jsonl file with the "
            "column excerpt, or a file with one excerpt per line."
        ) from None


def cells(row: Any) -> tuple[str, str | None]:
    """The excerpt and the target's mark of a row; raises `ValueError` without an excerpt."""
    found: ExcerptRow = checked(row, ExcerptRow)
    excerpt = found.excerpt or found.context
    if not excerpt:
        raise ValueError("the column excerpt is missing or empty")
    return excerpt, found.target or None


def main(argv: list[str]) -> None:
    """Print each file's share of ambiguous excerpts, with CiteME's table 6 for comparison."""
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
                f"{path} has no excerpt that marks its target. Name the mark with --target, or add a "
                "column target."
            )
        rate = proportion(sum(found for found, _ in judged), len(judged))
        figures[str(path)] = {**asdict(rate), "unmarked": unmarked}
        if not args.json:
            left = f"; {unmarked} without a mark of the target excluded" if unmarked else ""
            print(f"{path.name}: {rate}{left}")
            if args.list:
                print(*(f"  {' '.join(e.split())}" for found, e in judged if found), sep="\n")
    if args.json:
        print(json.dumps(figures, indent=1))
        return
    printed = ", ".join(f"{name} {value} %" for name, value in published()["ambiguous"].items())
    print(f"CiteME, table 6 (its regular expression is not published): {printed}.")


def parser() -> CiteParser:
    parser = CiteParser(
        "ambiguity",
        "Estimate how many excerpts cite several papers (a lower bound).",
        "DATASET.csv --list",
    )
    which = "one excerpt per line, or a table with the column excerpt"
    parser.add("files", nargs="+", type=Path, metavar="FILE", help=which)
    mark = "the text that marks the citation (default: TARGETCIT or [CITATION])"
    parser.add("--target", metavar="MARK", help=mark)
    parser.flag("--list", "print the ambiguous excerpts")
    parser.json()
    return parser
