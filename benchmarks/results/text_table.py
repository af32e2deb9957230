"""Numbers and tables as text."""

import csv
import io
import re
from collections.abc import Sequence

from ... import printable

FORMATS = ("text", "markdown", "latex", "csv")  # formats of tables
LATEX = {"\\": r"\textbackslash{}", "±": r"$\pm$", "×": r"$\times$", "↓": r"$\downarrow$"}
LATEX |= {sign: f"\\{sign}" for sign in "&%$#_{}"} | {"~": r"\textasciitilde{}", "^": r"\^{}"}

Lines = Sequence[Sequence[str]]  # the lines of a table, its head first


def percent(share: float | None) -> str:
    """A share in [0,1] as a percentage, "-" if unknown."""
    return "-" if share is None else f"{share:.1%}"


def duration(seconds: float) -> str:
    """Seconds as hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def first_of(values: Sequence[str], most: int = 6) -> list[str]:
    """The first `most` values, and the number of the others.

    >>> first_of(["a", "b", "c"], 2)
    ['a', 'b', 'and 1 more']
    """
    more = [f"and {len(values) - most} more"] if len(values) > most else []
    return [*values[:most], *more]


def natural(name: str) -> list[tuple[int, str]]:
    """A sort key that orders numbers in names by value, corr-2 before corr-10.

    >>> sorted(["corr-10", "corr-2", "Corr-1"], key=natural)
    ['Corr-1', 'corr-2', 'corr-10']
    """
    words = re.split(r"(\d{1,18})", name.casefold())
    return [(int(word), "") if word.isdecimal() else (-1, word) for word in words]


def formatted(lines: Lines, form: str) -> str:
    """A table in one of FORMATS."""
    return {"text": aligned, "markdown": markdown, "latex": latex, "csv": as_csv}[form](lines)


def aligned(lines: Lines) -> str:
    """A table as text with each column padded to its widest cell."""
    lines = [[printable(cell) for cell in line] for line in lines]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in lines]
    return "\n".join(line.rstrip() for line in text)


def markdown(lines: Lines) -> str:
    """A table in Markdown."""
    head, *rest = [[printable(cell).replace("|", r"\|") for cell in line] for line in lines]
    rows = [head, ["---"] * len(head), *rest]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def latex(lines: Lines) -> str:
    """A table in LaTeX with the package booktabs."""
    escape = str.maketrans(LATEX)
    head, *rest = [[printable(cell).translate(escape) for cell in line] for line in lines]
    row = lambda cells: " & ".join(cells) + r" \\"  # noqa: E731
    begin = f"\\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}\n\\toprule"
    body = "\n".join(map(row, rest))
    return f"{begin}\n{row(head)}\n\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}"


def as_csv(lines: Lines) -> str:
    """A table as comma-separated values."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([[printable(c) for c in row] for row in lines])
    return file.getvalue().rstrip("\n")
