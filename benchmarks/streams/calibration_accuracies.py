"""Measure the accuracies of a calibration and estimate the cost."""

import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from ...datamodules import Calibration, ImageSource
from ...datamodules.calibration import COARSE, LEVELS, STEP, interpolated
from ...datamodules.ccc import find_path
from ...datamodules.corruptions import corrupt
from ...datamodules.counter import mix, permuted

PIECE = 256  # number of images corrupted together
PROBE = 8  # images per corruption for the estimate of the cost
USUAL = 75  # typical number of entries, out of 441, that the path of a pair needs


class Rows:
    """Accuracies of a source model, one row (first corruption at one severity) at a time.

    Each row has its own random images, so that the sampling errors along a path average out.
    """

    def __init__(
        self, net: nn.Module, source: ImageSource, names: tuple[str, ...], images: int, table: str
    ) -> None:
        self.net, self.source, self.names = net, source, names
        self.images, self.table = images, table
        self.index = torch.arange(self.images)

    def once(self, a: int, i: int) -> tuple[list[Tensor], Tensor]:
        """The row's images under its first corruption in pieces, and their labels."""
        drawn = permuted(self.index % len(self.source), len(self.source), a, i)
        clean, labels = self.source.load(drawn, mix(a, i, self.index))
        pieces = zip(
            clean.to(device_of(self.net)).split(PIECE), self.index.split(PIECE), strict=True
        )
        return [
            corrupt(part, self.names[a], i * STEP, mix(1, a, i, place), table=self.table)
            for part, place in pieces
        ], labels

    def accuracy(self, row: tuple[list[Tensor], Tensor], a: int, b: int, i: int, j: int) -> float:
        """The accuracy in percent on a row's images when corruption b at severity j is added."""
        correct = 0
        for part, place, true in zip(
            row[0], self.index.split(PIECE), row[1].split(PIECE), strict=True
        ):
            seeds = mix(2, a, i, b, j, place)
            twice = corrupt(part, self.names[b], j * STEP, seeds, table=self.table)
            correct += int((predict(self.net, twice) == true).sum())
        return 100 * correct / self.images


def measure_row(rows: Rows, calibration: Calibration, a: int, i: int) -> Iterator[int]:
    """Fill accuracy[a, b, i, :] for each b: corruption a at severity i, then b at every severity."""
    row = rows.once(a, i)
    for b in unmeasured(calibration, a, i):
        for j in range(LEVELS):
            calibration.accuracy[a, b, i, j] = rows.accuracy(row, a, b, i, j)
        yield LEVELS


def measure_near(
    rows: Rows, calibration: Calibration, a: int, b: int, target: float
) -> Iterator[int]:
    """Fill the entries of one pair that its path at `target` percent needs; yields their number.

    Starts by interpolating a coarse grid, then measures the entries on the path. This may move the path, so
    it repeats until the path contains only measured entries.
    """
    matrix = calibration.accuracy[a, b]

    def fill(wanted: list[tuple[int, int]]) -> int:
        missing = [(i, j) for i, j in wanted if np.isnan(matrix[i, j])]
        for i in sorted({i for i, _ in missing}):
            row = rows.once(a, i)
            for j in (j for k, j in missing if k == i):
                matrix[i, j] = rows.accuracy(row, a, b, i, j)
        return len(missing)

    coarse = range(0, LEVELS, COARSE)
    yield fill([(i, j) for i in coarse for j in coarse])
    while count := fill(find_path(interpolated(matrix), target)):
        yield count


def unmeasured(calibration: Calibration, a: int, i: int) -> list[int]:
    """The second corruptions not yet measured with corruption a at severity i."""
    others = (b for b in range(len(calibration.names)) if b != a)
    return [b for b in others if np.isnan(calibration.accuracy[a, b, i, -1])]


def device_of(net: nn.Module) -> torch.device:
    return next(net.parameters()).device


@torch.inference_mode()
def predict(net: nn.Module, images: Tensor) -> Tensor:
    """Predicted classes [B] of uint8 images, computed on the network's device, returned on the CPU."""
    chunks = images.to(device_of(net)).float().div(255).split(64)
    return torch.cat([net(chunk).argmax(1) for chunk in chunks]).cpu()


def images_per_second(rows: Rows) -> float:
    """Images corrupted and classified per second, measured on PROBE images per corruption."""
    few, since = torch.arange(min(PROBE, rows.images)), time.perf_counter()
    clean, _ = rows.source.load(few % len(rows.source), few)
    for name in rows.names:
        predict(rows.net, corrupt(clean.to(device_of(rows.net)), name, 2.5, few, table=rows.table))
    return len(rows.names) * len(few) / (time.perf_counter() - since)
