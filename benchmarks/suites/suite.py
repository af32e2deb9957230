"""`holdfast suite`: execute a grid of runs from one YAML file, in one or several processes, then report."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ... import HoldfastError, one_of
from ...run_folder import ERROR
from ..common_options import command_parser
from ..results.report import publish
from ..results.runs import find
from . import grid
from .cell import Cell, check_cells, prepare
from .execution import Processes, Runner, run_all
from .options import (
    DATA_FOLDERS,
    RunOptions,
    add_data_options,
    add_run_options,
    add_suite_file,
    option,
    repeating,
)


def run_cells(cells: list[Cell], options: RunOptions) -> tuple[int, int]:
    """Run unfinished cells; returns how many failed and how many run elsewhere."""
    jobs = options.jobs
    check_data_folders(cells, options.data)
    check_cells(cells)
    prepare(cells, options.command)
    runner: Runner | None = None
    if options.backend == "ray":
        from .ray_executor import RayTasks  # deferred: an extra

        runner = RayTasks(jobs, options.cpus, options.gpus)
    elif jobs not in (None, 1):
        runner = Processes(jobs)
    share = grid.share(cells, *options.share)
    try:
        ended = run_all(share, runner, options.retries, options.per_image)
    except KeyboardInterrupt:  # the message of a run names --resume, which these commands lack
        raise KeyboardInterrupt("interrupted; rerun the same command to continue") from None
    return ended["failed"], ended["elsewhere"]


class Unfinished(Exception):
    """Some runs have failed, or are left to other shards or processes."""

    def __init__(self, missing: int, failed: int, folder: Path) -> None:
        super().__init__(
            f"{missing} runs are unfinished ({failed} have failed: see {ERROR} there), such as {folder}. "
            "Repeat the command when other shards have finished."
        )
        self.failed = failed > 0


def run_all_cells(cells: list[Cell], options: RunOptions) -> None:
    """Run unfinished cells; raises Unfinished if some of them are left."""
    failed, _ = run_cells(cells, options)
    if missing := [cell for cell in cells if not cell.finished]:
        raise Unfinished(len(missing), failed, missing[0].folder)


def check_data_folders(cells: list[Cell], folders: Mapping[str, str]) -> None:
    """Refuse runs whose data are not given, and a folder that does not exist."""
    needed = json.dumps([cell.config for cell in cells], default=str)
    for name, content in DATA_FOLDERS.items():
        if f"{{{name}}}" in needed:
            raise HoldfastError(f"These runs need {content}. Pass {option(name)} FOLDER.")
        folder = folders.get(name)
        if folder and not Path(folder).is_dir():
            raise HoldfastError(
                f"{folder} is not a folder. Pass {option(name)} FOLDER with {content}."
            )


def parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "Execute a grid of runs from one YAML file. Finished runs are skipped, interrupted "
        "runs are resumed.",
        "suite grid.yaml --jobs 4",
    )
    add_suite_file(parser)
    add_run_options(parser)
    add_data_options(parser)
    return parser


def main(argv: list[str]) -> int:
    """Run a suite, then report its results."""
    args = parser().parse_args(argv)
    scale = ["--scale", args.scale] if args.scale else []
    command = repeating("holdfast", "suite", args.config, *scale, seeds=args.seeds)
    options = RunOptions.parsed(args, command=command)
    return run_and_report(load_suite(args.config, options, args.scale), options)


def load_suite(name: str, options: RunOptions, scale: str | None = None) -> dict[str, Any]:
    """Load a suite and apply the options of the command line."""
    suite = options.replace_keys(grid.filled(grid.read_suite(name, scale), options.data))
    for method in options.methods or ():
        one_of(*suite["methods"], methods=method)
    return suite


def run_and_report(suite: dict[str, Any], options: RunOptions) -> int:
    """Run the suite, print the table and draw the figure; after Ctrl-C report only if a run has ended."""
    out = Path(suite["out"])
    try:
        failed, elsewhere = run_cells([*filter(options.wants, grid.cells(suite))], options)
    except KeyboardInterrupt:
        if any(cell.finished or (cell.folder / ERROR).exists() for cell in grid.cells(suite)):
            publish(out, find(out))
        raise
    publish(out, find(out))
    if failed:
        print(f"failed runs: {failed} (see {ERROR} in their folders)")
    if elsewhere:
        print(f"runs in progress in other processes: {elsewhere}")
    return 1 if failed else 0
