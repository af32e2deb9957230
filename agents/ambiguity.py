"""Excerpts that cite several papers at once, so that no single paper is the answer (CiteME, table 6)."""

import re
from pathlib import Path

from .. import HoldfastError
from ..files import reason
from .data import MARKER, read_table

TARGETS = ("TARGETCIT", MARKER)
# Another citation: a masked one, a LaTeX command, numbers in brackets, a name and a year. The paper prints
# no regular expression; this one is Holdfast's.
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


def is_ambiguous(excerpt: str, target: str | None = None) -> bool | None:
    r"""Whether the target is cited together with other papers; `target` is its mark or LaTeX key.

    Only citations in one group are detected, such as `\cite{a, TARGETCIT}`, `[OTHERCIT, TARGETCIT]`,
    `(Lee 1998; TARGETCIT)` or `TARGETCIT OTHERCIT`, so the share of such excerpts is a lower bound. None
    if the excerpt does not mark its target.
    """
    marks = [target] if target else [mark for mark in TARGETS if mark in excerpt]
    if not marks or marks[0] not in excerpt:
        return None
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


def excerpts(path: Path) -> list[tuple[str, str | None]]:
    """The excerpts of a file and the marks of their targets (None if the file has no such column).

    A table (.csv, .tsv) with `excerpt` and optionally `target`; any other file has one excerpt per line.

    Raises:
        HoldfastError: if the file cannot be read as excerpts.
    """
    if path.suffix in (".csv", ".tsv"):
        rows = read_table(path, ["excerpt"], "excerpts")
        return [(row["excerpt"], row.get("target") or None) for row in rows]
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise HoldfastError(
            f"Cannot read {path} as excerpts ({reason(error)}). Pass a CSV or TSV with the column "
            "excerpt, or a file with one excerpt per line."
        ) from None
    return [(line, None) for line in lines if line.strip()]
