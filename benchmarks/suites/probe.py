"""How long a run will take on this machine, from its first batches."""

import contextlib
import io
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

from ...files import jsonable
from ...run_folder import read_rows
from .cell import Cell

BATCHES = 3  # the first of which has what a run does once


def probed(cell: Cell) -> float | None:
    """Seconds of a run; None of an endless stream, or if the run cannot begin."""
    from ..test import run  # here: torch and lightning take seconds to import

    config = jsonable(cell.config)
    config["trainer"] = {**config.get("trainer", {}), "limit_test_batches": BATCHES}
    with TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        out = Path(folder) / "run"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                images = run({**config, "out": str(out), "progress": False}).datamodule.images
            first, *_, last = read_rows(out)
        except Exception:  # the run itself will say it
            return None
    if images is None:
        return None
    rate = (last["seconds"] - first["seconds"]) / (last["images"] - first["images"])
    return float(first["seconds"] + rate * max(0, images - first["images"]))
