"""`holdfast calibrate`: the source model's accuracy under every pair of corruptions and severities."""

import argparse
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from .. import HoldfastError
from ..datamodules import Calibration, ImageSource
from ..datamodules.calibration import LEVELS, STEP
from ..datamodules.ccc import EASY
from ..datamodules.corruptions import check, corrupt
from ..datamodules.counter import mix, permuted
from ..datamodules.official import load_official
from ..datamodules.sources.named import open_source
from ..files import locked
from ..methods.backbones import load_backbone, weights_hash
from .options import share

PIECE = 256  # images corrupted together
SETTING = ("weights", "content", "images", "table")  # what the accuracies depend on


def measure_row(
    net: nn.Module, source: ImageSource, calibration: Calibration, a: int, i: int, images: int
) -> Iterator[None]:
    """Fill accuracy[a, b, i, :]: corruption a at one severity, then b at every severity; b by b.

    The images are drawn anew for each (a, i), so that the sampling errors along a path average out.
    """
    names, table = calibration.names, calibration.provenance["table"]
    index = torch.arange(images)
    drawn = permuted(index % len(source), len(source), a, i)
    clean, labels = source.load(drawn, mix(a, i, index))
    once = [
        corrupt(part, names[a], i * STEP, mix(1, a, i, place), table=table)
        for part, place in zip(
            clean.to(device_of(net)).split(PIECE), index.split(PIECE), strict=True
        )
    ]
    for b in unmeasured(calibration, a, i):
        for j in range(LEVELS):
            correct = 0
            for part, place, true in zip(
                once, index.split(PIECE), labels.split(PIECE), strict=True
            ):
                seeds = mix(2, a, i, b, j, place)
                twice = corrupt(part, names[b], j * STEP, seeds, table=table)
                correct += int((predict(net, twice) == true).sum())
            calibration.accuracy[a, b, i, j] = 100 * correct / images
        yield


def unmeasured(calibration: Calibration, a: int, i: int) -> list[int]:
    """Second corruptions that were not measured yet with corruption a at one severity."""
    others = (b for b in range(len(calibration.names)) if b != a)
    return [b for b in others if np.isnan(calibration.accuracy[a, b, i, -1])]


def device_of(net: nn.Module) -> torch.device:
    return next(net.parameters()).device


@torch.inference_mode()
def predict(net: nn.Module, images: Tensor) -> Tensor:
    """Predicted classes [B] of uint8 images, on the network's device, returned on the CPU."""
    chunks = images.to(device_of(net)).float().div(255).split(64)
    return torch.cat([net(chunk).argmax(1) for chunk in chunks]).cpu()


def start(path: Path, names: tuple[str, ...], provenance: dict) -> Calibration:
    """The calibration of an interrupted call if there is one, or an empty one."""
    if not path.exists():
        empty = np.full((len(names), len(names), LEVELS, LEVELS), np.nan, dtype=np.float32)
        return Calibration(names, empty, provenance)
    found = Calibration.load(path)
    if found.names != names or not agree(found.provenance, provenance, (*SETTING, "source")):
        raise HoldfastError(
            f"{path} belongs to another backbone, source or setting: choose another --out."
        )
    return found


def agree(a: dict, b: dict, keys: tuple[str, ...]) -> bool:
    """Whether two provenances agree in what both of them say."""
    return all(a[key] == b[key] for key in keys if key in a and key in b)


def merge(paths: list[Path], out: Path) -> None:
    """Join the shards of one calibration, and say which pairs they lack."""
    first, *others = (Calibration.load(path) for path in paths)
    for path, other in zip(paths[1:], others, strict=True):
        if other.names != first.names or not agree(first.provenance, other.provenance, SETTING):
            raise HoldfastError(
                f"{path} and {paths[0]} are not of one calibration: their corruptions, backbone, "
                "source, images or table differ."
            )
        measured = ~np.isnan(other.accuracy)
        first.accuracy[measured] = other.accuracy[measured]
    save(first, out)
    pairs, missing = len(first.names) * (len(first.names) - 1), first.unfinished()
    lacks = f"; unfinished: {missing[0][0]} and {missing[0][1]}, ..." if missing else ""
    print(f"{out}: {pairs - len(missing)} of {pairs} pairs are measured{lacks}")


def save(calibration: Calibration, out: Path) -> None:
    """Write a whole calibration, unless another process is measuring into that file."""
    with locked(out, wait=False):
        calibration.save(out)


def main(argv: list[str]) -> int:
    """Measure, resuming what is there; or merge shards."""
    parser = argparse.ArgumentParser(prog="holdfast calibrate", description=__doc__)
    parser.add_argument("--backbone", default="glyphs", help="name or file of the source model")
    parser.add_argument("--source", default="glyphs", help="glyphs, digits, or a folder of classes")
    parser.add_argument("--images", type=int, default=192, help="images for each accuracy")
    parser.add_argument("--size", type=int, default=224, help="image size for a folder")
    parser.add_argument("--corruptions", nargs="+", default=EASY, help="two or more")
    parser.add_argument("--table", default="imagenet", choices=("imagenet", "cifar"))
    parser.add_argument("--out", type=Path, required=True, help="npz file to write or continue")
    parser.add_argument("--shard", type=share, default=(0, 1), help="I/N: every N-th part, from I")
    parser.add_argument("--official", type=Path, help="convert CCC's published pickle instead")
    parser.add_argument("--merge", type=Path, nargs="+", help="join these files into --out instead")
    args = parser.parse_args(argv)
    if args.merge:
        merge(args.merge, args.out)
    elif args.official:
        save(load_official(args.official), args.out)
    else:
        measure(args)
    return 0


def measure(args: argparse.Namespace) -> None:
    """Fill a calibration, or go on with one, and save it after every row."""
    if args.images < 1:
        raise HoldfastError("--images must be at least 1.")
    if len(names := tuple(args.corruptions)) < 2 or len(set(names)) < len(names):
        raise HoldfastError("--corruptions: name two or more, each once.")
    for name in names:
        check(name, 5, args.table)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = load_backbone(args.backbone).to(device)
    source = open_source(args.source, args.size, split="calibration", crop="center")
    provenance = {
        "backbone": args.backbone,
        "weights": weights_hash(net),
        "source": args.source,
        "content": repr(source),
        "images": args.images,
        "table": args.table,
        "date": date.today().isoformat(),
    }
    with locked(args.out, wait=False):
        calibration = start(args.out, names, provenance)
        share, shares = args.shard
        rows = [(a, i) for a in range(len(names)) for i in range(LEVELS)][share::shares]
        total = len(rows) * (len(names) - 1)
        missing = sum(len(unmeasured(calibration, a, i)) for a, i in rows)
        images = LEVELS * args.images
        with tqdm(
            desc="calibrate",
            unit="img",
            unit_scale=True,
            smoothing=0,
            total=total * images,
            initial=(total - missing) * images,
        ) as bar:
            for a, i in rows:
                if not unmeasured(calibration, a, i):
                    continue
                for _ in measure_row(net, source, calibration, a, i, args.images):
                    calibration.save(args.out)
                    bar.update(images)
