"""Figures 3.4 and 3.5 of the thesis as pictures."""

from pathlib import Path
from typing import Any

from ..picture import Axes, draw_scatter
from ..table import Table
from .inside import PAIRS, PHASES


def phases(table: Table, cells: list[Any], path: Path) -> Path:
    """Draw changes of silhouette and of shift against changes of accuracy, by phase."""
    names = ("silhouette", "shift")
    return draw_scatter(
        table, [[Axes("accuracy", name, p) for p in PHASES] for name in names], path
    )


def pairs(table: Table, cells: list[Any], path: Path) -> Path:
    """Draw each pair of the three measures."""
    return draw_scatter(table, [[Axes(*pair)] for pair in PAIRS], path)
