"""Check the arguments of a suite's runs before the first one starts, without loading data."""

import json
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any

from ... import HoldfastError
from ...files import jsonable
from .cell import Cell
from .suite_schema import Class, Map, check


def check_cells(cells: Iterable[Cell]) -> None:
    """Refuse runs whose method, stream or callbacks have unknown or invalid arguments.

    Each method, stream and other part is checked once rather than in every combination.

    Raises:
        HoldfastError: names the run's folder and what to change.
    """
    seen: set[str] = set()
    for cell in cells:
        if new := set(parts(cell)) - seen:
            seen |= new
            try:
                check_config(cell.config)
            except HoldfastError as error:
                raise HoldfastError(f"{cell.folder} cannot be run: {error}") from error


def parts(cell: Cell) -> Iterator[str]:
    """The independent parts of a configuration, without its seeds."""
    config = jsonable(cell.config)
    config.pop("seed_everything", None)
    (config.get("data") or {}).get("init_args", {}).pop("seed", None)
    for key in ("model", "data"):
        yield json.dumps(config.pop(key, None), sort_keys=True)
    yield json.dumps(config, sort_keys=True)


def check_config(config: dict[str, Any]) -> None:
    """Refuse an invalid configuration of `holdfast test`."""
    for key in ("model", "data", "trainer"):
        entry = config.get(key, {})
        check(Class if "class_path" in (entry or ()) else Map, entry, key)
    from ..run.dry_run import dry_run  # deferred: torch is slow to import

    # The parser modifies its input.
    dry_run(deepcopy({**config, "seed_everything": False}))
