"""Draw figures to files: matplotlib without a display, with reproducible bytes."""

from pathlib import Path
from typing import Any

from .files import whole_file


def pyplot() -> Any:
    """matplotlib.pyplot, imported on first use."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def panels(
    count: int = 1,
    columns: int | None = None,
    *,
    size: tuple[float, float],
    framed: bool = False,
    **options: Any,
) -> tuple[Any, list[Any]]:
    """A figure of `size` inches with `count` panels, by default in one row.

    Panels have no top and right spines unless `framed`; `options` are passed to `pyplot.subplots`.
    """
    columns = columns or count
    edges = {f"axes.spines.{side}": framed for side in ("top", "right")}
    plt = pyplot()
    with plt.rc_context(edges):
        rows = -(-count // columns)
        figure, axes = plt.subplots(
            rows, columns, figsize=size, layout="constrained", squeeze=False, **options
        )
    for ax in axes.flat[count:]:
        ax.set_visible(False)
    return figure, list(axes.flat[:count])


def describe(ax: Any, title: str = "", x: str = "", y: str = "") -> None:
    """Set the title and axis labels in the size of the papers' figures, and a light grid."""
    ax.set_title(title, loc="left", fontsize=9)
    ax.set_xlabel(x, fontsize=8)
    ax.set_ylabel(y, fontsize=8)
    ax.grid(color="0.93")
    ax.set_axisbelow(True)


def saved(figure: Any, path: Path, dpi: int = 110) -> Path:
    """Write the figure atomically and close it; creates the folder; returns the path."""
    form = path.suffix[1:] or "png"
    metadata = {"Software": None} if form == "png" else None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial:
            figure.savefig(partial, dpi=dpi, format=form, metadata=metadata)
    finally:
        pyplot().close(figure)
    return path
