"""`holdfast calibrate`: measure the source accuracy under every pair of corruptions and severities."""

import argparse
from collections.abc import Iterator, Sequence
from copy import deepcopy
from datetime import date
from functools import lru_cache
from itertools import permutations, product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from scipy.special import expit, logit
from torch import Tensor, nn
from tqdm import tqdm

from ... import HoldfastError, in_range
from ...datamodules import Calibration, ImageSource
from ...datamodules.calibration import LEVELS, STEP, WHOLE
from ...datamodules.ccc import EASY, target_of
from ...datamodules.corruptions import check, corrupt
from ...datamodules.corruptions.parameters import TABLES
from ...datamodules.counter import mix, permuted
from ...datamodules.paths import find_path
from ...datamodules.sources.named import Labels, open_source
from ...files import locked
from ...methods.backbones import load_backbone, weights_hash
from ...methods.backbones.load import with_logits
from ..common_options import add_share, add_source, command_parser, difficulty
from . import memory_in_a_sentence

_SETTING = ("weights", "content", "images", "table")  # provenance that determines the accuracies
_PIECE = 256  # number of images corrupted together
_ROUND, _ROUNDS = 1000, 3  # images along a walk whose accuracy is corrected, and how often


def parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, "calibrate --backbone digits --source digits --out mine.npz")
    add = parser.add_argument
    add("--backbone", default="glyphs", help="as in `holdfast test`")
    add_source(parser, "glyphs")
    add("--images", type=int, default=192, help="images per accuracy (default: 192)")
    add("--corruptions", nargs="+", default=EASY, help="two or more (default: CCC-Easy's)")
    add("--table", default="imagenet", choices=tuple(TABLES))
    add("--out", type=Path, required=True, help="npz file to write or continue")
    add_share(parser, "the pairs")
    whole = "measure whole severities only (36 of 441 entries a pair), and interpolate between them"
    add("--whole", action="store_true", help=whole)
    walks = "as --whole, then correct the accuracies along the walks of this difficulty"
    add("--walks", type=difficulty, help=walks)
    crop = "of a folder's images; random: as CCC's streams crop them (default: center)"
    add("--crop", choices=("center", "random"), default="center", help=crop)
    add("--official", type=Path, help="convert CCC's published pickle instead")
    add("--merge", type=Path, nargs="+", help="join these files into --out instead")
    return parser


def main(argv: list[str]) -> int:
    """Measure or resume a calibration, merge shards, or convert the official file."""
    options = vars(parser().parse_args(argv))
    out, shards, official = options["out"], options.pop("merge"), options.pop("official")
    if shards or official:
        calibration = _merged(shards) if shards else Calibration.load_official(official)
        with locked(out):
            calibration.save(out)
        count, missing = len(calibration.names), calibration.unfinished()
        pairs = count * (count - 1)
        lacks = f"; unfinished: {missing[0][0]} and {missing[0][1]}, ..." if missing else ""
        print(f"{out}: {pairs - len(missing)} of {pairs} pairs are measured{lacks}")
    else:
        with memory_in_a_sentence("fewer --images"):
            calibration = calibrate(**options)
        if missing := calibration.unfinished():
            print(
                f"wrote {out}, which lacks {len(missing)} pairs. Measure the other parts and join them "
                "with --merge. After --whole or --walks, run this command again with the joined file as "
                "--out."
            )
        else:
            print(f"wrote {out}, a `calibration` for CCC and for `holdfast generate`")
            for sentence in quality(calibration):
                print(sentence)
    return 0


