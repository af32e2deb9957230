"""CCC's walks are the official ones."""

import json
import re
import warnings
from collections.abc import Iterator
from itertools import combinations, islice, pairwise
from pathlib import Path

import numpy as np
import pytest
from common import GOLDEN, plain_trainer

from holdfast import HoldfastError
from holdfast.benchmarks.streams.calibrate import AccuracyMeter
from holdfast.datamodules import CCC, Calibration, Digits, find_path
from holdfast.datamodules.sources.named import open_source
from holdfast.methods import Source
from holdfast.methods.backbones import load_backbone, weights_hash

FOLDER = GOLDEN / "ccc_generate"
MATRICES = np.load(FOLDER / "matrices.npz")["matrices"]
PATHS = json.loads((FOLDER / "paths.json").read_text())
SEQUENCES = json.loads((FOLDER / "noise_sequences.json").read_text())
OURS = {"elastic": "elastic_transform", "jpeg": "jpeg_compression"}
NAMES = [OURS.get(name, name) for name in SEQUENCES["noise_list"]]


@pytest.fixture
def calibration(tmp_path: Path) -> Path:
    """The golden matrices, given to the pairs of corruptions as the golden file says."""
    positions = range(len(NAMES))
    accuracy = np.stack([[MATRICES[(5 * i + 3 * j) % 3] for j in positions] for i in positions])
    path = tmp_path / "calibration.npz"
    Calibration(tuple(NAMES), accuracy, {}).save(path)
    return path


@pytest.mark.parametrize("case", PATHS)
def test_paths(case: str) -> None:
    matrix, target = case.split("|")
    path = find_path(MATRICES[int(matrix[6:])], float(target[6:]))
    assert [list(cell) for cell in path] == PATHS[case]["path"]


def all_paths(size: int) -> Iterator[list[tuple[int, int]]]:
    """Every walk from (i, 0) to i = 0, by the order of its moves."""
    for start in range(1, size):
        for downs in combinations(range(start + size - 1), start):
            path, i, j = [(start, 0)], start, 0
            for move in range(max(downs) + 1):
                i, j = (i - 1, j) if move in downs else (i, j + 1)
                path.append((i, j))
            if j < size:
                yield path


@pytest.mark.parametrize("seed", range(4))
def test_steady_search(seed: int) -> None:
    """Against all walks over a small table: none is nearer, and of the near ones none is steadier."""
    matrix = 100 * np.random.default_rng(seed).random((5, 5))
    paths = [path for path in all_paths(5) if len(set(path)) == len(path)]
    for target in (20.0, 50.0, 99.0):

        def distance(path: list[tuple[int, int]], target: float = target) -> float:
            return abs(float(np.mean([matrix[entry] for entry in path])) - target)

        def squares(path: list[tuple[int, int]], target: float = target) -> float:
            return sum((matrix[entry] - target) ** 2 for entry in path)

        path = find_path(matrix, target, "steady")
        assert path in paths
        nearest = min(map(distance, paths))
        # Of far targets it takes the smallest sum of deviations, which favours short walks.
        assert distance(path) <= max(nearest, distance(find_path(matrix, target)), 0.2)
        # Of those within .1 points by their sums over five entries none is steadier, but for rounding.
        near = [p for p in paths if abs(distance(p) * len(p)) <= 0.5 - 0.01 * len(p)]
        if near:
            assert squares(path) <= 1.01 * min(map(squares, near))


@pytest.mark.parametrize("target", [0.0, 20.0, 40.0])
def test_exact_paths_hold_their_difficulty(target: float) -> None:
    """Within .2 points, or as near as the published search comes."""
    for matrix in MATRICES:
        published, exact = (find_path(matrix, target, search) for search in ("published", "steady"))
        means = [np.mean([matrix[entry] for entry in path]) for path in (published, exact)]
        assert abs(means[1] - target) <= max(0.2, abs(means[0] - target))


