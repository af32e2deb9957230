"""`holdfast corruptions`: measure accuracy under each corruption, each from the source model."""

import argparse
import contextlib
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np

from .. import HoldfastError, in_range
from ..command_parser import Parser
from ..corruption_names import CORRUPTIONS
from ..drawing import panels, saved
from .results.palette import method_styles
from .results.runs import Run, collect
from .results.text_table import aligned
from .run.common_options import add_source, add_yes, confirm
from .suites import grid, suite
from .suites.check import check_cells

CLEAN, MEAN = "clean", "mean"
MOST = 320  # default maximum number of images per corruption
TABLES = {
    32: "cifar",
    64: "tinyimagenet",
}  # corruption parameters by image size; "imagenet" for other sizes

Accuracies = dict[str, dict[str, float | None]]  # by method, then by corruption; in [0,1]


def parser() -> Parser:
    """The options of the command."""
    parser = Parser(
        "corruptions", __doc__, "--backbone digits --source digits --methods Source Tent"
    )
    parser.add("--backbone", required=True, help="network, as in `holdfast test`")
    add_source(parser)
    parser.add("--methods", nargs="+", default=["Source"], help="default: Source")
    parser.add("--severity", type=float, default=5, help="severity from 0 to 5 (default: 5)")
    parser.add("--corruptions", nargs="+", help="default: the 15 of ImageNet-C")
    parser.add(
        "--images",
        type=int,
        help=f"images per corruption (default: all images of the source, at most {MOST})",
    )
    parser.add(
        "--table",
        help="corruption parameters (default: cifar for 32 pixels, tinyimagenet for 64, else imagenet)",
    )
    parser.add("--batch", type=int, default=64, help="images per batch (default: 64)")
    parser.flag("--json", "print accuracies in [0,1] as JSON")
    add_yes(parser)
    suite.add_options(parser)
    return parser


def main(argv: list[str]) -> int:
    """Run unfinished cells, then print the table and draw the figure."""
    args = parser().parse_args(argv)
    args.command = shlex.join(["holdfast", "corruptions", *argv])
    config = plan(args)
    cells = list(grid.cells(config))
    check_cells(cell for cell in cells if cell.names["stream"] == cells[0].names["stream"])
    interrupted, failed = "", 0
    with contextlib.redirect_stdout(sys.stderr if args.json else sys.stdout):
        announce(args, sum(not cell.finished for cell in cells))
        try:
            failed, _ = suite.run_cells(cells, args)
        except KeyboardInterrupt:
            interrupted = "interrupted; rerun the same command to continue"
    if interrupted and not any(cell.finished for cell in cells):
        raise KeyboardInterrupt(interrupted)
    folders = {cell.folder.resolve() for cell in cells if cell.finished}
    runs = [run for run in collect(Path(config["out"])) if run.folder.resolve() in folders]
    found = accuracies(runs, [named(method) for method in args.methods], names(args))
    if args.json:
        settings = {
            k: getattr(args, k) for k in ("backbone", "source", "severity", "images", "table")
        }
        print(json.dumps({**settings, "accuracy": found}, indent=1))
    else:
        show(found, args, Path(config["out"]), runs)
    if interrupted:
        raise KeyboardInterrupt(interrupted)
    return 1 if failed else 0


def plan(args: argparse.Namespace) -> dict[str, Any]:
    """Build the suite of every method on clean images and on each corruption; sets default options."""
    from ..datamodules.corruptions import check
    from ..datamodules.sources.named import open_source, source_config

    in_range(1, images=args.images, batch=args.batch, methods=len(args.methods))
    source = open_source(args.source, args.size, "stream", "center")
    args.images = args.images or min(len(source), MOST)
    args.table = args.table or TABLES.get(source.size, "imagenet")
    for name in names(args):
        if name != CLEAN:
            check(name, args.severity, args.table)
    data = {
        "source": source_config(args.source, args.size, "stream", "center"),
        "severities": [args.severity],
        "each": args.images,
        "table": args.table,
        "batch_size": args.batch,
    }
    streams = {
        name if name == CLEAN else f"{name} {args.severity:g}": {
            "class_path": "Corrupted",
            "init_args": {**data, "corruptions": [] if name == CLEAN else [name]},
            "factors": {"corruption": name},
            "setting": CLEAN if name == CLEAN else f"severity {args.severity:g}",
        }
        for name in names(args)
    }
    return {
        "out": args.out or f"runs/corruptions/{folder_name(args.backbone)}",
        "common": {"model": {"init_args": {"backbone": args.backbone}}},
        "methods": {named(method): {"class_path": method} for method in args.methods},
        "streams": streams,
        "seeds": args.seeds or [43],
    }


