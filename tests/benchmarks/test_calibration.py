"""`holdfast calibrate`: CCC's published file, shards, whole severities, refusals."""

import os
import pickle
import re
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.papers.rdumb.walks import Walks, path_of
from holdfast.benchmarks.streams.calibrate import AccuracyMeter, calibrate
from holdfast.datamodules import CCC, Calibration, Digits
from holdfast.datamodules.ccc import EASY
from holdfast.datamodules.corruptions import CORRUPTIONS, SHORT
from holdfast.datamodules.paths import find_path
from holdfast.files import locked
from holdfast.methods.backbones import load_backbone


def matrices() -> dict[str, np.ndarray]:
    """A file like the published one; each matrix tells its pair."""
    rng = np.random.default_rng(0)
    short = [SHORT.get(name, name) for name in CORRUPTIONS]
    pairs = ((a, b) for a in short for b in short if a != b)
    return {f"n1_{a}_n2_{b}": rng.uniform(0, 80, (21, 21)) for a, b in pairs}


def pickled(path: Path, content: object, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path


@pytest.mark.parametrize("protocol", [2, 4])
def test_the_official_file_is_converted(tmp_path, protocol):
    content = matrices()
    path = pickled(tmp_path / "m.pickle", content, protocol)
    if protocol == 2:  # with old NumPy's name of the module
        path.write_bytes(path.read_bytes().replace(b"numpy._core", b"numpy.core"))
    assert main(["calibrate", "--official", str(path), "--out", str(tmp_path / "m.npz")]) == 0
    found = Calibration.load(tmp_path / "m.npz")
    for a, b in (("elastic_transform", "jpeg_compression"), ("fog", "gaussian_noise")):
        expected = content[f"n1_{SHORT.get(a, a)}_n2_{SHORT.get(b, b)}"]
        assert np.allclose(found.matrix(a, b), expected, atol=1e-5)
    assert np.isnan(found.accuracy[0, 0]).all()


class Attack:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> tuple:
        return os.system, ("touch attacked",)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({**matrices(), "n1_fog_n2_frost": Attack()}, "is not a pickle of arrays"),
        ({"n1_fog_n2_frost": np.zeros((5, 5))}, "21 x 21"),
        ({"fog": np.zeros((21, 21))}, "no key like"),
    ],
)
def test_other_pickles_are_refused(tmp_path, monkeypatch, content, sentence):
    monkeypatch.chdir(tmp_path)
    path = pickled(tmp_path / "m.pickle", content)
    with pytest.raises(HoldfastError, match=sentence):
        Calibration.load_official(path)
    assert not (tmp_path / "attacked").exists()
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(HoldfastError, match="pickle of arrays"):
        Calibration.load_official(path)


def test_lengths_of_walks():
    """Where severity always costs accuracy, a walk at 0 % takes every step: 41, as in table A.1."""
    i, j = np.mgrid[:21, :21]
    falling = np.broadcast_to(80 * np.exp(-(i + j) / 12), (len(EASY), len(EASY), 21, 21))
    calibration = Calibration(EASY, falling, {})
    pairs, walks = permutations(EASY, 2), Walks(0.0, EASY, "published")
    assert {len(path_of(calibration, pair, walks)[0]) for pair in pairs} == {41}


CALIBRATE = (
    "calibrate --source digits --backbone digits --images 1 --corruptions contrast brightness"
)