def walks(stream: CCC) -> Iterator[list[int]]:
    """The segment numbers of each walk."""
    number = 0
    for first, second in stream.pairs():
        length = len(stream.path(first, second))
        yield list(range(number, number + length))
        number += length


@pytest.mark.parametrize("case", SEQUENCES["runs"])
def test_sequences(case: str, calibration: Path) -> None:
    target, seed, speed = (int(re.sub(r"\D", "", part)) for part in case.split("|"))
    stream = CCC(
        Digits(), float(target), speed, seed=seed, calibration=calibration, images=7_500_000
    )
    golden = SEQUENCES["runs"][case]
    pairs = [[OURS.get(name, name) for name in pair] for pair in golden["first_pairs"]]
    assert [list(pair) for pair in islice(stream.pairs(), len(pairs))] == pairs
    found = [len(walk) for walk in islice(walks(stream), len(pairs))]
    assert found == golden["first_walk_lengths"]
    last = stream.segment_at(7_500_000 - 1)
    count = next(n for n, walk in enumerate(walks(stream), start=1) if last in walk)
    assert count == golden["n_walks_until_7500000_images"]


def test_segments_describe_the_stream(calibration: Path) -> None:
    stream = CCC(Digits(), "easy", speed=10, images=None, calibration=calibration)
    segments = [stream.segment(number) for number in range(200)]
    assert {len(segment.corruptions) for segment in segments} == {1, 2}
    assert all(level > 0 for segment in segments for _, level in segment.corruptions)
    assert all(a.end == b.start for a, b in pairwise(segments))
    assert all(stream.segment_at(s.start) == n for n, s in enumerate(segments))
    assert all(stream.segment_at(s.end - 1) == n for n, s in enumerate(segments))
    assert stream.segment_at(10**6) == 10**5  # far ahead, without making an image


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"difficulty": "esy"}, "Choose easy, medium, hard"),
        ({"difficulty": 250}, r"difficulty=.* 0 to 100"),
        ({"difficulty": float("nan")}, r"difficulty=.* 0 to 100"),
        ({"calibration": "glyfs"}, "glyphs"),
        ({"corruptions": ["gaussian_noise", "rain"]}, "lacks rain"),
        ({"corruptions": ["fog", "fog"]}, "two different"),
        ({"batch_size": 0}, "at least 1"),
        ({"num_workers": -1}, "at least 0"),
        ({"table": "mnist"}, "imagenet, cifar"),
        ({"quality": 101}, "1 to 100"),
    ],
)
def test_refusals(arguments: dict, sentence: str, calibration: Path) -> None:
    with pytest.raises(HoldfastError, match=sentence):
        CCC(Digits(), **{"calibration": calibration, **arguments})


@pytest.mark.parametrize("name", ["glyphs", "digits"])
def test_embedded_calibration_is_what_calibrate_measures(name: str) -> None:
    """Some cells again: up to a few predictions that another processor may round."""
    committed = Calibration.load(name)
    images, a, i, js = committed.provenance["images"], 6, 9, (0, 10, 20)
    again = committed._replace(accuracy=np.full_like(committed.accuracy, np.nan))
    net = load_backbone(name)
    assert committed.provenance["weights"] == weights_hash(net)
    source = open_source(name, None, split="calibration", crop="center")
    meter = AccuracyMeter(net, source, again.names, images, again.provenance["table"])
    for b in range(len(committed.names)):
        if b != a:
            meter.fill(again.accuracy[a, b], a, b, [(i, j) for j in js])
    measured = ~np.isnan(again.accuracy)
    difference = np.abs(again.accuracy - committed.accuracy)[measured] * images / 100
    assert measured.sum() == (len(committed.names) - 1) * len(js)
    assert difference.max() <= 3
    assert difference.mean() < 0.1


