"""A cell: one run of a suite's grid, and the files in its folder before it begins."""

from pathlib import Path
from typing import Any, NamedTuple

from ... import HoldfastError
from ...files import jsonable, read_json, unwritable, write_json
from ...run_folder import CELL, SUMMARY, begun


class Cell(NamedTuple):
    """One run of the grid: its names, folder, `holdfast test` configuration, and what is varied."""

    names: dict[str, Any]
    folder: Path
    config: dict[str, Any]
    factors: dict[str, Any]  # {"every": 125, "level": 2}: from `each` of stream and override

    @property
    def label(self) -> str:
        """The method as it is shown, with the override."""
        return "-".join(filter(None, (self.names["method"], self.names["override"])))

    @property
    def finished(self) -> bool:
        return (self.folder / SUMMARY).exists()


def check_folders(cells: list[Cell]) -> None:
    """Refuse two runs in one folder, and runs on several devices."""
    check_distinct(cells)
    for cell in cells:
        check_one_device(cell)


def prepare(cells: list[Cell], command: str | None = None) -> None:
    """Write each cell's configuration into its folder, with the first command that asked for it."""
    try:
        for cell in cells:
            cell.folder.mkdir(parents=True, exist_ok=True)
            facts = jsonable({"names": cell.names, "factors": cell.factors, "config": cell.config})
            found = read_json(cell.folder / CELL)
            if found and begun(cell.folder):  # its configuration so far
                facts["config"] = found["config"]
            if {key: found.get(key) for key in facts} != facts:  # none yet, or of a failed start
                write_json(cell.folder / CELL, facts | ({"command": command} if command else {}))
    except OSError as error:
        raise unwritable(cell.folder, error, "or choose another `out`.") from None


def check_distinct(cells: list[Cell]) -> None:
    """Refuse names that give two cells one folder: a method `A-b`, and a method A with an override b."""
    seen: set[Path] = set()
    for cell in cells:
        if cell.folder in seen:
            raise HoldfastError(
                f"two runs of this suite have the folder {cell.folder}: rename one."
            )
        seen.add(cell.folder)


def check_one_device(cell: Cell) -> None:
    """Refuse trainer settings that would start the whole command again on each further device."""
    trainer = cell.config.get("trainer") or {}
    if not isinstance(trainer, dict):
        raise HoldfastError(f"{cell.folder}: trainer must be a mapping, not {trainer!r}.")
    devices = trainer.get("devices", 1)
    if devices not in (1, "1", "auto") and not (isinstance(devices, list) and len(devices) == 1):
        raise HoldfastError(
            f"{cell.folder} asks for devices: {devices}, and a suite's run has one: use --jobs to run "
            "several at once, or `holdfast test` for one run on several devices."
        )


def same(cell: Cell) -> bool:
    """Whether its folder contains this cell or a failed start, which has no results.

    A folder without `threads` counts as the same run: only its rounding may differ.
    """
    found, config = read_json(cell.folder / CELL), jsonable(cell.config)
    if "threads" not in found.get("config", {}):
        config.pop("threads", None)
    return not found or found["config"] == config or not begun(cell.folder)


def check_same(cell: Cell) -> None:
    """Refuse to mix the results of two configurations in one folder."""
    if not same(cell):
        raise HoldfastError(
            f"{cell.folder} holds a run of another configuration. Choose another `out`, "
            "or remove the folder."
        )
