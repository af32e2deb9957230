"""How a command executes the runs of a grid: options of the command line, as one object."""

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ..common_options import add_share
from .cell import Cell

DATA_FOLDERS = {  # of the user's data: options, and words in the suites
    "tiny_imagenet": "Tiny ImageNet, with its validation images in val/SYNSET/ or SYNSET/ "
    "(http://cs231n.stanford.edu/tiny-imagenet-200.zip)",
    "cifar": "CIFAR-10, as torchvision.datasets.CIFAR10(FOLDER, download=True) stores it, or with images "
    "in test/CLASS/ and train/CLASS/",
}


@dataclass(frozen=True)
class RunOptions:
    """What replaces keys of a suite, and how its runs are executed.

    out, seeds: replace these keys. methods: run only these. data: folders of the user's data by their
    words in suites. jobs: parallel runs. share: (I, N), part I of N of the grid. retries: restarts of a run
    whose process dies. backend: "local" or "ray", with `cpus` and `gpus` for each run. command: repeats the
    runs. per_image: report accuracy per image.

    Raises HoldfastError if a number is out of range.
    """

    out: str | None = None
    seeds: Sequence[int] | None = None
    methods: Sequence[str] | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    jobs: int | None = None
    share: tuple[int, int] = (0, 1)
    retries: int = 0
    backend: str = "local"
    cpus: float = 1
    gpus: float | None = None
    command: str | None = None
    per_image: bool = False

    def __post_init__(self) -> None:
        if self.jobs == 0 or min(self.jobs or 0, self.retries, self.cpus, self.gpus or 0) < 0:
            raise HoldfastError(
                "--jobs must be at least 1; --retries, --cpus and --gpus at least 0."
            )

    @classmethod
    def parsed(cls, args: argparse.Namespace, **more: Any) -> "RunOptions":
        """The options of `add_run_options`, and of `add_data_options` if the command has them."""
        names = ("out", "seeds", "jobs", "share", "retries", "backend", "cpus", "gpus")
        common = {name: getattr(args, name) for name in names}
        return cls(**common, methods=getattr(args, "chosen", None), data=data_folders(args), **more)

    def replace_keys(self, suite: Mapping[str, Any]) -> dict[str, Any]:
        """A suite with the keys that these options replace."""
        keys = {"out": self.out, "seeds": self.seeds}
        return {**suite, **{key: value for key, value in keys.items() if value is not None}}

    def wants(self, cell: Cell) -> bool:
        """Whether the cell's method is one of those to run."""
        return self.methods is None or cell.names["method"] in self.methods


def option(name: str) -> str:
    """The option of a folder of the user's data.

    >>> option("tiny_imagenet")
    '--tiny-imagenet'
    """
    return f"--{name.replace('_', '-')}"


def repeating(*words: str, seeds: Sequence[int] | None = None) -> str:
    """The command that repeats the runs, without their output folder."""
    return shlex.join([*words, *(["--seeds", *map(str, seeds)] if seeds else [])])


def add_suite_file(parser: argparse.ArgumentParser) -> None:
    """Add the suite and its scale."""
    parser.add_argument("config", help="YAML file, or the name of a suite that comes with Holdfast")
    parser.add_argument("--scale", help="one of the scales in the file (default: its first)")


def add_run_options(
    parser: argparse.ArgumentParser,
    out: str = "`out` of the file",
    seeds: str = "`seeds` of the file",
) -> None:
    """Add the options that replace keys of a suite (`out`, `seeds`: defaults), and of execution."""
    parser.add_argument("--out", help=f"output folder (default: {out})")
    parser.add_argument("--seeds", type=int, nargs="+", help=f"stream seeds (default: {seeds})")
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


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Add the folders of the user's data, and the choice of methods."""
    parser.add_argument(
        "--methods", dest="chosen", nargs="+", metavar="NAME", help="run only these methods"
    )
    add_data_folders(parser, "for scale photos: ")


def add_data_folders(parser: argparse.ArgumentParser, use: str) -> None:
    """Add the folders of the user's data; `use` begins their help."""
    for name, content in DATA_FOLDERS.items():
        parser.add_argument(
            option(name),
            dest=f"{name}_folder",
            metavar="FOLDER",
            type=Path,
            help=f"{use}{content}",
        )


def data_folders(args: argparse.Namespace) -> dict[str, str]:
    """The folders that a command line names, by their words in suites."""
    folders = {name: getattr(args, f"{name}_folder", None) for name in DATA_FOLDERS}
    return {name: str(folder) for name, folder in folders.items() if folder is not None}
