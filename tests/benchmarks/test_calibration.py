"""The published pickle is read without executing it; calibrations and their walks."""

import datetime
import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.streams.calibrate import calibrate, measure_near
from holdfast.benchmarks.streams.ccc_paths import lengths
from holdfast.datamodules import CCC, Calibration, Digits
from holdfast.datamodules.calibration import interpolated
from holdfast.datamodules.ccc import EASY, find_path
from holdfast.datamodules.corruptions import CORRUPTIONS
from holdfast.datamodules.official import load_official
from holdfast.datamodules.sources.tar import THEIRS
from holdfast.files import locked
from holdfast.methods.backbones import load_backbone


def matrices() -> dict[str, np.ndarray]:
    """A file like the published one; each matrix tells its pair."""
    rng = np.random.default_rng(0)
    short = [THEIRS.get(name, name) for name in CORRUPTIONS]
    pairs = ((a, b) for a in short for b in short if a != b)
    return {f"n1_{a}_n2_{b}": rng.uniform(0, 80, (21, 21)) for a, b in pairs}


def pickled(path: Path, content: object, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path


@pytest.mark.parametrize("protocol", [0, 2, 3, 4, 5])
def test_the_official_file_is_converted(tmp_path: Path, protocol: int) -> None:
    content = matrices()
    path = pickled(tmp_path / "m.pickle", content, protocol)
    assert main(["calibrate", "--official", str(path), "--out", str(tmp_path / "m.npz")]) == 0
    found = Calibration.load(tmp_path / "m.npz")
    for a, b in (("elastic_transform", "jpeg_compression"), ("fog", "gaussian_noise")):
        expected = content[f"n1_{THEIRS.get(a, a)}_n2_{THEIRS.get(b, b)}"]
        assert np.allclose(found.matrix(a, b), expected, atol=1e-5)
    assert np.isnan(found.accuracy[0, 0]).all()


def test_old_numpys_name_of_the_array_module(tmp_path: Path) -> None:
    path = pickled(tmp_path / "m.pickle", matrices(), 2)
    path.write_bytes(path.read_bytes().replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert not np.isnan(load_official(path).matrix("fog", "frost")).any()


class Attack:
    """Runs a command when it is unpickled."""

    def __init__(self, call: tuple) -> None:
        self.call = call

    def __reduce__(self) -> tuple:
        return self.call


@pytest.mark.parametrize(
    "attack",
    [
        Attack((os.system, ("touch attacked",))),
        Attack((eval, ("open('attacked', 'w')",))),
        Attack((getattr, (1, "__class__"))),
        datetime.date(2020, 1, 1),
        np.float64(3.0),
        np.array([Attack((os.system, ("touch attacked",)))], dtype=object),
    ],
    ids=["system", "eval", "getattr", "date", "scalar", "object array"],
)
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_nothing_but_arrays_is_admitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attack: object, protocol: int
) -> None:
    monkeypatch.chdir(tmp_path)
    path = pickled(tmp_path / "m.pickle", {**matrices(), "n1_fog_n2_frost": attack}, protocol)
    with pytest.raises(HoldfastError, match="is not a pickle of arrays") as error:
        load_official(path)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "attacked").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"n1_fog_n2_frost": np.zeros((5, 5))}, "21 x 21"),
        ({"n1_fog_n2_frost": np.full((21, 21), 101.0)}, "percentages"),
        ({"n1_fog_n2_frost": np.full((21, 21), np.nan)}, "percentages"),
        ({"n1_fog_n2_frost": "text"}, "n1_fog_n2_frost is not an array"),
        ({"fog": np.zeros((21, 21))}, "no key like"),
        ([1, 2], "is not a pickle of arrays"),
    ],
)
def test_other_contents_are_refused(tmp_path: Path, content: object, sentence: str) -> None:
    with pytest.raises(HoldfastError, match=sentence):
        load_official(pickled(tmp_path / "m.pickle", content))


