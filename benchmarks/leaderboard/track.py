"""A track of the leaderboard: a scale of the suite `leaderboard`, which fixes streams, seeds and rates."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ... import HoldfastError, one_of
from ...files import jsonable
from ..suites import grid
from ..suites.cell import Cell

SUITE = "leaderboard"
ENTRIES = Path(__file__).parent / "entries"
EMBEDDED = "embedded"
Key = tuple[str, int]  # a stream of a track and its seed


@dataclass(frozen=True)
class Track:
    """A scale of a suite, the folder with its entries, and the user's data by their words in the suite."""

    name: str = EMBEDDED
    suite: str = SUITE
    entries: Path = ENTRIES
    data: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        one_of(*grid.scales(self.suite), track=self.name)

    @property
    def folder(self) -> Path:
        return self.entries / self.name

    @property
    def command(self) -> str:
        """The command that runs it."""
        return f"holdfast suite {self.suite} --scale {self.name}"

    @cached_property
    def _cells(self) -> dict[str, dict[Key, Cell]]:
        cells: dict[str, dict[Key, Cell]] = {}
        suite = grid.filled(grid.read_suite(self.suite, self.name), self.data)
        for cell in grid.cells(suite):
            cells.setdefault(cell.label, {})[cell.names["stream"], cell.names["seed"]] = cell
        return cells

    @property
    def methods(self) -> list[str]:
        return list(self._cells)

    def cells(self, method: str) -> dict[Key, Cell]:
        """The runs of a method by stream and seed.

        Raises:
            HoldfastError: if the track lacks the method.
        """
        if method not in self._cells:
            raise HoldfastError(
                f"The track {self.name} has no method {method}. Add it to `methods` of its suite "
                f"({grid.suite_file(self.suite)}), and its learning rate to the file in `tuned`."
            )
        return self._cells[method]


def of_method(cell: Cell) -> dict[str, Any]:
    """The configuration of a run without its stream and seed."""
    config = jsonable(cell.config)
    return {key: value for key, value in config.items() if key not in ("data", "seed_everything")}
