"""`holdfast rerun-noise`: how a run's accuracy varies with threads and instruction set."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ... import HoldfastError
from ...command_parser import Parser
from ...files import jsonable, read_json, write_json
from ..results.text_table import aligned
from ..suites import grid
from ..suites.cell import Cell

CAPABILITY = "ATEN_CPU_CAPABILITY"  # torch's: the instruction set, "default" for the plainest
THREADS = (1, 2, 4)
FACTS = ("processor", "commit", "versions")  # facts that all repeats share
Config = dict[str, Any]


def accuracies(configs: dict[str, Config], threads: int) -> dict[str, Any]:
    """The accuracies in percent of these runs in this process, and their environment."""
    from ...callbacks.recording.provenance import environment
    from ..results.runs import Run
    from ..run.one_run import run

    found: dict[str, Any] = {}
    for name, config in configs.items():
        with TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            cli = run({**config, "threads": threads, "out": str(out), "progress": False})
            found[name] = 100 * (Run.load(out).accuracy or 0.0)
    where = environment(cli.trainer)
    facts = {key: where[key] for key in (*FACTS, "instructions")}
    return {**facts, "threads": threads, "accuracy": found}


def measured(cells: list[Cell], batches: int) -> dict[str, Any]:
    """Repeat short runs with 1, 2 and 4 threads, and with 1 thread and the basic instruction set."""
    configs = {cell.names["method"]: jsonable(cell.config) for cell in cells}
    for config in configs.values():
        config.setdefault("trainer", {})["limit_test_batches"] = batches
    found = []
    for capability, several in ((None, THREADS), ("default", (1,))):
        before = os.environ.pop(CAPABILITY, None)
        if capability is not None:
            os.environ[CAPABILITY] = capability  # read when torch is imported
        try:
            spawned = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, mp_context=spawned) as pool:
                found += [pool.submit(accuracies, configs, n).result() for n in several]
        finally:
            os.environ.pop(CAPABILITY, None)
            os.environ |= {} if before is None else {CAPABILITY: before}
    by_method = {name: noise([own["accuracy"][name] for own in found]) for name in configs}
    return {
        "noise": max(by_method.values()),
        "batches": batches,
        **{key: found[0].pop(key) for key in FACTS},
        "methods": by_method,
        "repeats": [{k: v for k, v in own.items() if k not in FACTS} for own in found],
    }


def noise(values: list[float]) -> float:
    """The largest difference between two accuracies, in points."""
    return max(values) - min(values)


def chosen(suite: str, methods: list[str]) -> list[Cell]:
    """One run per method (all, or those in `methods`) on the first stream and seed of the suite."""
    found: dict[str, Cell] = {}
    for cell in grid.cells(grid.load(suite)):
        if not methods or cell.names["method"] in methods:
            found.setdefault(cell.names["method"], cell)
    if not found:
        raise HoldfastError(
            f"{suite} has none of the methods {', '.join(methods)}. Change --methods or remove it."
        )
    return list(found.values())


def parser() -> Parser:
    """The options of the command."""
    parser = Parser(
        "rerun-noise",
        "Repeat short runs with 1, 2 and 4 threads and with another instruction set. Effects smaller "
        "than the resulting differences are undecided.",
        "rdumb/interval-glyphs --json noise.json",
    )
    parser.add("suites", nargs="+", help="YAML files, or suites that come with Holdfast")
    parser.add("--methods", nargs="+", default=[], help="methods of the suite (default: all)")
    parser.add("--batches", type=int, default=100, help="batches per run (default: 100)")
    parser.add("--json", type=Path, metavar="FILE", help="add the numbers to this file")
    return parser


def main(argv: list[str]) -> int:
    """Print the noise of each suite and method, in points of accuracy."""
    args = parser().parse_args(argv)
    content: dict[str, Any] = {} if args.json is None else read_json(args.json)
    lines = [["suite", "method", "accuracy, %", "largest difference, points"]]
    for suite in args.suites:
        content[suite] = own = measured(chosen(suite, args.methods), args.batches)
        first = own["repeats"][0]["accuracy"]
        lines += [[suite, m, f"{first[m]:.2f}", f"{n:.3f}"] for m, n in own["methods"].items()]
        if args.json is not None:
            write_json(args.json, content)
    print(aligned(lines))
    return 0
