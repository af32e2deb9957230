"""Runs of a stream that differ only in the seed are one setting, of every class of streams."""

from collections.abc import Callable, Iterator
from inspect import isabstract, isclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holdfast import datamodules
from holdfast import datamodules as dm
from holdfast.benchmarks.cli import main
from holdfast.callbacks.provenance import stream_digest
from holdfast.datamodules.cinc import THREE_D

SEEDS = (1, 2)


@pytest.fixture(scope="module")
def root(calibration: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of two seeds, and small ready-made sets."""
    folder = tmp_path_factory.mktemp("sets")
    for seed in SEEDS:
        words = f"--source digits --difficulty 30 --speed 10 --images 30 --shard-images 30 --seed {seed}"
        words += f" --table cifar --calibration {calibration} --out {folder / 'shards'}"
        assert main(["generate", *words.split()]) == 0
    for name in THREE_D:
        path = folder / "3dcc" / name / "5" / "n01440764"
        path.mkdir(parents=True)
        for number in range(1 + (name == THREE_D[0])):
            Image.new("RGB", (32, 32)).save(path / f"{number}.JPEG")
    (folder / "cifar").mkdir()
    np.save(folder / "cifar" / "fog.npy", np.zeros((10, 32, 32, 3), np.uint8))
    np.save(folder / "cifar" / "labels.npy", np.zeros(10, np.int64))
    return folder


def corrupted(seed: int, images: int = 60) -> dm.Corrupted:
    return dm.Corrupted(dm.Digits(), ["fog", "contrast"], each=images, table="cifar", seed=seed)


def walk(root: Path, seed: int, images: int) -> dm.CCC:
    return dm.CCC(dm.Digits(), 40, 20, images, calibration="digits", seed=seed)


# By class: a stream of a seed, and another setting of it.
STREAMS: dict[type[dm.Stream], Callable[[Path, int], Iterator[dm.Stream]]] = {
    dm.CCC: lambda root, seed: (walk(root, seed, n) for n in (240, 480)),
    dm.CCCShards: lambda root, seed: (
        dm.CCCShards(str(root / "shards"), 30.0, 10, n, seed=seed, shard_images=30)
        for n in (30, 20)
    ),
    dm.CIFARC: lambda root, seed: (
        dm.CIFARC(str(root / "cifar"), corruptions=["fog"], severities=[n], seed=seed)
        for n in (5, 4)
    ),
    dm.CINC: lambda root, seed: (
        dm.CINC(dm.Digits(), each=9, severity=n, seed=seed) for n in (5, 3)
    ),
    dm.CINCHoldout: lambda root, seed: (
        dm.CINCHoldout(dm.Digits(), each=n, seed=seed) for n in (9, 5)
    ),
    dm.CIN3DCC: lambda root, seed: (
        dm.CIN3DCC(str(root / "3dcc"), epochs=n, seed=seed) for n in (1, 2)
    ),
    dm.ClassImbalance: lambda root, seed: (
        dm.ClassImbalance(walk(root, seed, n), 50) for n in (1000, 2000)
    ),
    dm.Clean: lambda root, seed: (dm.Clean(dm.Digits(), images=n, seed=seed) for n in (50, 60)),
    dm.CorrelatedLabels: lambda root, seed: (
        dm.CorrelatedLabels(dm.CINC(dm.Digits(), each=60, seed=seed), delta=n) for n in (0.1, 0)
    ),
    dm.Corrupted: lambda root, seed: (corrupted(seed, n) for n in (60, 61)),
    dm.Deadline: lambda root, seed: (
        dm.Deadline(corrupted(seed), interval=1, times=n) for n in (2, 3)
    ),
    dm.ImageSet: lambda root, seed: (
        dm.ImageSet("imagenet-sketch", str(root / "3dcc" / name / "5"), seed=seed)
        for name in THREE_D[:2]
    ),
    dm.MixedDomains: lambda root, seed: (
        dm.MixedDomains(corrupted(seed), delta=n) for n in (0.1, 1.0)
    ),
    dm.Omitting: lambda root, seed: (dm.Omitting(corrupted(seed), None, pool=n) for n in (50, 60)),
    dm.Recurring: lambda root, seed: (dm.Recurring(corrupted(seed), visits=n) for n in (2, 3)),
}
ABSTRACT = (dm.Stream, dm.StreamWrapper, dm.ReorderingWrapper)


def test_every_class_of_streams_is_here() -> None:
    classes = {c for c in vars(datamodules).values() if isclass(c) and issubclass(c, dm.Stream)}
    assert {*STREAMS} == {c for c in classes if c not in ABSTRACT and not isabstract(c)}


@pytest.mark.parametrize("kind", STREAMS)
def test_seeds_are_one_setting(kind: type[dm.Stream], root: Path) -> None:
    by_seed = [list(STREAMS[kind](root, seed)) for seed in SEEDS]
    ids = [[stream_digest(s.seedless(s.identity), "seed") for s in streams] for streams in by_seed]
    assert ids[0] == ids[1]
    assert ids[0][0] != ids[0][1]
    assert all(isinstance(s, kind) for streams in by_seed for s in streams)
    assert stream_digest(by_seed[0][0].identity) != stream_digest(by_seed[1][0].identity)
    orders = {stream.order for stream, _ in by_seed}
    assert len(orders) == 1


def test_orders_that_were_chosen_are_settings_of_their_own() -> None:
    three, four = (dm.CINC(dm.Digits(), each=9, order=number) for number in (3, 4))
    assert three.seedless(three.identity)["parts"] != four.seedless(four.identity)["parts"]
