"""`holdfast calibrate`: measure the source accuracy under every pair of corruptions and severities."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from datetime import date
from pathlib import Path

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from ... import HoldfastError
from ...command_parser import Parser
from ...datamodules import Calibration, ImageSource
from ...datamodules.calibration import LEVELS
from ...datamodules.ccc import EASY, target_of
from ...datamodules.corruptions import check
from ...datamodules.corruptions.parameters import TABLES
from ...datamodules.official import load_official
from ...datamodules.sources.named import open_source
from ...files import locked
from ...methods.backbones import load_backbone, weights_hash
from ...methods.backbones.user_network import with_logits
from ..run.common_options import add_source, add_yes, confirm, share
from .calibration_accuracies import (
    USUAL,
    Rows,
    images_per_second,
    measure_near,
    measure_row,
    unmeasured,
)

SHORTER = "measure less: --difficulty 20 --corruptions A B C --images 16 --size 64"
PASSED = (
    "backbone",
    "source",
    "out",
    "images",
    "corruptions",
    "size",
    "table",
    "share",
    "difficulty",
)
SETTING = ("weights", "content", "images", "table")  # provenance that determines the accuracies


def start(path: Path, names: tuple[str, ...], provenance: dict) -> Calibration:
    """The calibration of an interrupted call, or an empty one."""
    if not path.exists():
        empty = np.full((len(names), len(names), LEVELS, LEVELS), np.nan, dtype=np.float32)
        return Calibration(names, empty, provenance)
    found = Calibration.load(path)
    if found.names != names or not agree(found.provenance, provenance, (*SETTING, "source")):
        raise HoldfastError(
            f"{path} belongs to a different backbone, source or setting. Choose another --out."
        )
    return found


def agree(a: dict, b: dict, keys: tuple[str, ...]) -> bool:
    """Whether two provenances agree in all common entries and in the difficulty."""
    said = all(a[key] == b[key] for key in keys if key in a and key in b)
    return said and a.get("near") == b.get("near")


def merge(paths: list[Path], out: Path) -> None:
    """Merge the shards of a calibration, and print the missing pairs."""
    first, *others = (Calibration.load(path) for path in paths)
    for path, other in zip(paths[1:], others, strict=True):
        if other.names != first.names or not agree(first.provenance, other.provenance, SETTING):
            raise HoldfastError(
                f"{path} and {paths[0]} are shards of different calibrations: their corruptions, "
                "backbone, source, images or table differ. Merge only shards of one calibration."
            )
        measured = ~np.isnan(other.accuracy)
        first.accuracy[measured] = other.accuracy[measured]
    save(first, out)
    pairs, missing = len(first.names) * (len(first.names) - 1), first.unfinished()
    lacks = f"; unfinished: {missing[0][0]} and {missing[0][1]}, ..." if missing else ""
    print(f"{out}: {pairs - len(missing)} of {pairs} pairs are measured{lacks}")


def save(calibration: Calibration, out: Path) -> None:
    """Write a complete calibration, unless another process is writing the file."""
    with locked(out, wait=False):
        calibration.save(out)


def difficulty(text: str) -> float | str:
    """Parse a difficulty: a name such as 'medium', or a number."""
    return float(text) if text.replace(".", "", 1).isdigit() else text


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("calibrate", __doc__, "--backbone digits --source digits --out mine.npz")
    parser.add("--backbone", default="glyphs", help="as in `holdfast test`")
    add_source(parser, "glyphs")
    parser.add("--images", type=int, default=192, help="images per accuracy (default: 192)")
    parser.add("--corruptions", nargs="+", default=EASY, help="two or more (default: CCC-Easy's)")
    parser.add("--table", default="imagenet", choices=tuple(TABLES))
    parser.add("--out", type=Path, required=True, help="npz file to write or continue")
    parser.add(
        "--shard",
        dest="share",
        metavar="I/N",
        type=share,
        default=(0, 1),
        help="measure every N-th part, starting with I (from 0)",
    )
    parser.add(
        "--difficulty",
        type=difficulty,
        help="measure only the entries that paths of this difficulty need: easy, medium, hard or percent",
    )
    add_yes(parser)
    parser.add("--official", type=Path, help="convert CCC's published pickle instead")
    parser.add("--merge", type=Path, nargs="+", help="join these files into --out instead")
    return parser


def main(argv: list[str]) -> int:
    """Measure or resume a calibration, or merge shards."""
    args = parser().parse_args(argv)
    if args.merge:
        merge(args.merge, args.out)
    elif args.official:
        save(load_official(args.official), args.out)
    else:
        calibrate(**{name: getattr(args, name) for name in PASSED}, ask=not args.yes)
    return 0


def calibrate(
    backbone: nn.Module | str,
    source: ImageSource | str,
    out: Path | str,
    images: int = 192,
    corruptions: Sequence[str] = EASY,
    size: int | None = None,
    table: str = "imagenet",
    share: tuple[int, int] = (0, 1),
    difficulty: float | str | None = None,
    ask: bool = False,
) -> Calibration:
    """Measure a model's calibration, or continue the one in `out`, which is saved after every row.

    Args:
        backbone: the network as in `TTAMethod`, or its name.
        source: clean images, or "glyphs", "digits" or a folder with one sub-folder per class.
        size: pixels per side for a source given by name (default: 224; glyphs: 32).
        images: number of images per accuracy.
        corruptions: two or more corruptions.
        share: (I, N) measures every N-th part, starting with I.
        difficulty: measure only the entries that CCC's paths of this difficulty need.
        ask: ask for confirmation at the terminal before more than an hour of work.
    """
    if images < 1:
        raise HoldfastError(f"--images must be at least 1, not {images}.")
    if len(names := tuple(corruptions)) < 2 or len(set(names)) < len(names):
        raise HoldfastError("--corruptions needs two or more different corruptions.")
    for name in names:
        check(name, 5, table)
    target = None if difficulty is None else target_of(difficulty)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    given = backbone if isinstance(backbone, nn.Module) else load_backbone(backbone)
    net = with_logits(deepcopy(given)).eval().to(device)
    opened = (
        source
        if isinstance(source, ImageSource)
        else open_source(source, size, "calibration", "center")
    )
    provenance = {
        "backbone": backbone if isinstance(backbone, str) else type(backbone).__name__,
        "weights": weights_hash(net),
        "source": source if isinstance(source, str) else repr(source),
        "content": repr(opened),
        "size": opened.size,
        "images": images,
        "table": table,
        "date": date.today().isoformat(),
        **({} if target is None else {"near": target}),
    }
    rows, out = Rows(net, opened, names, images, table), Path(out)
    with locked(out, wait=False):
        calibration = start(out, names, provenance)
        for _ in work(rows, calibration, share, target, ask):
            calibration.save(out)
    return calibration


def work(
    rows: Rows,
    calibration: Calibration,
    share: tuple[int, int],
    target: float | None,
    ask: bool,
) -> Iterator[None]:
    """Estimate the cost of this share and measure it; yields whenever there are new results to save."""
    count, (first, shares) = len(rows.names), share
    if target is None:
        parts = [(a, i) for a in range(count) for i in range(LEVELS)][first::shares]
        todo = LEVELS * sum(len(unmeasured(calibration, a, i)) for a, i in parts)
        steps = (
            n
            for a, i in parts
            if unmeasured(calibration, a, i)
            for n in measure_row(rows, calibration, a, i)
        )
    else:
        pairs = [(a, b) for a in range(count) for b in range(count) if a != b][first::shares]
        todo = USUAL * len(pairs) - sum(
            int((~np.isnan(calibration.accuracy[a, b])).sum()) for a, b in pairs
        )
        steps = (n for a, b in pairs for n in measure_near(rows, calibration, a, b, target))
    if todo > 0:
        images, speed = todo * rows.images, images_per_second(rows)
        work = f"calibrate: {images:,} images at {speed:.0f} images a second"
        confirm(work, images / speed, not ask, shorter=SHORTER)
    with tqdm(
        desc="calibrate", unit="img", unit_scale=True, smoothing=0, total=max(todo, 0) * rows.images
    ) as bar:
        for entries in steps:
            yield
            bar.update(entries * rows.images)
