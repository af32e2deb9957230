"""`holdfast rerun-noise`: how far the same run is off with other threads or another instruction set."""

import argparse
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...files import jsonable, write_json
from ..results.text import aligned
from ..suites import grid
from ..suites.cell import Cell

CAPABILITY = "ATEN_CPU_CAPABILITY"  # torch's: the instruction set, "default" for the plainest
THREADS = (1, 2, 4)


def accuracy(config: dict[str, Any], threads: int) -> dict[str, Any]:
    """Accuracy in percent of a run in this process, and the environment that it had."""
    from ...callbacks.provenance import environment
    from ..results.runs import Run
    from ..test import run

    with TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        cli = run({**config, "threads": threads, "out": str(out), "progress": False})
        where, found = environment(cli.trainer), Run.load(out)
        facts = {key: where[key] for key in ("processor", "instructions", "commit")}
        return {"threads": threads, **facts, "accuracy": 100 * (found.accuracy or 0.0)}


def measured(cell: Cell, batches: int) -> list[dict[str, Any]]:
    """The same short run with 1, 2 and 4 threads, and with one and the plainest instruction set."""
    config = jsonable(cell.config)
    config.setdefault("trainer", {})["limit_test_batches"] = batches
    found = []
    for capability, several in ((None, THREADS), ("default", (1,))):
        before = os.environ.pop(CAPABILITY, None)
        if capability is not None:
            os.environ[CAPABILITY] = capability  # read when torch is imported
        try:
            spawned = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, mp_context=spawned) as pool:
                found += [pool.submit(accuracy, config, threads).result() for threads in several]
        finally:
            os.environ.pop(CAPABILITY, None)
            os.environ |= {} if before is None else {CAPABILITY: before}
    return found


def noise(runs: list[dict[str, Any]]) -> float:
    """The largest difference between two of these runs' accuracies, in points."""
    values = [run["accuracy"] for run in runs]
    return max(values) - min(values)


def chosen(suite: str) -> list[Cell]:
    """One run of each method: the first stream and seed of the suite."""
    found: dict[str, Cell] = {}
    for cell in grid.cells(grid.load(suite)):
        found.setdefault(cell.names["method"], cell)
    return list(found.values())


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="holdfast rerun-noise",
        description="Repeat short runs with 1, 2 and 4 threads, and with another instruction set: "
        "effects smaller than what that changes are undecided.",
        epilog="example: holdfast rerun-noise rdumb/interval-glyphs --json noise.json",
    )
    parser.add_argument("suites", nargs="+", help="YAML files, or suites that come with Holdfast")
    parser.add_argument("--batches", type=int, default=100, help="of each run (default: 100)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here, too")
    return parser


def main(argv: list[str]) -> int:
    """Print the noise of each suite and method, in points of accuracy."""
    args = parser().parse_args(argv)
    content: dict[str, Any] = {}
    lines = [["suite", "method", "accuracy, %", "largest difference, points"]]
    for suite in args.suites:
        methods = {cell.names["method"]: measured(cell, args.batches) for cell in chosen(suite)}
        content[suite] = {
            "batches": args.batches,
            "noise": max(map(noise, methods.values())),
            "methods": {
                name: {"noise": noise(runs), "runs": runs} for name, runs in methods.items()
            },
        }
        lines += [
            [suite, name, f"{runs[0]['accuracy']:.2f}", f"{noise(runs):.3f}"]
            for name, runs in methods.items()
        ]
    print(aligned(lines))
    if args.json is not None:
        write_json(args.json, content)
    return 0
