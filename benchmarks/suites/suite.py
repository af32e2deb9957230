"""`holdfast suite`: run a grid of runs from one YAML file, in one or many processes, then report."""

import argparse
import shlex
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ...command_parser import Parser
from ...endings import sigterm_as_ctrl_c
from ...run_folder import ERROR
from ..results import report
from ..run.cli_help import ALLOW, OPTIONS
from ..run.common_options import cache_place, caching, share
from . import grid
from .attempt import Executor, SerialExecutor
from .cell import Cell, check_folders, check_same, prepare, same
from .check import check_cells
from .schedule import Schedule


def run_cells(cells: list[Cell], args: argparse.Namespace) -> tuple[int, int]:
    """Run unfinished cells; returns how many failed and how many run elsewhere."""
    if args.jobs == 0 or min(args.jobs or 0, args.retries, args.cpus, args.gpus or 0) < 0:
        raise HoldfastError("--jobs must be at least 1; --retries, --cpus and --gpus at least 0.")
    check_folders(cells)
    check_cells(cell for cell in cells if not cell.finished or not same(cell))
    for cell in cells:
        check_same(cell)
    prepare(cells, args.command)
    number, shares = args.share
    with caching(args.cache):
        schedule = Schedule(grid.share(cells, number, shares), executor(args), args.retries)
        with sigterm_as_ctrl_c():
            ended = schedule.run()
    return ended["failed"], ended["elsewhere"]


def ended(cell: Cell) -> bool:
    """Whether there is something to report of it: a result, or an error."""
    return cell.finished or (cell.folder / ERROR).exists()


def executor(args: argparse.Namespace) -> Executor:
    """The executor of the cells."""
    if args.backend == "ray":
        from .on_ray import RayExecutor

        return RayExecutor(args.jobs, args.cpus, args.gpus)
    if args.jobs is None or args.jobs == 1:
        return SerialExecutor()
    from .cell_workers import ProcessExecutor

    return ProcessExecutor(args.jobs)


def parser() -> Parser:
    """The options of the command."""
    parser = Parser(
        "suite",
        "Run a grid of runs from one YAML file; what is finished is skipped, what was "
        "interrupted goes on. Several of these commands may share the work on one grid.",
        "grid.yaml --jobs 4",
    )
    parser.add("config", help="YAML file, or the name of a suite that comes with Holdfast")
    add_options(parser)
    return parser


def main(argv: list[str]) -> int:
    """Run a suite, then report on it."""
    args = parser().parse_args(argv)
    args.command = repeating("holdfast", "suite", args.config, seeds=args.seeds)
    return run_and_report(load(args.config, args), args)


def repeating(*words: str, seeds: list[int] | None = None) -> str:
    """The command that repeats the runs, without their folder."""
    return shlex.join([*words, *(["--seeds", *map(str, seeds)] if seeds else [])])


def add_options(parser: Parser) -> None:
    """Options that replace keys of the file, and say where the runs go."""
    parser.add("--out", help="folder of the runs (default: the file's)")
    parser.add("--seeds", type=int, nargs="+", help="stream seeds (default: the file's)")
    parser.add("--jobs", type=int, help="runs at once (default: 1; with Ray as many as fit)")
    parser.add(
        "--shard",
        dest="share",
        type=share,
        default=(0, 1),
        metavar="I/N",
        help="only share I of N of the runs, from 0",
    )
    parser.add(
        "--retries", type=int, default=0, help="restart a run up to N times if its process dies"
    )
    parser.add("--backend", choices=("local", "ray"), default="local")
    parser.add("--cpus", type=float, default=1, help="cores for each run, with Ray")
    parser.add("--gpus", type=float, help="GPUs for each run, with Ray; 0.5: two on one")
    parser.add("--cache", type=cache_place, metavar="FOLDER[:SIZE]", help=OPTIONS["cache"])
    parser.add("--allow", metavar="NAME", help=ALLOW)
    parser.set_defaults(command=None)  # which repeats the runs


def load(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """The suite of that name, with the options given."""
    given = {"out": args.out, "seeds": args.seeds}
    return grid.load(name) | {key: value for key, value in given.items() if value is not None}


def run_and_report(suite: dict[str, Any], args: argparse.Namespace) -> int:
    """Run, then print the table and draw the figure; after Ctrl-C only if a run has ended."""
    failed = elsewhere = 0
    interrupted = False
    try:
        failed, elsewhere = run_cells(list(grid.cells(suite)), args)
    except KeyboardInterrupt:
        interrupted = True
    if not interrupted or any(map(ended, grid.cells(suite))):
        report.publish(Path(suite["out"]))
    if interrupted:
        raise KeyboardInterrupt("interrupted; the same command goes on")
    if failed:
        print(f"runs failed: {failed} (their folders hold {ERROR})")
    if elsewhere:
        print(f"runs that other processes have: {elsewhere}")
    return 1 if failed else 0
