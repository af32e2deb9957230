"""`holdfast corruptions`: measure accuracy under each corruption, each from the source model."""

import argparse
import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import HoldfastError, in_range
from ..files import reason
from ..imagenet import CORRUPTIONS, class_folders
from .common_options import add_protocol, add_source, command_parser
from .suites import grid
from .suites.cell import Cell
from .suites.options import RunOptions, add_run_options
from .suites.suite import run_cells

if TYPE_CHECKING:
    import pandas as pd

    from ..datamodules import ImageSource

CLEAN, MEAN = "clean", "mean"
MOST = 320  # default maximum number of images per corruption
_BATCH, _STEPS = 64, 100  # of a stream; steps from which methods differ visibly
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
    add_protocol(parser, crop="center", quality=None)
    table = "the corruptions' parameters (default: cifar for 32 pixels, tinyimagenet for 64, else imagenet)"
    add("--table", choices=("imagenet", "cifar", "tinyimagenet"), help=table)
    add("--methods", nargs="+", default=["Source"], help="default: Source")
    add("--severity", type=float, default=5, help="severity from 0 to 5 (default: 5)")
    add("--corruptions", nargs="+", default=CORRUPTIONS, help="default: the 15 of ImageNet-C")
    add("--images", type=int, help=f"per corruption (default: those of the source, at most {MOST})")
    add_run_options(parser, out="runs/corruptions/BACKBONE", seeds="43")
    return parser