def quality(calibration: Calibration) -> Iterator[str]:
    """Sentences on how near its interpolation and its corrected walks come to measured accuracies."""
    if held := calibration.provenance.get("held_out"):
        yield (
            f"Of {held['entries']} accuracies between whole severities, the measured ones are "
            f"{held['mean']:+.1f} points from the interpolated ones on average, {held['rms']:.1f} (root "
            f"mean square), of which the number of images explains {held['rms_of_sampling']:.1f}."
        )
    if (target := calibration.difficulty) is not None:
        last = np.array([found[-1] for found in calibration.provenance["walks"]["pairs"].values()])
        off = np.sqrt(np.mean((last - target) ** 2))
        sampling = np.sqrt(target * (100 - target) / _ROUND)
        yield (
            f"The last correction found {len(last)} walks at {last.mean():.1f} % on average, {off:.1f} "
            f"points (root mean square) from {target:g} %, of which its {_ROUND:,} images explain "
            f"{sampling:.1f}."
        )


def calibrate(
    backbone: str | nn.Module,
    source: ImageSource | str,
    out: Path | str,
    images: int = 192,
    corruptions: Sequence[str] = EASY,
    size: int | None = None,
    table: str = "imagenet",
    share: tuple[int, int] = (0, 1),
    whole: bool = False,
    walks: float | str | None = None,
    crop: Literal["center", "random"] = "center",
    labels: Labels = None,
) -> Calibration:
    """Measure a model's calibration, or continue the one in `out`, which is saved after every row.

    Args:
        backbone: the network as in `TTAMethod`, or its name.
        source: clean images, or "glyphs", "digits" or a folder with one sub-folder per class.
        size: pixels per side for a folder (default: the backbone's, as its weights were evaluated, or 224).
        images: number of images per accuracy.
        corruptions: two or more corruptions.
        share: (I, N) measures every N-th part, starting with I.
        whole: measure whole severities only; the others are interpolated.
        walks: as `whole`, then correct them along CCC's walks of this difficulty (see `_corrected`).
        crop: of the images of a folder; CCC's published accuracies are of central crops.
        labels: how a folder's sub-folders become labels, as in `source_config`.
    """
    in_range(1, images=images)
    whole = whole or walks is not None
    if len(names := tuple(corruptions)) < 2 or len(set(names)) < len(names):
        raise HoldfastError("--corruptions needs two or more different corruptions.")
    for name in names:
        check(name, 5, table)
    network = load_backbone(backbone) if isinstance(backbone, str) else deepcopy(backbone)
    net = with_logits(network).eval().to("cuda" if torch.cuda.is_available() else "cpu")
    opened = source
    if isinstance(opened, str):
        opened = open_source(opened, size, "calibration", crop, labels)
    opened.adopt(network)
    provenance: dict[str, Any] = {
        "backbone": backbone if isinstance(backbone, str) else type(backbone).__name__,
        "weights": weights_hash(net),
        "source": Path(source).name if isinstance(source, str) else repr(source),
        "content": ", ".join(filter(None, (repr(opened), opened.content))),
    }
    provenance |= {"size": opened.size, "images": images, "table": table}
    provenance |= {"date": date.today().isoformat()} | ({"whole": True} if whole else {})
    meter, out = AccuracyMeter(net, opened, names, images, table), Path(out)
    with locked(out):
        calibration = _begun(out, names, provenance)
        for _ in _measured(meter, calibration.accuracy, share, whole):
            calibration.save(out)
        if whole and not calibration.unfinished() and "held_out" not in calibration.provenance:
            calibration.provenance["held_out"] = _held_out(meter, calibration)
            calibration.save(out)
        if walks is not None and not calibration.unfinished():
            for _ in _corrected(meter, calibration, target_of(walks)):
                calibration.save(out)
    return calibration


