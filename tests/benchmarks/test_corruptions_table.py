"""`holdfast corruptions`: one table from one command."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import plain_trainer
from PIL import Image

from holdfast.benchmarks.cli import main
from holdfast.datamodules import Corrupted, Digits
from holdfast.methods import Source, Tent
from holdfast.run_folder import SUMMARY

WORDS = ["corruptions", "--backbone", "digits", "--source", "digits", "--corruptions", "fog"]
WORDS += ["contrast", "--images", "64", "--methods", "Source", "Tent"]
RUNS = Path("runs/corruptions/digits")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_table_of_a_model(folder: Path, capsys: pytest.CaptureFixture) -> None:
    """Each cell is a run of a fresh model; what is finished is not run again."""
    assert main(WORDS) == 0
    shown = capsys.readouterr().out
    done = {path: path.stat().st_mtime_ns for path in RUNS.rglob(SUMMARY)}
    assert len(done) == 6
    lost = RUNS / "fog 5-seed43" / "Tent" / SUMMARY
    for path in lost.parent.iterdir():
        if path.is_file():
            path.unlink()
    assert main([*WORDS, "--json"]) == 0
    again = {path: path.stat().st_mtime_ns for path in RUNS.rglob(SUMMARY)}
    assert {path for path in done if again[path] != done[path]} == {lost}
    found = json.loads(capsys.readouterr().out)
    assert (found["table"], found["images"], found["severity"]) == ("cifar", 64, 5)
    for name, method in (("Source", Source), ("Tent", Tent)):
        row = found["accuracy"][name]
        for corruption in ("fog", "contrast"):
            stream = Corrupted(Digits(), [corruption], each=64, table="cifar", num_workers=0)
            torch.manual_seed(43)
            [result] = plain_trainer().test(method("digits"), datamodule=stream, verbose=False)
            assert row[corruption] == pytest.approx(result["accuracy_per_image"])
        assert row["mean"] == pytest.approx((row["fog"] + row["contrast"]) / 2)
        assert row["clean"] > row["mean"]
    lines = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line}
    rows = found["accuracy"]
    for corruption in ("clean", "fog", "contrast", "mean"):
        assert lines[corruption] == [f"{100 * rows[m][corruption]:.1f}" for m in ("Source", "Tent")]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--severity", "7"], "7.0"),
        (["--corruptions", "fogg"], "fogg"),
        (["--methods", "RDum"], "RDum"),
        (["--images", "0"], "images"),
        (["--backbone", "digitz"], "digitz"),
    ],
)
def test_bad_input_is_refused_before_anything_is_run(
    folder: Path, capsys: pytest.CaptureFixture, words: list[str], sentence: str
) -> None:
    assert main([*WORDS, *words]) == 2
    assert sentence in capsys.readouterr().err
    assert not list(folder.iterdir())


def test_a_folder_of_photos_and_a_network_from_a_module(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """As in the README; by default every image once under each corruption of ImageNet-C."""
    for name in ("cat", "dog"):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(2):
            pixels = np.random.default_rng(number).integers(0, 256, (40, 50, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number}.png")
    (folder / "mynets_of_test.py").write_text(
        "from torch import nn\nfrom holdfast.methods import normalised\n\n\n"
        "def make():\n    net = nn.Sequential(nn.Conv2d(3, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())\n"
        "    return normalised(net, [0.5] * 3, [0.25] * 3)\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    words = ["corruptions", "--backbone", "mynets_of_test.make", "--source", "photos"]
    assert main([*words, "--size", "32", "--severity", "3", "--corruptions", "fog", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["images"] == 4
    assert 0 <= found["accuracy"]["Source"]["fog"] <= 1
    assert Path("runs/corruptions/mynets_of_test.make").is_dir()
