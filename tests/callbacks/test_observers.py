"""Observers of features, clusters, weights and predictions, which leave the run unchanged."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
import torchvision
from common import plain_trainer, tiny_net, trainer_test
from lightning.pytorch import Callback, LightningDataModule
from torch import Tensor, nn

from holdfast import HoldfastError
from holdfast import callbacks as cb
from holdfast.benchmarks.papers.aetta.passes import AETTAPasses
from holdfast.benchmarks.papers.flips.embedding_clusters import (
    EmbeddingClusters,
    cluster,
    shift_distance,
    silhouette,
    sixteen,
    sixteen_groups,
)
from holdfast.benchmarks.papers.flips.hold_out import HoldOut
from holdfast.benchmarks.papers.rdumb.weight_magnitude import WeightMagnitude
from holdfast.callbacks.functional.scores import aetta_estimates
from holdfast.callbacks.observer import name_apart
from holdfast.datamodules import Clean, Corrupted, Digits
from holdfast.features import features
from holdfast.files import read_json
from holdfast.methods import RDumb, Source, Tent, TTAMethod
from holdfast.run_folder import EMBEDDINGS, PROVENANCE, read_rows

STEPS, BATCH = 12, 16


def stream(images: int = STEPS * BATCH) -> Corrupted:
    return Corrupted(
        Digits(), ["gaussian_noise"], [3], each=images, batch_size=BATCH, num_workers=0
    )


def held_out() -> Corrupted:
    return Corrupted(Digits(), ["fog"], [3], each=90, start=10, num_workers=0)


def tent() -> Tent:
    return Tent("digits", lambda params: torch.optim.SGD(params, lr=0.1))


def run(method: TTAMethod, folder: Path, *callbacks: Callback) -> list[dict[str, Any]]:
    """The rows of a run of this method on the stream."""
    name_apart(callbacks)
    trainer_test(method, stream(), *callbacks, cb.RunRecord(folder))
    return read_rows(folder)


@pytest.mark.parametrize(
    ("network", "width"),
    [
        (tiny_net, 16),
        (lambda: torchvision.models.resnet18(), 512),
        (lambda: torchvision.models.squeezenet1_1(), 512),
        (lambda: timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8), 192),
    ],
    ids=["own", "ResNet", "SqueezeNet", "ViT"],
)
@torch.no_grad()
def test_features_are_what_the_classifier_is_given(network: Any, width: int) -> None:
    net = network().eval()
    images = torch.rand(2, 3, 32, 32)
    found, logits = features(net, images)
    assert found.shape == (2, width)
    assert torch.equal(logits, net(images))
    assert not any(m._forward_hooks for m in net.modules())


@torch.no_grad()
def test_features_of_a_linear_classifier() -> None:
    head = nn.Linear(12, 5)
    found, logits = features(nn.Sequential(nn.Flatten(), nn.ReLU(), head), torch.rand(4, 3, 2, 2))
    assert torch.equal(head(found), logits)
    with pytest.raises(HoldfastError, match="Flatten has no linear layer"):
        features(nn.Flatten(), torch.rand(4, 3, 2, 2))


def test_clusters_of_points_that_lie_apart() -> None:
    random = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    points = np.repeat(centres, 20, 0) + random.normal(0, 0.1, (60, 2))
    clusters, centroids = cluster(points, 3)
    assert silhouette(points, clusters) > 0.95
    assert silhouette(random.normal(size=(60, 2)), clusters) < 0.1
    assert shift_distance(centroids, centres) < 0.1
    assert shift_distance(centroids, centres + np.array([0, 2])) == pytest.approx(2, abs=0.1)
    assert math.isnan(silhouette(points, np.zeros(60)))


def test_the_columns(tmp_path: Path) -> None:
    rows = run(
        tent(),
        tmp_path / "watched",
        EmbeddingClusters(Digits(), held=60, images=200, every=4, keep=[0, 8]),
        WeightMagnitude(every=6, layers=True),
        cb.PredictionStatistics(window=2),
        HoldOut(held_out(), images=70, every=5),
    )

    def at(column: str) -> list[int]:
        return [row["step"] for row in rows if column in row]

    assert at("EmbeddingClusters_silhouette") == [0, 4, 8]
    assert at("WeightMagnitude_norm") == [0, 6]
    assert at("HoldOut_accuracy") == [0, 5, 10]
    assert at("PredictionStatistics_entropy") == list(range(STEPS))
    assert rows[0]["WeightMagnitude_moved"] == 0 < rows[6]["WeightMagnitude_moved"]
    layers = [value for name, value in rows[6].items() if name.startswith("WeightMagnitude_norm ")]
    assert math.hypot(*layers) == pytest.approx(rows[6]["WeightMagnitude_norm"])
    assert all(-1 < rows[s]["EmbeddingClusters_silhouette"] < 1 for s in (0, 4, 8))
    kept = np.load(tmp_path / "watched" / EMBEDDINGS)
    assert kept["steps"].tolist() == [0, 8]
    assert kept["features"].shape[:2] == (2, 60)
    assert kept["means"].shape == (10, kept["features"].shape[2])


def test_shift_of_the_source_on_clean_images_is_small() -> None:
    """On noise it is larger; and the accuracy on the held-out images is the source's."""
    shifts = {}
    for name, data in (("clean", Clean(Digits(), images=200)), ("noise", stream())):
        observer, method = EmbeddingClusters(Digits(), held=200, images=400), Source("digits")
        batch = data.batch(torch.arange(min(200, STEPS * BATCH)))
        observer.hold(method, batch.images, batch.labels)
        values = observer.look(method, batch.images)
        shifts[name] = values["shift"]
        right = method.predict(batch.images).argmax(1) == batch.labels
        assert values["accuracy"] == pytest.approx(float(right.float().mean()))
    assert shifts["clean"] < shifts["noise"]


