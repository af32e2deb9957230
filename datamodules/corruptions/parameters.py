"""The severity tables: per table and corruption, its parameters at severities 0..5.

The numbers and their sources are in parameters.txt. The caller chooses the table, independent of the
images' size. A corruption may be in one table only.
"""

import math
from pathlib import Path

from ... import HoldfastError, one_of

_Row = tuple[float, ...]
Rows = tuple[_Row, ...]  # of severity 0, 1, 2, 3, 4, 5


def _read_tables(path: Path) -> dict[str, dict[str, Rows]]:
    """The rows of each corruption by table: lines of table, corruption and six rows of parameters."""
    tables: dict[str, dict[str, Rows]] = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            table, name, *rows = line.split()
            numbers = tuple(tuple(map(_value, row.split(","))) for row in rows)
            tables.setdefault(table, {})[name] = numbers
    return tables


def _value(text: str) -> float:
    """A number as papers write it, maybe as a product (244*0.7) or quotient (1/60)."""
    if "/" in text:
        above, below = map(float, text.split("/"))
        return above / below
    return math.prod(map(float, text.split("*")))


TABLES = _read_tables(Path(__file__).parent / "parameters.txt")


def check_table(table: str) -> None:
    """Raise HoldfastError if there is no such table."""
    one_of(*TABLES, table=table)


def add_rows(name: str, tables: dict[str, Rows]) -> None:
    """Add a corruption's rows to the tables; raises HoldfastError unless there are six of equal length."""
    counts = [(len(rows), len(set(map(len, rows)))) for rows in tables.values()]
    if set(counts) != {(6, 1)}:
        raise HoldfastError(
            f"{name}: pass six rows of parameters of equal length, one for each severity from 0 to "
            f"5, in a table: {', '.join(TABLES)}."
        )
    for table, rows in tables.items():
        check_table(table)
        TABLES[table][name] = rows


def parameters(name: str, severity: float, table: str) -> _Row:
    """Interpolate entry by entry: p(s) = p_i + (s - i) (p_{i+1} - p_i), i = floor(s).

    Raises HoldfastError if a severity is outside [0, 5], or the table lacks it.
    """
    check_table(table)
    if not 0 <= severity <= 5:
        raise HoldfastError(f"Severity {severity} is not in [0, 5].")
    if name not in TABLES[table]:
        others = [other for other, rows in TABLES.items() if name in rows]
        raise HoldfastError(
            f"{name} has no parameters in table={table!r}. Pass table={others[0]!r}."
        )
    rows = TABLES[table][name]
    below = min(math.floor(severity), 4)
    weight = severity - below
    return tuple(a + weight * (b - a) for a, b in zip(rows[below], rows[below + 1], strict=True))