def names(args: argparse.Namespace) -> list[str]:
    """The streams: clean images, then each corruption."""
    return [CLEAN, *dict.fromkeys(args.corruptions or CORRUPTIONS)]


def named(method: str) -> str:
    """The name of a method in tables and folders, without its module."""
    return method.rpartition(".")[2]


def folder_name(backbone: str) -> str:
    """The folder name of a backbone."""
    return re.sub(r"[^\w.-]+", "-", backbone).strip("-.")[:80] or "backbone"


def announce(args: argparse.Namespace, runs: int) -> None:
    """Print the estimated duration, and ask for confirmation above an hour."""
    if not runs:
        return
    from ..datamodules.sources.named import open_source
    from ..methods.backbones import load_backbone
    from .streams.calibrate import AccuracyMeter

    net = load_backbone(args.backbone).eval().to(best_device())
    source = open_source(args.source, args.size, "stream", "center")
    corrupted = tuple(name for name in names(args) if name != CLEAN)
    meter = AccuracyMeter(net, source, corrupted, args.images, args.table)
    speed = meter.images_per_second()
    images = runs * args.images
    where = f"on {meter.device}, more for methods that adapt" * (args.methods != ["Source"])
    confirm(f"{runs} runs of {args.images:,} images", images / speed, args.yes, where)


def best_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def accuracies(runs: list[Run], methods: list[str], corruptions: list[str]) -> Accuracies:
    """Accuracy per image of each method under each corruption, mean over seeds; None if unfinished.

    The mean over corruptions excludes the clean images.
    """
    found: Accuracies = {}
    for method in methods:
        row: dict[str, float | None] = {}
        for name in corruptions:
            own = [r for r in runs if r.method == method and r.factors.get("corruption") == name]
            known = [a for r in own if (a := r.accuracy_per_image) is not None]
            row[name] = float(np.mean(known)) if known else None
        values = [value for name, value in row.items() if name != CLEAN]
        complete = [value for value in values if value is not None]
        row[MEAN] = float(np.mean(complete)) if len(complete) == len(values) else None
        found[method] = row
    return found


def show(found: Accuracies, args: argparse.Namespace, out: Path, runs: list[Run]) -> None:
    """Print and draw one row per corruption and one column per method."""
    rows = [*names(args), MEAN]
    lines = [["accuracy, %", *found]]
    for name in rows:
        values = [found[method][name] for method in found]
        lines.append([name, *("-" if v is None else f"{100 * v:.1f}" for v in values)])
    print(aligned(lines))
    bound = 196 * (0.25 / (args.images * len(args.seeds or [43]))) ** 0.5
    print(
        f"(severity {args.severity:g}, {args.images:,} images per corruption, each from the source model; "
        f"95 % intervals within ± {bound:.1f} points; the mean excludes clean images)"
    )
    if not runs:
        return
    file = out / f"corruptions-{args.severity:g}.png"
    try:
        print(f"figure: {draw(found, rows, args.severity, file)}")
    except OSError as error:
        raise HoldfastError(f"Cannot write {file} ({error}). Choose another --out.") from error


def draw(found: Accuracies, rows: list[str], severity: float, path: Path) -> Path:
    """Draw one row per corruption with a dot per method; returns the path."""
    styles = method_styles([(method, method) for method in found])
    figure, (ax,) = panels(size=(6.4, 0.9 + 0.27 * len(rows)))
    places = np.arange(len(rows))
    ax.hlines(places, 0, 100, color="#E5E5E5", lw=0.8, zorder=0)
    for (method, row), marker in zip(found.items(), "oDs^vP*X" * len(found), strict=False):
        values = [np.nan if row[name] is None else 100 * float(row[name] or 0) for name in rows]
        colour = styles[method].colour
        ax.plot(values, places, marker, color=colour, ms=6, label=method, clip_on=False)
        ax.axvline(values[-1], color=colour, lw=0.9, ls=":", zorder=0)
    ax.set_yticks(places, [name.replace("_", " ") for name in rows])
    ax.set(xlim=(0, 100), xlabel=f"accuracy at severity {severity:g}, %")
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    return saved(figure, path)
