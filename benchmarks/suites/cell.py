"""A cell: one run of a suite's grid, and the files written to its folder before it starts."""

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

from ... import HoldfastError
from ...files import first_difference, jsonable, read_json, unwritable, write_json
from ...run_folder import CELL, SUMMARY, begun


class Cell(NamedTuple):
    """One run of the grid: its names, folder, `holdfast test` configuration, and varied factors."""

    names: dict[str, Any]
    folder: Path
    config: dict[str, Any]
    factors: dict[str, Any]  # {"every": 125, "level": 2}: from `each` of stream and override

    @property
    def label(self) -> str:
        """The displayed name: the method with its override."""
        return "-".join(filter(None, (self.names["method"], self.names["override"])))

    @property
    def finished(self) -> bool:
        return (self.folder / SUMMARY).exists()

    def of_data(self, *keys: str) -> Iterator[tuple[str, Any]]:
        """These keys of the data's configuration, at any depth, with their values."""
        nested = [self.config.get("data")]
        while nested:
            value = nested.pop()
            items = value.items() if isinstance(value, dict) else ()
            yield from (item for item in items if item[0] in keys)
            nested += value if isinstance(value, list) else [v for k, v in items if k not in keys]


def prepare(cells: list[Cell], command: str | None = None) -> None:
    """Write each cell's configuration to its folder, with the first command that requested it."""
    try:
        for cell in cells:
            cell.folder.mkdir(parents=True, exist_ok=True)
            facts = jsonable({"names": cell.names, "factors": cell.factors, "config": cell.config})
            stored = read_json(cell.folder / CELL)
            if stored and begun(cell.folder):  # the run continues with its configuration
                facts["config"] = stored["config"]
            if {key: stored.get(key) for key in facts} != facts:  # none yet, or of a failed start
                write_json(cell.folder / CELL, facts | ({"command": command} if command else {}))
    except OSError as error:
        raise unwritable(cell.folder, error, "or choose another `out`.") from None


def check_cells(cells: list[Cell]) -> None:
    """Refuse two runs in one folder, several devices, another run's folder, and invalid arguments.

    Names and types of the arguments are checked without loading data, once for each method, stream and
    other part rather than in every combination.

    Raises:
        HoldfastError: names the run's folder and what to change.
    """
    seen: set[str] = set()
    folders: set[Path] = set()
    for cell in cells:
        # Names may collide: a method `A-b`, and a method A with an override b.
        if cell.folder in folders:
            raise HoldfastError(
                f"Two runs of this suite would use the folder {cell.folder}. Rename one of them."
            )
        folders.add(cell.folder)
        check_one_device(cell)
        if new := set() if cell.finished and same(cell) else set(parts(cell)) - seen:
            from ..test import parsed  # deferred: torch is slow to import

            seen |= new
            try:
                parsed(deepcopy(cell.config))
            except HoldfastError as error:
                raise HoldfastError(f"{cell.folder} cannot be run: {error}") from error
    check_same(cells)


def parts(cell: Cell) -> Iterator[str]:
    """The independent parts of a configuration, without its seeds."""
    config = jsonable(cell.config)
    config.pop("seed_everything", None)
    (config.get("data") or {}).get("init_args", {}).pop("seed", None)
    for key in ("model", "data"):
        yield json.dumps(config.pop(key, None), sort_keys=True)
    yield json.dumps(config, sort_keys=True)


def check_one_device(cell: Cell) -> None:
    """Refuse trainer settings that would relaunch the whole command for each additional device."""
    trainer = cell.config.get("trainer") or {}
    devices = trainer.get("devices", 1)
    if devices not in (1, "1", "auto") and not (isinstance(devices, list) and len(devices) == 1):
        raise HoldfastError(
            f"{cell.folder} sets devices: {devices}, but each run of a suite uses one device. Pass --jobs "
            "to run several at once, or use `holdfast test` for one run on several devices."
        )


def same(cell: Cell) -> bool:
    """Whether the cell's folder contains this cell, or a failed start without results."""
    stored = read_json(cell.folder / CELL)
    return not stored or stored["config"] == jsonable(cell.config) or not begun(cell.folder)


def check_same(cells: Sequence[Cell]) -> None:
    """Refuse to mix the results of two configurations in one folder; all such runs are named at once."""
    if not (differing := [cell for cell in cells if not same(cell)]):
        return
    cell, folder, more = differing[0], "the folder", ""
    if len(differing) > 1:
        methods = ", ".join(dict.fromkeys(str(other.names["method"]) for other in differing))
        folder, more = "their folders", f" {len(differing)} runs differ, of {methods}."
    stored = read_json(cell.folder / CELL)["config"]
    setting, before, here = first_difference(stored, jsonable(cell.config))
    raise HoldfastError(
        f"{cell.folder} contains a run with a different configuration: {setting} is {before} there, "
        f"not {here}.{more} Choose another `out`, or delete {folder}."
    )
