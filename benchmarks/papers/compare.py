"""In what runs differ from a paper's own setting, which its full-scale suite states."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..results.runs import Run
from ..suites import grid
from ..suites.cell import Cell

# Where things lie and how images are loaded changes no number.
INDIFFERENT = {
    "root",
    "folder",
    "calibration",
    "num_workers",
    "seed",
    "on_device",
    "progress",
    "out",
}


def differences(
    cells: list[Cell], theirs: list[Cell], keys: Sequence[str] = ("data", "model")
) -> list[str]:
    """What our runs have otherwise than the paper's: "backbone: glyphs, not ...", each once."""
    found: dict[str, None] = {}
    paper = {names_of(cell): cell for cell in theirs}
    for cell in cells:
        other = paper.get(names_of(cell)) or nearest(cell, theirs)
        if other is None:
            found.setdefault(f"it has no run of {cell.names['method']}")
            continue
        for key in keys:
            ours, wanted = (flat(read(c, key)) for c in (cell, other))
            for name in sorted({*ours, *wanted} - INDIFFERENT):
                if name in wanted and ours.get(name) != wanted[name]:
                    found.setdefault(f"{name}: {ours.get(name, 'default')}, not {wanted[name]}")
    missing = {cell.names["setting"] for cell in theirs} - {c.names["setting"] for c in cells}
    found.update(dict.fromkeys(f"{setting} is missing" for setting in sorted(missing)))
    if len(cells) < len(theirs):
        found.setdefault(f"{len(cells)} runs, not {len(theirs)}")
    return list(found)


def names_of(cell: Cell) -> tuple[Any, ...]:
    return tuple(cell.names[key] for key in ("method", "override", "stream", "seed"))


def nearest(cell: Cell, others: list[Cell]) -> Cell | None:
    """One of the same method and override, in the same setting if there is one."""
    same = [o for o in others if o.names["method"] == cell.names["method"]]
    rank = lambda o: [o.names[k] == cell.names[k] for k in ("setting", "override")]  # noqa: E731
    return max(same, key=rank, default=None)


def read(cell: Cell, key: str) -> dict[str, Any]:
    """Model or stream of a cell, with what a file in configs/ says."""
    return grid.named(cell.config[key], f"{key}s", key)


def flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"lr": 0.005, "source": "Glyphs", ...}: arguments by their own names, classes without packages."""
    return dict(pairs(config, prefix or "class"))


def pairs(config: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(config, dict) and "class_path" in config:
        yield name, config["class_path"].rpartition(".")[2]
        for key, value in config.get("init_args", {}).items():
            yield from pairs(value, key)
    elif not isinstance(config, dict):
        yield name, config


def unfinished(cells: list[Cell]) -> list[str]:
    """What has not been run to its end, as sentences."""
    found = []
    for cell in cells:
        run = Run.load(cell.folder) if cell.folder.exists() else None
        state = run.state if run is not None else None
        if state is None or state.name != "finished":
            why = f": {state.note}" if state is not None and state.name == "failed" else ""
            names = cell.names
            label = "-".join(filter(None, (names["method"], names["override"])))
            found.append(f"{names['stream']}, seed {names['seed']}, {label}{why}")
    return found