def _corrected(meter: "AccuracyMeter", calibration: Calibration, target: float) -> Iterator[None]:
    """Shift the logits of each pair's accuracies until the steady search's path has `target` percent.

    Interpolation between whole severities leaves a path some points off. Round n measures the path's
    accuracy and removes 1/n of its deviation, as all measurements are equally uncertain. Yields after
    each; the provenance lists the measured accuracies by pair.
    """
    walks = calibration.provenance.setdefault("walks", {"target": target, "pairs": {}})
    if walks["target"] != target:
        raise HoldfastError(
            f"The calibration's paths were corrected at {walks['target']:g} %. Choose another --out."
        )
    numbers = range(len(calibration.names))
    for a, b in tqdm(list(permutations(numbers, 2)), desc="walks", unit=" pairs"):
        first, second = calibration.names[a], calibration.names[b]
        accuracies = walks["pairs"].setdefault(f"{first}, {second}", [])
        for number in range(len(accuracies), _ROUNDS):
            path = find_path(calibration.matrix(first, second), target, "steady")
            accuracies.append(round(meter.along(a, b, path, number), 2))
            off = (_logits(accuracies[-1]) - _logits(target)) / (number + 1)
            pair = calibration.accuracy[a, b]
            pair[:] = 100 * expit(_logits(pair) + off)
            yield


def _logits(accuracy: np.ndarray | float) -> np.ndarray:
    """The logits of accuracies in percent; 0 and 100 % count as .1 and 99.9 %."""
    return logit(np.clip(accuracy, 0.1, 99.9) / 100)


def _held_out(
    meter: "AccuracyMeter", calibration: Calibration, entries: int = 40
) -> dict[str, float]:
    """Compare measured with interpolated accuracies at random entries between whole severities, in points.

    Their mean and root mean square, and the latter's part that the number of images explains.
    """
    rng, off, noise = np.random.default_rng(0), [], []
    elsewhere = [(i, j) for i, j in product(range(LEVELS), repeat=2) if i % WHOLE or j % WHOLE]
    for _ in range(entries):
        a, b = (int(n) for n in rng.choice(len(calibration.names), 2, replace=False))
        at, matrix = elsewhere[rng.integers(len(elsewhere))], np.full((LEVELS, LEVELS), np.nan)
        meter.fill(matrix, a, b, [at])
        expected = calibration.matrix(calibration.names[a], calibration.names[b])[at]
        off.append(matrix[at] - expected)
        noise.append(expected * (100 - expected) / meter.images)
    numbers = {"mean": np.mean(off), "rms": np.sqrt(np.mean(np.square(off)))}
    numbers |= {"rms_of_sampling": np.sqrt(np.mean(noise))}
    return {"entries": entries} | {name: round(float(n), 2) for name, n in numbers.items()}


def _begun(path: Path, names: tuple[str, ...], provenance: dict) -> Calibration:
    """The calibration of an interrupted call, or an empty one."""
    if not path.exists():
        empty = np.full((len(names), len(names), LEVELS, LEVELS), np.nan, dtype=np.float32)
        return Calibration(names, empty, provenance)
    calibration = Calibration.load(path)
    same = _agree(calibration.provenance, provenance, (*_SETTING, "source"))
    if calibration.names != names or not same:
        raise HoldfastError(
            f"{path} belongs to a different backbone, source or setting. Choose another --out."
        )
    return calibration


def _agree(a: dict, b: dict, keys: tuple[str, ...]) -> bool:
    """Whether two provenances agree in what is measured and in those of these entries that both have."""
    same = all(a[key] == b[key] for key in keys if key in a and key in b)
    return same and a.get("whole") == b.get("whole")


def _merged(paths: list[Path]) -> Calibration:
    """The calibration whose shards are in these files."""
    first, *others = (Calibration.load(path) for path in paths)
    for path, other in zip(paths[1:], others, strict=True):
        if other.names != first.names or not _agree(first.provenance, other.provenance, _SETTING):
            raise HoldfastError(
                f"{path} and {paths[0]} are shards of different calibrations: their corruptions, "
                "backbone, source, images or table differ. Merge only shards of one calibration."
            )
        known = ~np.isnan(other.accuracy)
        first.accuracy[known] = other.accuracy[known]
    return first


