"""Estimators that are fitted to source images: formulas by hand, bands, and where they fail."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from common import plain_trainer
from torch import Tensor

from holdfast import HoldfastError
from holdfast import callbacks as cb
from holdfast.benchmarks.results.estimators import quality
from holdfast.callbacks.functional.bands import prediction_band, sampling_band
from holdfast.callbacks.functional.confidence import fit_isotonic
from holdfast.callbacks.functional.flips import FlipFunction, fit
from holdfast.callbacks.functional.scores import mano, nuclear_norm
from holdfast.datamodules import CorrelatedLabels, Corrupted, Digits
from holdfast.methods import Source, Tent
from holdfast.run_folder import read_rows

SOURCE = Digits()


def synthetic() -> Corrupted:
    return Corrupted(
        SOURCE, ["speckle_noise", "gaussian_blur"], (1, 3, 5), each=64, table="cifar", num_workers=0
    )


FITTED: dict[str, Any] = {
    "isotonic": lambda: cb.CalibratedConfidence(SOURCE, 128),
    "DoC": lambda: cb.DoC(SOURCE, 128),
    "ATC": lambda: cb.ATC(SOURCE, 128),
    "MaNo": lambda: cb.MaNo(synthetic()),
    "NuclearNorm": lambda: cb.NuclearNorm(synthetic()),
    "Concentration": lambda: cb.Concentration(synthetic()),
}


# ---- formulas -------------------------------------------------------------------------------------


def test_norms_by_hand() -> None:
    """MaNo takes Taylor's polynomial for flat logits, the softmax for sharp ones."""
    assert float(mano(torch.zeros(2, 4))) == pytest.approx(0.25)
    sharp = torch.tensor([[40.0, 0, 0, 0]])  # KL = 30 - ln 4 nats
    assert float(mano(sharp)) == pytest.approx((1 / 4) ** 0.25)
    flat = torch.zeros(4, 2)  # of rank one: norm sqrt(4 * 2 * 0.25)
    assert float(nuclear_norm(flat)) == pytest.approx(math.sqrt(2) / math.sqrt(2 * 4))
    one_class = torch.tensor([[99.0, 0.0]] * 4)
    assert float(nuclear_norm(one_class)) == pytest.approx(2 / math.sqrt(8))


def test_bands_by_hand() -> None:
    assert sampling_band(np.array([0.5, 1.0, 1.0, 1.0])) == pytest.approx(
        (0.875 - 1.959964 * 0.5 / 4, 1.0)
    )
    x, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 2.0, 3.0])
    # Slope 0.6, intercept 0.5; residual sum 0.2 with 2 degrees of freedom, t = 4.3027; h = 1/4 + 1.5^2 / 5.
    value, low, high = prediction_band(x, y, at=4.0)
    assert value == pytest.approx(2.9)
    assert high - value == pytest.approx(4.302653 * math.sqrt(0.1 * 1.7))
    assert value - low == pytest.approx(high - value)
    assert prediction_band(x[:2], y[:2], 1.5)[1:] == (-math.inf, math.inf)


def test_isotonic_pools_violators() -> None:
    x, y = fit_isotonic(np.array([0.3, 0.1, 0.6, 0.9]), np.array([True, False, False, True]))
    assert np.interp([0.0, 0.3, 0.5, 1.0], x, y) == pytest.approx([0, 0.5, 0.5, 1])


def test_the_band_of_weighted_flips() -> None:
    pairs = np.array([[0, 80], [100, 62], [200, 41], [300, 20.0]])
    f = fit(pairs, 1, True, 7)
    low, high = f.band(100.0)  # type: ignore[misc]
    assert low < f(100.0) < high
    assert high - low == pytest.approx(2 * 4.302653 * math.sqrt(0.000135 * 1.3))
    assert FlipFunction.load("resnet50").band(100.0) is None


# ---- in a loop and in a Trainer -------------------------------------------------------------------


