"""`holdfast corruptions`: measure accuracy under each corruption, each from the source model."""

import argparse
import re
import shlex
import time
from typing import TYPE_CHECKING, Any

from .. import HoldfastError, in_range
from ..files import reason
from ..imagenet import CORRUPTIONS
from .common_options import add_source, command_parser
from .suites import grid, suite

if TYPE_CHECKING:
    import pandas as pd

    from ..datamodules import ImageSource

CLEAN, MEAN = "clean", "mean"
MOST = 320  # default maximum number of images per corruption
# Corruption parameters by image size; "imagenet" for other sizes.
TABLES = {32: "cifar", 64: "tinyimagenet"}
START = 0.3  # seconds of a run beside its network and its images
FEW = 8  # images from which the times of reading and corrupting are measured


def parser() -> argparse.ArgumentParser:
    parser = command_parser(
        __doc__, "corruptions --backbone digits --source digits --methods Source Tent"
    )
    add = parser.add_argument
    add("--backbone", required=True, help="network, as in `holdfast test`")
    add_source(parser)
    add("--methods", nargs="+", default=["Source"], help="default: Source")
    add("--severity", type=float, default=5, help="severity from 0 to 5 (default: 5)")
    add("--corruptions", nargs="+", default=CORRUPTIONS, help="default: the 15 of ImageNet-C")
    add("--images", type=int, help=f"per corruption (default: those of the source, at most {MOST})")
    suite.add_options(parser)
    return parser


def main(argv: list[str]) -> int:
    """Try a step of each method, run unfinished cells, then print the table."""
    args = parser().parse_args(argv)
    args.command, args.per_image = shlex.join(["holdfast", "corruptions", *argv]), True
    source, config = described(args)
    cells = list(grid.cells(config))
    try:
        if todo := [cell for cell in grid.share(cells, *args.share) if not cell.finished]:
            print(f"{len(todo)} runs of {args.images:,} images: about {tried(todo, source, args)}")
        failed, _ = suite.run_cells(cells, args)
    except KeyboardInterrupt:  # the message of a run names --resume, which this command lacks
        raise KeyboardInterrupt("interrupted; rerun the same command to continue") from None
    table = 100 * accuracies(cells)
    print(table.to_string(float_format="{:.1f}".format, na_rep="-"))
    bound = 196 * (0.25 / (args.images * len(config["seeds"]))) ** 0.5
    print(
        f"(accuracy per image in % at severity {args.severity:g}, {args.images:,} images per "
        f"corruption, each from the source model; 95 % intervals within ± {bound:.1f} points; the "
        "mean excludes clean images)"
    )
    return int(failed > 0)


def described(args: argparse.Namespace) -> "tuple[ImageSource, dict[str, Any]]":
    """The images, and the suite of every method on them, clean and corrupted; completes the options."""
    # Deferred: they import torch.
    from ..datamodules.corruptions import check
    from ..datamodules.sources.named import open_source, source_config

    in_range(1, images=args.images)
    chosen: Any = args.source, args.size, "stream", "center", args.labels
    source = open_source(*chosen)
    args.images = args.images or min(len(source), MOST)
    table = TABLES.get(source.size, "imagenet")
    for name in args.corruptions:
        check(name, args.severity, table)
    data = {
        "source": source_config(*chosen),
        "severities": [args.severity],
        "each": args.images,
        "table": table,
    }
    streams = {
        name if name == CLEAN else f"{name} {args.severity:g}": {
            "class_path": "Corrupted",
            "init_args": {**data, "corruptions": [] if name == CLEAN else [name]},
            "factors": {"corruption": name},
            "setting": CLEAN if name == CLEAN else f"severity {args.severity:g}",
        }
        for name in (CLEAN, *args.corruptions)
    }
    folder = re.sub(r"[^\w.-]+", "-", args.backbone).strip("-.")[:80] or "backbone"
    return source, {
        "out": args.out or f"runs/corruptions/{folder}",
        "common": {"model": {"init_args": {"backbone": args.backbone}}},
        "methods": {name.rpartition(".")[2]: {"class_path": name} for name in args.methods},
        "streams": streams,
        "seeds": args.seeds or [43],
    }