def test_clusters_without_some_classes_and_of_a_broken_model() -> None:
    observer = EmbeddingClusters(Digits(), held=100, images=300, groups=[0, 0, 1, 1, -1, -1, -1, 2])
    batch, method = stream().batch(torch.arange(100)), Tent("digits")
    observer.hold(method, batch.images, batch.labels)
    assert observer.means is not None
    assert len(observer.means) == 3
    assert set(observer.look(method, batch.images)) == {"silhouette", "shift", "accuracy"}
    with torch.no_grad():
        next(method.predictor.parameters()).fill_(math.nan)
    assert math.isnan(observer.look(method, batch.images)["silhouette"])


def test_the_sixteen_categories_of_imagenet() -> None:
    """207 of its classes, none twice; by what torchvision calls them."""
    names = torchvision.models.ResNet50_Weights.IMAGENET1K_V2.meta["categories"]
    assert len(sixteen()) == 16
    assert sum(map(len, sixteen().values())) == len(set().union(*sixteen().values())) == 207
    groups = sixteen_groups()
    known = {"airliner": "airplane", "ice bear": "bear", "king penguin": "bird", "yawl": "boat"}
    known |= {"convertible": "car", "Persian cat": "cat", "Mexican hairless": "dog"}
    for name, category in known.items():
        assert list(sixteen())[groups[names.index(name)]] == category
    for name in ("ostrich", "Chihuahua", "timber wolf", "tench"):
        assert groups[names.index(name)] == -1
    assert len(EmbeddingClusters(Digits(), groups="16-class-imagenet").groups) == 1000  # type: ignore[arg-type]


