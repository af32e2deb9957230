"""`holdfast suite`: execute a grid of runs from one YAML file, in one or several processes, then report."""

import argparse
import json
import shlex
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ...run_folder import ERROR
from ..common_options import add_share, command_parser
from ..results import report
from . import grid
from .cell import Cell, check_cells, prepare
from .execution import Processes, Runner, run_all

FOLDERS = {  # of the user's data: options, and words in the suites
    "images": "ImageNet's images in folders named by synset: its validation set, or any others "
    "(https://image-net.org)",
    "cifar": "CIFAR-10, as torchvision.datasets.CIFAR10(FOLDER, download=True) stores it, or with images "
    "in test/CLASS/ and train/CLASS/",
}


def run_cells(cells: list[Cell], args: argparse.Namespace) -> tuple[int, int]:
    """Run unfinished cells; returns how many failed and how many run elsewhere."""
    if args.jobs == 0 or min(args.jobs or 0, args.retries, args.cpus, args.gpus or 0) < 0:
        raise HoldfastError("--jobs must be at least 1; --retries, --cpus and --gpus at least 0.")
    check_folders(cells, args)
    check_cells(cells)
    prepare(cells, args.command)
    runner: Runner | None = None
    if args.backend == "ray":
        from .ray_executor import RayTasks  # deferred: an extra

        runner = RayTasks(args.jobs, args.cpus, args.gpus)
    elif args.jobs not in (None, 1):
        runner = Processes(args.jobs)
    ended = run_all(grid.share(cells, *args.share), runner, args.retries, args.per_image)
    return ended["failed"], ended["elsewhere"]


def check_folders(cells: list[Cell], args: argparse.Namespace) -> None:
    """Refuse runs whose data are not given, and a folder that does not exist."""
    needed = json.dumps([cell.config for cell in cells], default=str)
    for name, what in FOLDERS.items():
        given = folders(args).get(name)
        if f"{{{name}}}" in needed:
            raise HoldfastError(f"These runs need {what}. Pass --{name} FOLDER.")
        if given and not Path(given).is_dir():
            raise HoldfastError(f"{given} is not a folder. Pass --{name} FOLDER with {what}.")


def folders(args: argparse.Namespace) -> dict[str, str]:
    given = {name: getattr(args, f"{name}_folder") for name in FOLDERS}
    return {name: str(folder) for name, folder in given.items() if folder is not None}


def wanted(cell: Cell, args: argparse.Namespace) -> bool:
    """Whether the command wants this cell's method: all, unless --methods names some."""
    return args.chosen is None or cell.names["method"] in args.chosen


def parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "Execute a grid of runs from one YAML file. Finished runs are skipped, interrupted "
        "runs are resumed.",
        "suite grid.yaml --jobs 4",
    )
    add_file(parser)
    add_options(parser)
    add_data(parser)
    return parser


def main(argv: list[str]) -> int:
    """Run a suite, then report its results."""
    args = parser().parse_args(argv)
    scale = ["--scale", args.scale] if args.scale else []
    args.command = repeating("holdfast", "suite", args.config, *scale, seeds=args.seeds)
    return run_and_report(load(args.config, args, args.scale), args)


def repeating(*words: str, seeds: list[int] | None = None) -> str:
    """The command that repeats the runs, without their output folder."""
    return shlex.join([*words, *(["--seeds", *map(str, seeds)] if seeds else [])])


def add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", help="YAML file, or the name of a suite that comes with Holdfast")
    parser.add_argument("--scale", help="one of the scales in the file (default: its first)")


def add_options(parser: argparse.ArgumentParser, out: str = "`out` of the file") -> None:
    """Add the options that replace keys of the file, and those of execution; `out`: a default's name."""
    parser.add_argument("--out", help=f"output folder (default: {out})")
    parser.add_argument(
        "--seeds", type=int, nargs="+", help="stream seeds (default: `seeds` of the file)"
    )
    parser.add_argument(
        "--jobs", type=int, help="number of parallel runs (default: 1; with Ray: as many as fit)"
    )
    add_share(parser, "the grid")
    parser.add_argument(
        "--retries", type=int, default=0, help="restart a run up to N times if its process dies"
    )
    parser.add_argument("--backend", choices=("local", "ray"), default="local")
    parser.add_argument("--cpus", type=float, default=1, help="cores per run with Ray (default: 1)")
    parser.add_argument(
        "--gpus",
        type=float,
        help="GPUs per run with Ray; 0.5: two runs per GPU (default: 1 if there are any)",
    )
    # The command that repeats the runs, which accuracy they report, and what `add_data` may ask for.
    parser.set_defaults(command=None, per_image=False)
    parser.set_defaults(chosen=None, **{f"{name}_folder": None for name in FOLDERS})


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add the folders of the user's data, and the choice of methods."""
    parser.add_argument(
        "--methods", dest="chosen", nargs="+", metavar="NAME", help="run only these methods"
    )
    for name, what in FOLDERS.items():
        dest, what = f"{name}_folder", f"for scale photos: {what}"
        parser.add_argument(f"--{name}", dest=dest, metavar="FOLDER", type=Path, help=what)


def load(name: str, args: argparse.Namespace, scale: str | None = None) -> dict[str, Any]:
    """Load a suite and apply the options of the command line."""
    given = {"out": args.out, "seeds": args.seeds}
    return grid.filled(grid.load(name, scale), folders(args)) | {
        key: value for key, value in given.items() if value is not None
    }


def run_and_report(suite: dict[str, Any], args: argparse.Namespace) -> int:
    """Run the suite, print the table and draw the figure; after Ctrl-C report only if a run has ended."""
    failed = elsewhere = 0
    interrupted = False
    try:
        failed, elsewhere = run_cells([c for c in grid.cells(suite) if wanted(c, args)], args)
    except KeyboardInterrupt:
        interrupted = True
    ended = (c.finished or (c.folder / ERROR).exists() for c in grid.cells(suite))
    if not interrupted or any(ended):
        report.publish(Path(suite["out"]))
    if interrupted:
        raise KeyboardInterrupt("interrupted; rerun the same command to continue")
    if failed:
        print(f"failed runs: {failed} (see {ERROR} in their folders)")
    if elsewhere:
        print(f"runs in progress in other processes: {elsewhere}")
    return 1 if failed else 0
