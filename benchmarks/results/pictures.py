"""Pictures in files: matplotlib without a screen, the same bytes each time."""

from pathlib import Path
from typing import Any


def pyplot() -> Any:
    """matplotlib.pyplot, loaded when something is drawn: what lists or prints needs none of it."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def saved(figure: Any, path: Path) -> Path:
    """Write the figure and forget it; returns the path."""
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot().close(figure)
    return path