def test_damaged_and_missing_files(tmp_path: Path) -> None:
    path = pickled(tmp_path / "m.pickle", matrices())
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(HoldfastError, match="pickle of arrays"):
        load_official(path)
    with pytest.raises(HoldfastError, match="download it from"):
        load_official(tmp_path / "absent.pickle")


def test_lengths_of_walks(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Where severity always costs accuracy, a walk at 0 % takes every step: 41, as in table A.1."""
    i, j = np.mgrid[:21, :21]
    falling = np.broadcast_to(80 * np.exp(-(i + j) / 12), (len(EASY), len(EASY), 21, 21))
    path = tmp_path / "falling.npz"
    Calibration(EASY, falling, {}).save(path)
    assert set(lengths(Calibration.load(path), 0.0)) == {41}
    assert main(["calibrate", "--paths", str(path)]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[:1] for row in rows[1:]] == [["easy"], ["medium"], ["hard"]]
    assert [row.split()[3] for row in rows[1:]] == ["182", "156", "12"]
    assert rows[3].split()[4:6] == ["41", "41"]


def some(folder: Path) -> str:
    """A calibration of two corruptions, and a file that is none."""
    (folder / "none.npz").write_bytes(b"no archive")
    for name, images in (("new/two", 5), ("other", 6)):
        facts = {"weights": "same", "images": images}
        Calibration(("fog", "frost"), np.zeros((2, 2, 21, 21)), facts).save(folder / f"{name}.npz")
    return str(folder / "new" / "two.npz")


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("calibrate --paths {two}", "gaussian_noise, shot_noise.*fog, frost"),
        ("calibrate --paths {folder}/none.npz", r"none\.npz cannot be read"),
        ("calibrate --source {folder} --out c.npz", "class folder.*/new"),
        ("calibrate --images 0 --out c.npz", "images=0"),
        ("calibrate --corruptions fog --out c.npz", "--corruptions"),
        ("calibrate --merge {two} {folder}/other.npz --out c.npz", "other.npz and .* differ"),
        ("calibrate --source digits --backbone digits --out /dev/null/c.npz", "cannot be written"),
        ("calibrate --source {folder}/none --out c.npz", "no images in"),
    ],
)
def test_mistakes_get_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture, command: str, sentence: str
) -> None:
    words = command.format(two=some(tmp_path), folder=tmp_path).split()
    assert main(words) == 2
    error = capsys.readouterr().err
    assert re.search(sentence, error)
    assert error.count("\n") == 1


CALIBRATE = (
    "calibrate --source digits --backbone digits --images 1 --corruptions contrast brightness"
)


def test_shards_are_merged_and_gaps_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    whole, parts = tmp_path / "whole.npz", [tmp_path / f"{k}.npz" for k in range(2)]
    assert main([*CALIBRATE.split(), "--out", str(whole)]) == 0
    for k, part in enumerate(parts):
        assert main([*CALIBRATE.split(), "--shard", f"{k}/2", "--out", str(part)]) == 0
    merge = ["calibrate", "--out", str(tmp_path / "merged.npz"), "--merge"]
    assert main([*merge, str(parts[0])]) == 0
    assert re.search("0 of 2 pairs.*contrast and brightness", capsys.readouterr().out)
    with pytest.raises(HoldfastError, match="contrast and brightness is not finished"):
        CCC(Digits(), calibration=tmp_path / "merged.npz", corruptions=["contrast", "brightness"])
    assert main([*merge, str(parts[1]), str(parts[0]), str(parts[1])]) == 0
    assert "2 of 2 pairs" in capsys.readouterr().out
    merged, expected = Calibration.load(tmp_path / "merged.npz"), Calibration.load(whole)
    assert np.array_equal(merged.accuracy, expected.accuracy, equal_nan=True)


def test_two_processes_do_not_write_one_file(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "c.npz"
    with locked(out):
        assert main([*CALIBRATE.split(), "--out", str(out)]) == 2
    assert "Another process is writing" in capsys.readouterr().err
    assert not out.exists()


def test_another_setting_is_not_continued(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for name in ("a", "b"):
        (tmp_path / "tree" / name).mkdir(parents=True)
        Image.new("RGB", (40, 40)).save(tmp_path / "tree" / name / "0.png")
    words = [*CALIBRATE.split(), "--source", str(tmp_path / "tree"), "--out", str(tmp_path / "c")]
    assert main([*words, "--size", "32"]) == 0
    assert main([*words, "--size", "40"]) == 2
    assert "another --out" in capsys.readouterr().err


class Known:
    """In place of measuring: the accuracies of an embedded calibration."""

    def __init__(self, accuracy: np.ndarray) -> None:
        self.table = accuracy

    def row(self, a: int, i: int) -> None:
        pass

    def accuracy(self, row: None, a: int, b: int, i: int, j: int) -> float:
        return float(self.table[a, b, i, j])


@pytest.mark.parametrize("target", [40.0, 20.0])
def test_paths_of_one_difficulty_need_few_entries(target: float) -> None:
    """They are as near to the target as paths through the whole matrix."""
    whole, off = Calibration.load("glyphs"), []
    near = Calibration(whole.names, np.full_like(whole.accuracy, np.nan), {"near": target})
    for b in range(1, 6):
        measured = sum(measure_near(Known(whole.accuracy), near, 0, b, target))  # type: ignore[arg-type]
        assert 25 <= measured == (~np.isnan(near.accuracy[0, b])).sum() < 441 / 3
        path = find_path(interpolated(near.accuracy[0, b]), target)
        near.check_path(whole.names[0], whole.names[b], path)
        best = find_path(whole.accuracy[0, b].astype(float), target)
        steps = [np.mean([whole.accuracy[0, b][at] for at in walk]) for walk in (path, best)]
        off.append([abs(mean - target) for mean in steps])
    assert np.mean([a for a, _ in off]) < np.mean([b for _, b in off]) + 0.5


def test_a_calibration_near_one_difficulty_serves_only_that(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    words = [*CALIBRATE.split(), "--out", str(tmp_path / "near.npz"), "--difficulty", "30"]
    assert main(words) == 0
    assert re.search(r"calibrate: 150 images at .* images a second", capsys.readouterr().err)
    near = Calibration.load(tmp_path / "near.npz")
    measured = int((~np.isnan(near.accuracy)).sum())
    assert 50 < measured < 441
    assert main(words) == 0  # goes on, and finds nothing to do
    again = Calibration.load(tmp_path / "near.npz")
    assert np.array_equal(again.accuracy, near.accuracy, equal_nan=True)
    setting = {"calibration": tmp_path / "near.npz", "corruptions": ["contrast", "brightness"]}
    stream = CCC(Digits(), difficulty=30, **setting)
    assert len(stream.path("contrast", "brightness")) > 1
    with pytest.raises(HoldfastError, match=r"only near paths at 30 %.*difficulty"):
        CCC(Digits(), difficulty=20, **setting)
    assert main([*CALIBRATE.split(), "--out", str(tmp_path / "near.npz")]) == 2
    assert "--out" in capsys.readouterr().err
    i, j = stream.path("contrast", "brightness")[0]
    near.accuracy[near.names.index("contrast"), near.names.index("brightness"), i, j] = np.nan
    near.save(tmp_path / "near.npz")
    with pytest.raises(HoldfastError, match="contrast and brightness is not finished"):
        CCC(Digits(), difficulty=30, **setting)


def test_calibrate_from_python_takes_a_network(tmp_path: Path) -> None:
    names = ("contrast", "brightness")
    net, out = load_backbone("digits"), tmp_path / "python.npz"
    found = calibrate(net, Digits("calibration"), out, images=1, corruptions=names)
    assert main([*CALIBRATE.split(), "--out", str(tmp_path / "command.npz")]) == 0
    assert np.array_equal(
        found.accuracy, Calibration.load(tmp_path / "command.npz").accuracy, equal_nan=True
    )
    assert np.array_equal(found.accuracy, Calibration.load(out).accuracy, equal_nan=True)