class AccuracyMeter:
    """Measures accuracies of a source model under corruption a at severity i/4, then b at j/4.

    Each row, a pair (a, i), has its own random images, so that the sampling errors along a path average
    out.
    """

    def __init__(
        self, net: nn.Module, source: ImageSource, names: tuple[str, ...], images: int, table: str
    ) -> None:
        self.net, self.source, self.names = net, source, names
        self.images, self.table = images, table
        self.device = next(net.parameters()).device
        self.row = lru_cache(maxsize=1)(self.corrupted_once)

    def fill(self, matrix: np.ndarray, a: int, b: int, wanted: list[tuple[int, int]]) -> int:
        """Measure those of a pair's entries (i, j) that are NaN, in percent; returns their number."""
        missing = sorted((i, j) for i, j in wanted if np.isnan(matrix[i, j]))
        for i, j in missing:
            correct = 0
            for images, labels, index in self.row(a, i):
                seeds = mix(2, a, i, b, j, index)
                twice = corrupt(images, self.names[b], j * STEP, seeds, table=self.table)
                correct += int((self.predict(twice) == labels).sum())
            matrix[i, j] = 100 * correct / self.images
        return len(missing)

    def along(self, a: int, b: int, path: list[tuple[int, int]], number: int) -> float:
        """The accuracy in percent along a path; each round has other images, and each image one entry."""
        index, correct = torch.arange(_ROUND), 0
        drawn = permuted(index % len(self.source), len(self.source), a, b, number)
        for part, (i, j) in enumerate(path):
            rows = index[part :: len(path)]
            images, labels = self.source.load(drawn[rows], mix(3, a, b, number, rows))
            images = images.to(self.device)
            for draw, name, level in ((4, self.names[a], i), (5, self.names[b], j)):
                seeds = mix(draw, a, b, number, level, rows)
                images = corrupt(images, name, level * STEP, seeds, table=self.table)
            correct += int((self.predict(images) == labels).sum())
        return 100 * correct / _ROUND

    def corrupted_once(self, a: int, i: int) -> list[tuple[Tensor, Tensor, Tensor]]:
        """The images of a row under its first corruption, with their labels and indices, in pieces."""
        index = torch.arange(self.images)
        drawn = permuted(index % len(self.source), len(self.source), a, i)
        images, labels = self.source.load(drawn, mix(a, i, index))
        pieces = (part.split(_PIECE) for part in (images.to(self.device), labels, index))
        return [
            (corrupt(x, self.names[a], i * STEP, mix(1, a, i, rows), table=self.table), y, rows)
            for x, y, rows in zip(*pieces, strict=True)
        ]

    @torch.inference_mode()
    def predict(self, images: Tensor) -> Tensor:
        """Predicted classes [B] of uint8 images, computed on the network's device."""
        chunks = images.to(self.device).float().div(255).split(64)
        return torch.cat([self.net(chunk).argmax(1) for chunk in chunks]).cpu()


def _measured(
    meter: AccuracyMeter, accuracy: np.ndarray, share: tuple[int, int], whole: bool
) -> Iterator[None]:
    """Fill this share of the accuracies [n,n,21,21]; yields whenever there are new ones to save."""
    numbers, (first, shares) = range(len(meter.names)), share
    levels = range(0, LEVELS, WHOLE if whole else 1)
    rows = list(product(numbers, levels))[first::shares]
    parts = [(a, b, i) for a, i in rows for b in numbers if b != a]
    for a, b, i in tqdm(parts, desc="calibrate", unit=" parts", smoothing=0):
        added = meter.fill(accuracy[a, b], a, b, [(i, j) for j in levels])
        if whole:
            _share_single(accuracy, a, b)
        if added:
            yield


def _share_single(accuracy: np.ndarray, a: int, b: int) -> None:
    """Copy the accuracies under a single corruption to its pairs with all other corruptions."""
    first = accuracy[a, b, :, 0], accuracy[a, :, :, 0]
    second = accuracy[a, b, 0], accuracy[:, b, 0]
    for alone, every in (first, second):
        np.copyto(every, alone, where=np.isnan(every) & ~np.isnan(alone))
