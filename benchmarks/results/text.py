"""Numbers and tables as text."""

from collections.abc import Sequence

from ... import printable


def percent(share: float | None) -> str:
    """A share in [0,1] as a percentage, "-" if it is not known."""
    return "-" if share is None else f"{share:.1%}"


def duration(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Rows of texts as columns of equal width."""
    lines = [[printable(cell) for cell in line] for line in lines]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in lines]
    return "\n".join(line.rstrip() for line in text)