def tried(cells: list[grid.Cell], source: "ImageSource", args: argparse.Namespace) -> str:
    """The time that the cells will take, from the first step of each method and a few corrupted images.

    Raises:
        HoldfastError: if the labels do not fit the network, or a step fails, as it would in every run.
    """
    # Deferred: they import torch and pandas.
    import torch

    from ..datamodules.corruptions import corrupt
    from .results.text_table import duration
    from .suites.execution import cores
    from .test import fixed_threads, parts

    # Seconds: of a run beside its images and of an image in a step, by method; to make it, by corruption.
    steps: dict[str, tuple[float, float]] = {}
    make: dict[str, float] = {}
    device = torch.accelerator.current_accelerator(True) or "cpu"
    for name, cell in {cell.names["method"]: cell for cell in reversed(cells)}.items():
        begun = time.perf_counter()
        method, stream = parts(cell.config)
        method.to(device)
        start = START + time.perf_counter() - begun
        images = stream.batch(torch.arange(min(args.images, stream.batch_size))).images.to(device)
        try:
            check_classes(source, method.predict(images[:2]).shape[1], args)
            method.fit([images])
            begun = time.perf_counter()
            method.adapt(images).cpu()
        except Exception as error:  # whatever the user's code may raise
            if isinstance(error, HoldfastError):
                raise
            raise HoldfastError(
                f"The first step of {name} raises {type(error).__name__} ({reason(error)}). Fix the "
                "network or the method, or pass another --size."
            ) from error
        steps[name] = start, (time.perf_counter() - begun) / len(images)
    index, table = torch.arange(min(FEW, len(source))), TABLES.get(source.size, "imagenet")
    with fixed_threads(1):  # as in the process that makes batches
        begun = time.perf_counter()
        images, _ = source.load(index, index)
        read = time.perf_counter() - begun
        for name in {cell.factors["corruption"] for cell in cells}:
            begun = time.perf_counter()
            if name != CLEAN:
                corrupt(images, name, args.severity, index, table=table)
            make[name] = (read + time.perf_counter() - begun) / len(index)
    jobs = min(args.jobs or 1, cores())
    total = 0.0
    for cell in cells:
        (start, step), own = steps[cell.names["method"]], make[cell.factors["corruption"]]
        # A step uses all cores, making a batch one; a run makes its batches in one process.
        total += start / jobs + args.images * max(own / jobs, step + own / cores())
    return duration(total)


def check_classes(source: "ImageSource", outputs: int, args: argparse.Namespace) -> None:
    """Compare all labels, and the classes of a folder, with the network's outputs, once for all runs.

    Raises:
        HoldfastError: if a label has no output, or a folder has other classes and --labels is not given.
    """
    import torch  # deferred: slow to import

    from ..datamodules import ImageFolder, ImageNet
    from ..methods.checks import check_labels

    if isinstance(source, ImageFolder) and args.labels is None and source.classes != outputs:
        synsets = isinstance(source, ImageNet)
        kinds = {
            "folders": "numbers of the folders in alphabetical order",
            "imagenet": "ImageNet's numbers of the synsets that name the folders",
        }
        found, other = sorted(kinds, reverse=synsets)
        raise HoldfastError(
            f"The labels of {args.source} are {kinds[found]}, from 0 to {source.classes - 1}, but "
            f"{args.backbone} has {outputs:,} outputs. Pass --labels {other} for {kinds[other]}, or "
            f"--labels {found} if the numbers are right."
        )
    check_labels(source.labels_of(torch.arange(len(source))), outputs, source.classes)


def accuracies(cells: list[grid.Cell]) -> "pd.DataFrame":
    """Accuracy per image by corruption and method, mean over seeds; NaN if unfinished.

    The mean over corruptions excludes the clean images.
    """
    import pandas as pd  # deferred: slow to import

    from .results.runs import Run

    rows = [
        {
            "corruption": cell.factors["corruption"],
            "method": cell.names["method"],
            "accuracy": Run.load(cell.folder).accuracy_per_image if cell.finished else None,
        }
        for cell in cells
    ]
    frame = pd.DataFrame(rows).astype({"accuracy": float})
    table = frame.pivot_table("accuracy", "corruption", "method", sort=False, dropna=False)
    table.loc[MEAN] = table.drop(CLEAN).mean(skipna=False)
    return table