def test_shards_are_merged_and_gaps_named(tmp_path, capsys):
    """From the command line; the whole from Python, with a network and a source."""
    names, parts = ["contrast", "brightness"], [tmp_path / f"{k}.npz" for k in range(2)]
    net, source = load_backbone("digits"), Digits("calibration")
    whole = calibrate(net, source, tmp_path / "whole.npz", images=1, corruptions=names)
    for k, part in enumerate(parts):
        assert main([*CALIBRATE.split(), "--shard", f"{k}/2", "--out", str(part)]) == 0
        assert "which lacks 2 pairs" in capsys.readouterr().out
    cut = Calibration.load(parts[0])
    cut.accuracy[1] = np.nan
    cut.save(parts[0])
    assert main([*CALIBRATE.split(), "--shard", "0/2", "--out", str(parts[0])]) == 0  # continues
    assert main([*CALIBRATE.split(), "--images", "9", "--out", str(parts[0])]) == 2
    merge = ["calibrate", "--out", str(tmp_path / "merged.npz"), "--merge"]
    assert main([*merge, str(parts[0])]) == 0
    assert re.search("0 of 2 pairs.*contrast and brightness", capsys.readouterr().out)
    with pytest.raises(HoldfastError, match="contrast and brightness is not finished"):
        CCC(Digits(), calibration=tmp_path / "merged.npz", corruptions=names)
    assert main([*merge, str(parts[1]), str(parts[0]), str(parts[1])]) == 0
    assert "2 of 2 pairs" in capsys.readouterr().out
    merged = Calibration.load(tmp_path / "merged.npz")
    assert np.array_equal(merged.accuracy, whole.accuracy, equal_nan=True)


def test_another_writer_or_setting_is_refused(tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / "tree" / name).mkdir(parents=True)
        Image.new("RGB", (40, 40)).save(tmp_path / "tree" / name / "0.png")
    out = tmp_path / "c.npz"
    words = [*CALIBRATE.split(), "--source", str(tmp_path / "tree"), "--out", str(out)]
    with locked(out):
        assert main([*words, "--size", "32"]) == 2
    assert "Another process is writing" in capsys.readouterr().err
    assert not out.exists()
    assert main([*words, "--size", "32"]) == 0
    assert main([*words, "--size", "40"]) == 2
    assert "another --out" in capsys.readouterr().err


def test_whole_severities_serve_every_difficulty(tmp_path):
    out = tmp_path / "whole.npz"
    assert main([*CALIBRATE.split(), "--out", str(out), "--whole"]) == 0
    whole = Calibration.load(out)
    a, b = whole.names[:2]
    assert not whole.unfinished()
    assert whole.provenance["held_out"]["entries"] == 40
    assert (~np.isnan(whole.accuracy[0, 1])).sum() == 36
    # What was measured of one corruption alone holds for all its pairs.
    assert len({tuple(own[::4, 0]) for c, own in enumerate(whole.accuracy[0]) if c}) == 1
    matrix = whole.matrix(a, b)
    assert np.allclose(matrix[::4, ::4], whole.accuracy[0, 1, ::4, ::4], atol=1e-4)
    low, high = sorted((matrix[4, 0], matrix[8, 0]))
    assert low - 1e-4 <= matrix[6, 0] <= high + 1e-4
    for target in (30, 45):
        stream = CCC(Digits(), difficulty=target, calibration=out, corruptions=[a, b])
        assert len(stream.path(a, b)) > 1


def test_the_accuracies_are_corrected_along_the_walks_of_a_difficulty(tmp_path, capsys):
    out = tmp_path / "walks.npz"
    words = [*CALIBRATE.split(), "--out", str(out), "--images", "96", "--walks"]
    assert main([*words, "30"]) == 0
    said = r"40 accuracies between.* \d\.\d\.\nThe last correction found 2 walks at \d+\.\d % on average"
    assert re.search(said, capsys.readouterr().out)
    found = Calibration.load(out)
    walks = found.provenance["walks"]["pairs"]
    meter = AccuracyMeter(
        load_backbone("digits"), Digits("calibration"), found.names, 1, "imagenet"
    )
    for pair, accuracies in walks.items():
        assert len(accuracies) == 3
        a, b = (found.names.index(name) for name in pair.split(", "))
        path = find_path(found.matrix(*pair.split(", ")), 30, "steady")
        assert abs(meter.along(a, b, path, 3) - 30) < 3
    assert main([*words, "45"]) == 2
    assert "were corrected at 30 %" in capsys.readouterr().err
