"""Numbers and tables as text."""

import math
import re
from collections.abc import Sequence

import pandas as pd

from ... import printable

_TEXTS = ("text", "markdown", "latex")
FORMATS = (*_TEXTS, "csv", "json")
BOLD = "⟪⟫"  # around a text that LaTeX prints in bold
_LATEX = {"±": r"$\pm$", "×": r"$\times$", "↓": r"$\downarrow$", "⟪": r"\textbf{", "⟫": "}"}

_Lines = Sequence[Sequence[str]]  # the lines of a table


def percent(share: float | None) -> str:
    """A share in [0,1] as a percentage, "-" if unknown."""
    return "-" if share is None else f"{share:.1%}"


def points(share: float | None, error: float | None = None) -> str:
    """A share in [0,1] as percentage points with the `decimals` of its error; "-" if unknown."""
    return "-" if share is None else f"{100 * share:.{decimals(error)}f}"


def decimals(error: float | None) -> int:
    """The number of decimals of percentages with this error in [0,1], at most 2; 1 if it is unknown or 0.

    As the Particle Data Group rounds: one digit of the error counts, or two if it begins below 3.55.

    >>> [decimals(error) for error in (0.189, 0.014, 0.0014, None)]
    [0, 1, 2, 1]
    """
    return min(2, max(0, math.ceil(-math.log10(100 * error / 3.55)))) if error else 1


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


def formatted(
    table: pd.DataFrame | _Lines, form: str = "text", caption: str = "", label: str = ""
) -> str:
    """A table in one of FORMATS, without its index; of lines, the first is the head.

    caption, label: of a LaTeX table; without a caption it is only the tabular.
    """
    if not isinstance(table, pd.DataFrame):
        table = pd.DataFrame(table[1:], columns=list(table[0]))
    if form not in _TEXTS:
        csv = form == "csv"
        return table.to_csv(index=False).rstrip() if csv else table.to_json(orient="records")
    table = table.map(printable).rename(columns=printable)
    if form == "latex":
        columns = "l" + "r" * (len(table.columns) - 1)
        escaped = re.sub(r"([%&#_$])", r"\\\1", printable(caption)) or None
        names = {"caption": escaped, "label": f"tab:{label}" if caption else None}
        text = table.to_latex(index=False, escape=True, column_format=columns, **names).rstrip("\n")
        return text.translate(str.maketrans(_LATEX))
    lines = [list(table.columns), *table.to_numpy().tolist()]
    if form == "text":
        options = {"tablefmt": "plain", "headers": (), "disable_numparse": True}
        return pd.DataFrame(lines).to_markdown(index=False, **options)
    # Without the padding of `to_markdown`, so that a longer cell changes no other line of a page.
    head, *rest = [[cell.replace("|", r"\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rest])