def test_what_is_held_out_is_not_adapted_to() -> None:
    """The source's accuracy on these very images, from the start of their stream on."""
    observer, method = HoldOut(held_out(), images=80, every=1), Source("digits")
    observer.on_test_start()
    batch = held_out().batch(torch.arange(10, 90))
    expected = (method.predict(batch.images).argmax(1) == batch.labels).float().mean()
    assert observer.look(method, batch.images)["accuracy"] == pytest.approx(float(expected))
    with pytest.raises(HoldfastError, match="90 images, not 91"):
        HoldOut(held_out(), images=81)
    with pytest.raises(HoldfastError, match="LightningDataModule is not a stream"):
        HoldOut(LightningDataModule())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"images": 12}, "Pass more clean images"),
        ({"held": 5}, "5 held-out images .* 10 clusters"),
        ({"keep": [30]}, "multiples of every=100"),
        ({"every": 0}, "every=0: pass at least 1"),
    ],
)
def test_bad_options(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(HoldfastError, match=sentence):
        plain_trainer(callbacks=[EmbeddingClusters(Digits(), **options)]).test(
            Source("digits"), datamodule=stream(), verbose=False
        )


def test_statistics_are_over_a_window() -> None:
    statistics = cb.PredictionStatistics(window=2)

    def logits(*classes: int) -> Tensor:
        return 20.0 * torch.eye(4)[list(classes)]

    statistics.measure(logits(0, 0))
    found = statistics.measure(logits(1, 2))
    assert found["classes"] == 3
    assert found["entropy"] == pytest.approx(-(0.5 * math.log(0.5) + 0.5 * math.log(0.25)))
    assert found["confidence"] == pytest.approx(1)
    assert statistics.measure(logits(3, 3))["classes"] == 3  # the first batch is forgotten
    assert statistics.measure(logits(3, 3))["entropy"] == 0


def test_magnitude_is_that_of_the_weights_before_the_step() -> None:
    """After a reset that is due."""
    method, magnitude = RDumb(tiny_net(), every=2), WeightMagnitude(every=1)
    pairs, images = [*method.parameters_with_source()], torch.rand(4, 3, 8, 8)
    start = torch.cat([p.detach().flatten() for p, _ in pairs])
    norm = pytest.approx(float(start.norm()))
    assert magnitude.look(method, images)["norm"] == norm
    with torch.no_grad():
        for parameter, _ in pairs:
            parameter.add_(1)
    assert magnitude.look(method, images)["moved"] == pytest.approx(math.sqrt(len(start)))
    for _ in range(2):
        method.adapt(images)
    assert magnitude.look(method, images)["norm"] == norm
    assert WeightMagnitude().look(Source(tiny_net()), images) == {}


def test_two_of_one_class_have_names_and_any_alpha_needs_no_new_run(tmp_path: Path) -> None:
    """AETTA with N = 3 and 6 in one run; both, and other exponents, from the columns of one."""
    listed = AETTAPasses([3], passes=6, alpha=1.0), cb.AETTA(passes=3, alpha=0.0)
    rows = run(tent(), tmp_path, *listed, cb.AccuracyReset("AETTA_2"))
    columns = {
        name: torch.tensor([row[name] for row in rows])
        for name in rows[0]
        if name.startswith("AETTA")
    }
    assert not torch.equal(columns["AETTA"], columns["AETTA_2"])
    for name, alpha in (("AETTA", 1.0), ("AETTA_2", 0.0)):
        disagreement, balance = (columns[f"{name}_{p}"] for p in ("disagreement", "balance"))
        found = aetta_estimates(disagreement, balance, classes=10, alpha=alpha)
        torch.testing.assert_close(found, columns[name], rtol=0, atol=1e-6)
    few, own = columns["AETTA_disagreement_3"], columns["AETTA_2_disagreement"]
    assert not torch.equal(few, columns["AETTA_disagreement"])
    assert float((few.mean() - own.mean()).abs()) < 0.1  # other draws of the same
    facts = read_json(tmp_path / PROVENANCE)
    assert [facts["estimators"][name]["passes"] for name in ("AETTA", "AETTA_2")] == [6, 3]