def batches(count: int, stream: Any = None) -> list[tuple[Tensor, Tensor]]:
    stream = stream or Corrupted(SOURCE, [], each=64 * count, num_workers=0)
    found = [stream.batch(torch.arange(64) + 64 * n) for n in range(count)]
    return [(batch.images, batch.labels) for batch in found]


@pytest.mark.parametrize("name", FITTED)
def test_on_clean_images_the_accuracy_lies_within_the_band(name: str) -> None:
    """Where nothing shifts, all are right."""
    estimator, method = FITTED[name](), Source("digits")
    watch = cb.Watch(method, [estimator])
    inside = 0
    for images, labels in batches(4):
        logits = watch.step(images)
        low, high = estimator.band
        assert low <= estimator.latest <= high
        inside += low <= float((logits.argmax(1) == labels).float().mean()) <= high
    assert inside >= 3


def test_the_source_agrees_with_itself() -> None:
    agree, method = cb.SourceAgreement(), Tent("digits", lambda p: torch.optim.SGD(p, lr=1.0))
    images = torch.rand(64, 3, 32, 32)
    assert agree.watch(method, images) == 1
    for _ in range(10):
        method.adapt(images)
    assert agree.watch(method, images) < 1


def test_concentration_fails_where_labels_are_correlated() -> None:
    """The same clean images, sorted by class: they look like a collapse, and confidence is right."""
    clean = Corrupted(SOURCE, [], each=640, num_workers=0)
    found: dict[str, list[float]] = {}
    for stream in (clean, CorrelatedLabels(clean, delta=0)):
        estimators = [FITTED["Concentration"](), FITTED["isotonic"]()]
        watch, errors = cb.Watch(Source("digits"), estimators), []
        for images, labels in batches(10, stream):
            truth = float((watch.step(images).argmax(1) == labels).float().mean())
            errors.append([abs(e.latest - truth) for e in estimators])
        for estimator, error in zip(estimators, np.mean(errors, 0), strict=True):
            found.setdefault(estimator.name, []).append(float(error))
    independent, correlated = found["Concentration"]
    assert correlated > 3 * independent
    assert max(found["CalibratedConfidence"]) < 0.1


def test_bands_are_recorded(tmp_path: Path) -> None:
    watching = [cb.AETTA(passes=3), FITTED["DoC"](), cb.RunRecord(tmp_path)]
    data = Corrupted(SOURCE, ["fog"], each=128, table="cifar", num_workers=0)
    plain_trainer(callbacks=watching).test(Tent("digits"), datamodule=data, verbose=False)
    for row in read_rows(tmp_path):
        assert 0 <= row["AETTA_low"] <= row["AETTA"] <= row["AETTA_high"] <= 1
        assert row["DoC_low"] < row["DoC_high"]


def test_quality_by_hand() -> None:
    truth, high = np.array([0.1, 0.3, 0.5, 0.7, np.nan]), np.array([0.2, 0.2, 0.6, 0.8, 1.0])
    columns = (np.repeat(values, 5) for values in (truth**2, truth, truth - 0.1, high))
    found = quality(*columns)  # windows of 5
    assert found.rho == pytest.approx(1)
    assert found.r2 == pytest.approx(np.corrcoef(truth[:4] ** 2, truth[:4])[0, 1] ** 2)
    assert found.error == pytest.approx(np.mean(truth[:4] - truth[:4] ** 2))
    assert (found.coverage, found.bands) == (0.75, 20)
    nothing = quality(np.full(3, np.nan), truth[:3], truth[:3], truth[:3])
    assert math.isnan(nothing.error)
    assert math.isnan(nothing.r2)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: cb.MaNo(SOURCE), "Digits"),
        (
            lambda: cb.MaNo(synthetic(), 64).watch(Source("digits"), torch.rand(64, 3, 32, 32)),
            "three",
        ),
        (lambda: cb.DoC(SOURCE, images=0), "images"),
    ],
)
def test_what_is_refused(make: Any, words: str) -> None:
    with pytest.raises(HoldfastError, match=words):
        make()