def test_a_calibration_of_another_table_is_refused() -> None:
    """Digits are easy with CIFAR's severities: the embedded calibration is not of them."""
    with pytest.raises(HoldfastError, match=r"table='imagenet'.*--table cifar"):
        CCC(Digits(), difficulty=40, calibration="digits", table="cifar")


@pytest.mark.parametrize(
    ("backbone", "calibration", "words"),
    [
        ("glyphs", "digits", "backbone digits.*4df097f34307, not 73ec48093c89"),
        ("digits", "glyphs", "backbone glyphs"),
        ("digits", "digits", None),
    ],
)
def test_a_calibration_of_another_backbone_is_warned_of(
    backbone: str, calibration: str, words: str | None
) -> None:
    stream = CCC(Digits(), 40, images=8, batch_size=8, num_workers=0, calibration=calibration)
    trainer = plain_trainer()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.test(Source(backbone), datamodule=stream, verbose=False)
    found = [str(w.message) for w in caught if "calibration was measured" in str(w.message)]
    assert len(found) == (words is not None)
    assert not words or re.search(words, found[0])


NEAR = ["defocus_blur", "motion_blur", "snow", "frost"]  # between which digits keep to 40 %


def test_a_stream_of_fewer_than_three_walks_is_warned_of() -> None:
    stream = CCC(Digits(), 40, calibration="digits", corruptions=NEAR, speed=10)
    stream.images = 10 * sum(len(stream.path(*pair)) for pair in islice(stream.pairs(), 3)) - 1
    with pytest.warns(UserWarning, match="2 whole walks .* 40 % on average"):
        stream.setup("test")
    stream.images += 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream.setup("test")


def test_walks_far_from_the_difficulty_are_warned_of_and_the_advice_helps() -> None:
    """Noise hardly harms digits; with the corruptions that the warning names it is not repeated."""
    options = {"difficulty": 40, "calibration": "digits", "speed": 64, "images": 64_000}
    words = r"40 %, such as 9\d % from .* and corruptions=\[(.*)\]\.$"
    with pytest.warns(UserWarning, match=words) as caught:
        CCC(Digits(), **options).setup("test")
    named = re.findall(
        r"\w+_\w+|snow|frost|fog|contrast", re.search(words, str(caught[0].message))[1]
    )
    assert set(NEAR) < set(named)
    assert "shot_noise" not in named
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CCC(Digits(), corruptions=named, search="steady", **options).setup("test")


def test_the_published_walks_of_the_published_calibration_are_not_warned_of(tmp_path: Path) -> None:
    digits = Calibration.load("digits")
    digits._replace(provenance={"origin": "CCC's authors"}).save(path := tmp_path / "official.npz")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CCC(Digits(), 40, calibration=path, speed=64, images=64_000).setup("test")


def test_a_difficulty_that_no_two_corruptions_reach_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"99.9 %, such as .* Choose another"):
        CCC(
            Digits(), 99.9, calibration="digits", corruptions=["fog", "contrast"], images=None
        ).setup("")


def test_a_corrected_calibration_states_its_difficulty_and_corruptions() -> None:
    stream = CCC(Digits(), calibration="tiny-imagenet-medium")
    assert stream.target == 12
    assert stream.corruptions == stream.calibration.names
    other = CCC(Digits(), 40, calibration="tiny-imagenet-medium", speed=16, images=16_000)
    assert other.corruptions == stream.corruptions
    with pytest.warns(UserWarning, match=r"walks of 12 %, not of 40 %.*difficulty=12.*--walks 40"):
        other.setup("test")


def test_a_calibration_of_another_size_is_warned_of(calibration: Path) -> None:
    loaded = Calibration.load(calibration)
    path = calibration.with_name("large.npz")
    loaded._replace(provenance={"size": 224}).save(path)
    stream = CCC(Digits(), 40, calibration=path, corruptions=["fog", "frost"])
    with pytest.warns(UserWarning, match="size 224, not 32"):
        stream.setup("test")
