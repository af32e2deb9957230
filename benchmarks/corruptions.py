"""`holdfast corruptions`: measure accuracy under each corruption, each from the source model."""

import argparse
import re
import shlex
from typing import TYPE_CHECKING, Any

from .. import in_range
from ..imagenet import CORRUPTIONS
from .common_options import add_source
from .suites import grid, suite

if TYPE_CHECKING:
    import pandas as pd

CLEAN, MEAN = "clean", "mean"
MOST = 320  # default maximum number of images per corruption
# Corruption parameters by image size; "imagenet" for other sizes.
TABLES = {32: "cifar", 64: "tinyimagenet"}


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        "holdfast corruptions",
        description=__doc__,
        epilog="example: holdfast corruptions --backbone digits --source digits --methods Source Tent",
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
    """Run unfinished cells, then print the table."""
    args = parser().parse_args(argv)
    args.command = shlex.join(["holdfast", "corruptions", *argv])
    config = described(args)
    cells = list(grid.cells(config))
    try:
        failed, _ = suite.run_cells(cells, args)
    except KeyboardInterrupt:  # the message of a run names --resume, which this command lacks
        raise KeyboardInterrupt("interrupted; rerun the same command to continue") from None
    table = 100 * accuracies(cells)
    print(table.to_string(float_format="{:.1f}".format, na_rep="-"))
    bound = 196 * (0.25 / (args.images * len(config["seeds"]))) ** 0.5
    print(
        f"(accuracy in % at severity {args.severity:g}, {args.images:,} images per corruption, each "
        f"from the source model; 95 % intervals within ± {bound:.1f} points; the mean excludes clean "
        "images)"
    )
    return int(failed > 0)


def described(args: argparse.Namespace) -> dict[str, Any]:
    """The suite of every method on clean images and on each corruption; completes the options."""
    # Deferred: they import torch.
    from ..datamodules.corruptions import check
    from ..datamodules.sources.named import open_source, source_config

    in_range(1, images=args.images)
    source = open_source(args.source, args.size, "stream", "center")
    args.images = args.images or min(len(source), MOST)
    table = TABLES.get(source.size, "imagenet")
    for name in args.corruptions:
        check(name, args.severity, table)
    data = {
        "source": source_config(args.source, args.size, "stream", "center"),
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
    return {
        "out": args.out or f"runs/corruptions/{folder}",
        "common": {"model": {"init_args": {"backbone": args.backbone}}},
        "methods": {name.rpartition(".")[2]: {"class_path": name} for name in args.methods},
        "streams": streams,
        "seeds": args.seeds or [43],
    }


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
