"""Pictures in files: matplotlib without a screen, the same bytes each time."""

from pathlib import Path
from typing import Any

from ...files import whole_file


def pyplot() -> Any:
    """matplotlib.pyplot, loaded when something is drawn: what lists or prints needs none of it."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def saved(figure: Any, path: Path, dpi: int = 110) -> Path:
    """Write the figure as a whole or not at all, and forget it; returns the path."""
    form = path.suffix[1:] or "png"
    metadata = {"Software": None} if form == "png" else None
    try:
        with whole_file(path) as partial:
            figure.savefig(partial, dpi=dpi, format=form, metadata=metadata)
    finally:
        pyplot().close(figure)
    return path
