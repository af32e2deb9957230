"""`holdfast corruptions`: one table from one command."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from common import plain_trainer
from PIL import Image

from holdfast.benchmarks.cli import main
from holdfast.datamodules import Corrupted, Digits, ImageFolder
from holdfast.methods import Source, Tent
from holdfast.run_folder import SUMMARY

WORDS = ["corruptions", "--backbone", "digits", "--source", "digits", "--corruptions", "fog"]
WORDS += ["--images", "32", "--methods", "Source", "Tent"]
RUNS = Path("runs/corruptions/digits")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shown(capsys: pytest.CaptureFixture) -> dict[str, list[str]]:
    """The first word of each printed line, and its other words."""
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    return {first: rest for first, *rest in lines}


def test_the_table_of_a_model(folder, capsys):
    """Each cell is a run of a fresh model; what is finished is not run again."""
    assert main(WORDS) == 0
    table = shown(capsys)
    done = {path: path.stat().st_mtime_ns for path in RUNS.rglob(SUMMARY)}
    assert len(done) == 4
    lost = RUNS / "fog 5-seed43" / "Tent" / SUMMARY
    for path in lost.parent.iterdir():
        if path.is_file():
            path.unlink()
    assert main(WORDS) == 0
    assert shown(capsys)["fog"] == table["fog"]
    again = {path: path.stat().st_mtime_ns for path in RUNS.rglob(SUMMARY)}
    assert {path for path in done if again[path] != done[path]} == {lost}
    stream = Corrupted(Digits(), ["fog"], each=32, table="cifar", num_workers=0)
    torch.manual_seed(43)
    [result] = plain_trainer().test(Tent("digits"), datamodule=stream, verbose=False)
    assert table["fog"][1] == f"{100 * result['accuracy_per_image']:.1f}"
    assert table["mean"] == table["fog"]
    assert float(table["clean"][0]) > float(table["mean"][0])
    assert main(["report", str(RUNS)]) == 0
    assert "Average" not in capsys.readouterr().out  # of clean images and one kind of shift


def test_one_protocol_for_ones_own_images(folder, capsys):
    """The command and README's script measure the same; what else was chosen, the caption says."""
    digits = Digits()
    for number, label in enumerate(digits.labels[:100].tolist()):
        path = folder / "photos" / str(label) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(digits.images[number].permute(1, 2, 0).numpy()).save(path)
    words = ["corruptions", "--backbone", "digits", "--source", "photos"]
    assert main([*words, "--corruptions", "fog", "--methods", "Source", "BNAdapt"]) == 0
    printed = capsys.readouterr().out
    assert "shorter side 32 (bilinear), centre 32 x 32; table cifar; no JPEG;" in printed
    assert "Each run has 2 steps: too few for methods to drift apart" in printed
    assert "figure: runs/corruptions/digits/corruptions.png" in printed
    assert Image.open(RUNS / "corruptions.png").width > 1000
    rows = {first: rest for first, *rest in (line.split() for line in printed.splitlines() if line)}
    for corruptions, name in ((["fog"], "fog"), ([], "clean")):
        stream = Corrupted(
            ImageFolder("photos"), corruptions, each=100, table="cifar", num_workers=0
        )
        [result] = plain_trainer().test(Source("digits"), datamodule=stream, verbose=False)
        assert rows[name][0] == f"{100 * result['accuracy_per_image']:.1f}"
    assert float(rows["clean"][0]) > 95
    other = ["--out", "runs/other", "--crop", "random", "--quality", "85", "--table", "imagenet"]
    assert main([*words, "--corruptions", "fog", *other]) == 0
    printed = capsys.readouterr().out
    assert "random crops, 32 x 32 pixels; table imagenet; JPEG of quality 85;" in printed
    assert "too few" not in printed


def test_a_folder_of_photos_and_a_network_from_a_module(folder, monkeypatch, capsys):
    """As in the README: by default every image once under each corruption."""
    for name in ("n01440764", "n01443537"):  # ImageNet's labels 0 and 1
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(2):
            pixels = np.random.default_rng(number).integers(0, 256, (40, 50, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number}.png")
    (folder / "mynets_of_test.py").write_text(
        "from torch import nn\nfrom holdfast.methods import normalised\n\n\n"
        "def make(outputs=2):\n"
        "    net = nn.Sequential(nn.Conv2d(3, outputs, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())\n"
        "    return normalised(net, [0.5] * 3, [0.25] * 3)\n\n\n"
        "def three():\n    return make(3)\n\n\ndef broken():\n    return nn.Conv1d(3, 2, 3)\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    words = ["corruptions", "--source", "photos", "--size", "32", "--severity", "3"]
    words += ["--corruptions", "fog", "snow", "--backbone"]
    for wrong, sentence in (
        (["mynets_of_test.make"], "up to 999, but mynets_of_test.make has 2 outputs"),
        (
            ["mynets_of_test.three", "--labels", "imagenet", "--methods", "RDumb"],
            "this backbone has none",
        ),
        (
            ["mynets_of_test.broken", "--labels", "folders"],
            "first step of Source raises RuntimeError",
        ),
    ):
        assert main([*words, *wrong]) == 2
        assert sentence in capsys.readouterr().err
        assert not Path("runs").exists()
    for synset, name in (("n01440764", "cat"), ("n01443537", "dog")):
        Path("photos", synset).rename(Path("photos", name))
    assert main([*words, "mynets_of_test.three"]) == 2
    assert "--labels folders if the numbers are right" in capsys.readouterr().err
    assert main([*words, "mynets_of_test.make"]) == 0
    printed = capsys.readouterr().out
    assert "3 runs of 4 images: about 0:00:" in printed
    table = {first: rest for first, *rest in (x.split() for x in printed.splitlines() if x)}
    both = [float(table[name][0]) for name in ("fog", "snow")]
    assert set(both) <= {0.0, 25.0, 50.0, 75.0, 100.0}
    assert float(table["mean"][0]) == pytest.approx(np.mean(both), abs=0.051)
    assert Path("runs/corruptions/mynets_of_test.make").is_dir()