def main(argv: list[str]) -> int:
    """Try a step of each method, run unfinished cells, then print the table."""
    args = parser().parse_args(argv)
    command = shlex.join(["holdfast", "corruptions", *argv])
    options = RunOptions.parsed(args, command=command, per_image=True)
    measurement = Measurement.parsed(args)
    suite = measurement.suite(args.methods, args.corruptions, options)
    cells, images = list(grid.cells(suite)), measurement.images
    refused: dict[str, HoldfastError] = {}
    if todo := [cell for cell in grid.share(cells, *options.share) if not cell.finished]:
        steps, refused = measurement.try_steps(todo)
        for name, error in refused.items():
            print(f"{name} is left out. {error}")
        cells, todo = (
            [c for c in part if c.names["method"] not in refused] for part in (cells, todo)
        )
        duration = measurement.foretold(todo, steps, options.jobs or 1)
        print(f"{len(todo)} runs of {images:,} images: about {duration}")
    failed, _ = run_cells(cells, options)
    table = 100 * accuracies(cells)
    print(table.to_string(float_format="{:.1f}".format, na_rep="-"))
    bound = 196 * (0.25 / (images * len(suite["seeds"]))) ** 0.5
    print(
        f"(accuracy per image in % at severity {args.severity:g}, {images:,} images per "
        f"corruption, each from the source model; {measurement.protocol}; 95 % intervals within "
        f"± {bound:.1f} points; the mean excludes clean images)"
    )
    batches = -(-images // _BATCH)
    if batches < _STEPS and len(args.methods) > 1:
        print(
            f"Each run has {batches} steps: too few for methods to drift apart, and RDumb resets after "
            f"1,000. Pass --images {_BATCH * _STEPS} for {_STEPS} steps."
        )
    caption = f"severity {args.severity:g}, {images:,} images each; {measurement.protocol}"
    print(f"figure: {draw(table, Path(suite['out'], 'corruptions.png'), caption)}")
    return int(failed > 0 or bool(refused))


@dataclass(frozen=True)
class Measurement:
    """A network on the images of a source, clean and under each corruption.

    config: the source's class path and arguments. images: number per corruption. labels: the option
    --labels, or None. table: of the corruptions' parameters. quality: of a JPEG, or None.
    """

    backbone: str
    source: "ImageSource"
    config: Any
    images: int
    severity: float
    labels: str | None
    folder: str  # the option --source
    table: str
    quality: int | None

    @classmethod
    def parsed(cls, args: argparse.Namespace) -> "Measurement":
        """That of the command's options; raises HoldfastError if a corruption or a number is invalid."""
        # Deferred: they import torch.
        from ..datamodules.corruptions import check
        from ..datamodules.sources.named import open_source, source_config
        from ..methods import load_backbone

        in_range(1, images=args.images)
        in_range(1, 100, quality=args.quality)
        choice: Any = args.source, args.size, "stream", args.crop, args.labels
        source = open_source(*choice)
        source.adopt(load_backbone(args.backbone))
        images = args.images or min(len(source), MOST)
        measurement = cls(
            args.backbone,
            source,
            source_config(*choice),
            images,
            args.severity,
            args.labels,
            args.source,
            args.table or TABLES.get(source.size, "imagenet"),
            args.quality,
        )
        for name in args.corruptions:
            check(name, args.severity, measurement.table)
        return measurement

    @property
    def protocol(self) -> str:
        """Resizing and crop of the images, table of the corruptions and compression, for captions."""
        from ..datamodules import DatasetSource  # deferred: it imports torch

        source, images = self.source, f"{self.source.size} x {self.source.size} pixels"
        if isinstance(source, DatasetSource):
            images = (
                str(source.preprocessing) if source.crop == "center" else f"random crops, {images}"
            )
        jpeg = "no JPEG" if self.quality is None else f"JPEG of quality {self.quality}"
        return f"{images}; table {self.table}; {jpeg}"

    def suite(
        self, methods: Sequence[str], corruptions: Sequence[str], options: RunOptions
    ) -> dict[str, Any]:
        """The suite of every method, clean and corrupted."""
        data = {
            "source": self.config,
            "severities": [self.severity],
            "each": self.images,
            "table": self.table,
            "quality": self.quality,
        }
        streams = {
            name if name == CLEAN else f"{name} {self.severity:g}": {
                "class_path": "Corrupted",
                "init_args": {**data, "corruptions": [] if name == CLEAN else [name]},
                "factors": {"corruption": name},
                "setting": CLEAN if name == CLEAN else f"severity {self.severity:g}",
            }
            for name in (CLEAN, *corruptions)
        }
        folder = re.sub(r"[^\w.-]+", "-", self.backbone).strip("-.")[:80] or "backbone"
        return {
            "out": options.out or f"runs/corruptions/{folder}",
            "common": {"model": {"init_args": {"backbone": self.backbone}}},
            "methods": {name.rpartition(".")[2]: {"class_path": name} for name in methods},
            "streams": streams,
            "seeds": options.seeds or [43],
        }

    def try_steps(
        self, cells: list[Cell]
    ) -> tuple[dict[str, tuple[float, float]], dict[str, HoldfastError]]:
        """The seconds of each method, see `_try_step`, and why others do not take this network.

        Raises:
            HoldfastError: if no method takes it, or the labels do not fit it.
        """
        steps, refused = {}, {}
        for name, cell in {cell.names["method"]: cell for cell in reversed(cells)}.items():
            try:
                steps[name] = self._try_step(name, cell)
            except HoldfastError as error:
                refused[name] = error
        if not steps:
            raise next(iter(refused.values()))
        return steps, refused

    def foretold(self, cells: list[Cell], steps: dict[str, tuple[float, float]], jobs: int) -> str:
        """How long the cells will take, from the methods' first steps and a few corrupted images."""
        # Deferred: they import torch and pandas.
        from .results.text_table import duration
        from .suites.execution import cores
        from .suites.running_time import device, seconds_a_batch

        making = self._seconds_to_make({cell.factors["corruption"] for cell in cells})
        jobs = min(jobs, cores())
        threads = cores() if device().type == "cpu" else 0
        total = 0.0
        for cell in cells:
            start, step = steps[cell.names["method"]]
            make = making[cell.factors["corruption"]]
            total += start / jobs + self.images * seconds_a_batch(step, make, 1, threads, jobs)
        return duration(total)

    def _try_step(self, name: str, cell: Cell) -> tuple[float, float]:
        """Seconds of a run of this method beside its images, and of an image in its first step."""
        import torch  # deferred: slow to import

        from .suites.running_time import device
        from .test import parts

        begun = time.perf_counter()
        method, stream = parts(cell.config)
        method.to(device())
        stream.adopt(method.backbone)
        start = START + time.perf_counter() - begun
        images = stream.batch(torch.arange(min(self.images, stream.batch_size))).images.to(device())
        try:
            self._check_classes(method.predict(images[:2]).shape[1])
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
        return start, (time.perf_counter() - begun) / len(images)

    def _seconds_to_make(self, corruptions: set[str]) -> dict[str, float]:
        """Seconds in which one thread reads and corrupts an image, by corruption."""
        import torch  # deferred: slow to import

        from ..datamodules.corruptions import corrupt
        from .test import fixed_threads

        index = torch.arange(min(FEW, len(self.source)))
        seconds = {}
        with fixed_threads(1):  # as in the process that makes batches
            begun = time.perf_counter()
            images, _ = self.source.load(index, index)
            read = time.perf_counter() - begun
            for name in corruptions:
                begun = time.perf_counter()
                if name != CLEAN:
                    corrupt(images, name, self.severity, index, table=self.table)
                seconds[name] = (read + time.perf_counter() - begun) / len(index)
        return seconds

    def _check_classes(self, outputs: int) -> None:
        """Compare all labels, and the classes of a folder, with the network's outputs, once for all runs.

        Raises:
            HoldfastError: if a label has no output, or a folder has other classes without --labels.
        """
        import torch  # deferred: slow to import

        from ..datamodules import ImageFolder, ImageNet
        from ..methods.checks import check_labels

        source = self.source
        if isinstance(source, ImageFolder) and self.labels is None and source.classes != outputs:
            kinds = {
                "folders": "numbers of the folders in alphabetical order",
                "numbers": "the numbers that are the folders' names",
                "imagenet": "ImageNet's numbers of the synsets that name the folders",
            }
            by_name = all(name.isdecimal() for name in class_folders(source.root))
            kind = (
                "imagenet" if isinstance(source, ImageNet) else "numbers" if by_name else "folders"
            )
            other = "imagenet" if kind == "folders" else "folders"
            raise HoldfastError(
                f"The labels of {self.folder} are {kinds[kind]}, up to {source.classes - 1}, but "
                f"{self.backbone} has {outputs:,} outputs. Pass --labels {other} for {kinds[other]}, or "
                f"--labels {kind} if the numbers are right."
            )
        labels = source.labels_of(torch.arange(len(source)))
        check_labels(int(labels.max()), outputs, source.classes, first=True)


def accuracies(cells: list[Cell]) -> "pd.DataFrame":
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


def draw(table: "pd.DataFrame", path: Path, caption: str) -> Path:
    """Draw the accuracies in percent as bars, a group for each corruption and a colour for each method."""
    import numpy as np  # deferred, like the drawing: slow to import

    from ..drawing import TWO, legend, panels, styles

    groups, width = np.arange(len(table)), 0.84 / len(table.columns)
    looks = styles(table.columns, {name: name for name in table.columns})
    with panels(path, height=2.6, width=TWO) as (figure, [ax]):
        for number, (label, style) in enumerate(looks.items()):
            offset = (number - (len(table.columns) - 1) / 2) * width
            hatch = "//" if style.dashes and label != "Source" else None
            look = {"label": label, "color": style.colour, "hatch": hatch}
            ax.bar(groups + offset, table[label], width, **look)
        ax.set_xticks(groups, [str(name).replace("_", " ") for name in table.index], rotation=40)
        for tick in ax.get_xticklabels():
            tick.set(ha="right", rotation_mode="anchor")
        ax.set(title=caption, ylabel="accuracy, %", ylim=(0, 100))
        ax.grid(visible=False, axis="x")
        legend(figure, [ax])
    return path
