"""Runs of a stream that differ only in the seed are one setting, of every class of streams."""

from collections.abc import Callable, Iterator
from inspect import isabstract, isclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holdfast import datamodules
from holdfast.benchmarks.cli import main
from holdfast.callbacks.provenance import stream_digest
from holdfast.datamodules import (
    CCC,
    CIFARC,
    CIN3DCC,
    CINC,
    CCCShards,
    CINCHoldout,
    ClassImbalance,
    Clean,
    CorrelatedLabels,
    Corrupted,
    Deadline,
    Digits,
    ImageSet,
    MixedDomains,
    Omitting,
    Recurring,
    ReorderingWrapper,
    Stream,
    StreamWrapper,
)
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


def corrupted(seed: int, images: int = 60) -> Corrupted:
    return Corrupted(Digits(), ["fog", "contrast"], each=images, table="cifar", seed=seed)


def walk(root: Path, seed: int, images: int) -> CCC:
    return CCC(Digits(), 40, 20, images, calibration="digits", seed=seed)


# By class: a stream of a seed, and another setting of it.
STREAMS: dict[type[Stream], Callable[[Path, int], Iterator[Stream]]] = {
    CCC: lambda root, seed: (walk(root, seed, n) for n in (240, 480)),
    CCCShards: lambda root, seed: (
        CCCShards(str(root / "shards"), 30.0, 10, n, seed=seed, shard_images=30) for n in (30, 20)
    ),
    CIFARC: lambda root, seed: (
        CIFARC(str(root / "cifar"), corruptions=["fog"], severities=[n], seed=seed) for n in (5, 4)
    ),
    CINC: lambda root, seed: (CINC(Digits(), each=9, severity=n, seed=seed) for n in (5, 3)),
    CINCHoldout: lambda root, seed: (CINCHoldout(Digits(), each=n, seed=seed) for n in (9, 5)),
    CIN3DCC: lambda root, seed: (CIN3DCC(str(root / "3dcc"), epochs=n, seed=seed) for n in (1, 2)),
    ClassImbalance: lambda root, seed: (
        ClassImbalance(walk(root, seed, n), 50) for n in (2000, 4000)
    ),
    Clean: lambda root, seed: (Clean(Digits(), images=n, seed=seed) for n in (50, 60)),
    CorrelatedLabels: lambda root, seed: (
        CorrelatedLabels(CINC(Digits(), each=60, seed=seed), delta=n) for n in (0.1, 0)
    ),
    Corrupted: lambda root, seed: (corrupted(seed, n) for n in (60, 61)),
    Deadline: lambda root, seed: (Deadline(corrupted(seed), interval=1, times=n) for n in (2, 3)),
    ImageSet: lambda root, seed: (
        ImageSet("imagenet-sketch", str(root / "3dcc" / name / "5"), seed=seed)
        for name in THREE_D[:2]
    ),
    MixedDomains: lambda root, seed: (MixedDomains(corrupted(seed), delta=n) for n in (0.1, 1.0)),
    Omitting: lambda root, seed: (Omitting(corrupted(seed), None, pool=n) for n in (50, 60)),
    Recurring: lambda root, seed: (Recurring(corrupted(seed), visits=n) for n in (2, 3)),
}
ABSTRACT = (Stream, StreamWrapper, ReorderingWrapper)


def test_every_class_of_streams_is_here() -> None:
    classes = {c for c in vars(datamodules).values() if isclass(c) and issubclass(c, Stream)}
    assert {*STREAMS} == {c for c in classes if c not in ABSTRACT and not isabstract(c)}


@pytest.mark.parametrize("kind", STREAMS)
def test_seeds_are_one_setting(kind: type[Stream], root: Path) -> None:
    by_seed = [list(STREAMS[kind](root, seed)) for seed in SEEDS]
    ids = [[stream_digest(s.seedless(s.identity), "seed") for s in streams] for streams in by_seed]
    assert ids[0] == ids[1]
    assert ids[0][0] != ids[0][1]
    assert all(isinstance(s, kind) for streams in by_seed for s in streams)
    assert stream_digest(by_seed[0][0].identity) != stream_digest(by_seed[1][0].identity)
    orders = {stream.order for stream, _ in by_seed}
    assert len(orders) == 1


def test_orders_that_were_chosen_are_settings_of_their_own() -> None:
    three, four = (CINC(Digits(), each=9, order=number) for number in (3, 4))
    assert three.seedless(three.identity)["parts"] != four.seedless(four.identity)["parts"]
