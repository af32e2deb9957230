"""Tiny ImageNet: its division into images for calibration and for streams, and how commands find it."""

import hashlib
import os
from pathlib import Path

import pytest
import yaml
from PIL import Image

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.datamodules import Calibration, TinyImageNet

EACH = 12  # images of each class


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 synsets with twelve images each in val/, of which all classes have the same pixels."""
    folder = tmp_path_factory.mktemp("tiny")
    pixels = [folder / f"{n}.png" for n in range(EACH)]
    for n, path in enumerate(pixels):
        Image.new("RGB", (64, 64), (20 * n, 100, 0)).save(path)
    for number in range(200):
        (folder / "val" / f"n{number:08}").mkdir(parents=True)
        for n, path in enumerate(pixels):
            os.link(path, folder / "val" / f"n{number:08}" / f"val_{EACH * number + n}.png")
    return folder


def test_each_class_is_divided_by_the_hash_of_its_file_names(root: Path) -> None:
    parts = {split: TinyImageNet(root, split) for split in ("calibration", "stream")}
    assert [len(source) for source in parts.values()] == [2000, 400]
    for source in parts.values():
        assert source.labels.bincount().tolist() == [len(source) // 200] * 200
    names = {split: {Path(p).name for p in source.dataset} for split, source in parts.items()}
    of_class = [f"val_{n}.png" for n in range(5 * EACH, 6 * EACH)]
    ordered = sorted(of_class, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    assert names["calibration"] & {*of_class} == {*ordered[:10]}
    assert names["stream"] & {*of_class} == {*ordered[10:]}
    assert [Path(p).name for p in TinyImageNet(root / "val").dataset] == [
        Path(p).name for p in parts["stream"].dataset
    ]


def test_what_is_not_tiny_imagenet_is_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="expected files like"):
        TinyImageNet(root, "train")
    (tmp_path / "val" / "images").mkdir(parents=True)
    (tmp_path / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn01443537\t0\t0\t1\t1\n")
    with pytest.raises(HoldfastError, match="Move each into a folder named by its synset"):
        TinyImageNet(tmp_path)
    for name in ("n00000001", "n00000002"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (64, 64)).save(tmp_path / name / "a.png")
    (tmp_path / "val" / "val_annotations.txt").unlink()
    (tmp_path / "val" / "images").rmdir()
    (tmp_path / "val").rmdir()
    with pytest.raises(HoldfastError, match="2 class folders instead of Tiny ImageNet's 200"):
        TinyImageNet(tmp_path)


def test_commands_calibrate_on_the_images_that_no_stream_shows(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "mine.npz"
    words = ["calibrate", "--backbone", "tiny-imagenet", "--source", f"tiny-imagenet:{root}"]
    words += ["--corruptions", "fog", "contrast", "--images", "4", "--whole", "--out", str(out)]
    assert main([*words, "--size", "32"]) == 2
    assert (
        "--size 32 does not apply to TinyImageNet, which has 64 pixels" in capsys.readouterr().err
    )
    assert main(words) == 0
    stated = Calibration.load(out).provenance["content"]
    assert stated.startswith("TinyImageNet(2000 images, 200 classes, size 64), no crops")


def test_a_suite_takes_the_folder_of_its_option(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    stream = {"source": {"class_path": "TinyImageNet", "init_args": {"root": "{tiny_imagenet}"}}}
    suite = {
        "out": "runs",
        "common": {"model": {"init_args": {"backbone": "tiny-imagenet"}}, "progress": False},
        "methods": {"Source": {"class_path": "Source"}},
        "streams": {"short": {"class_path": "Clean", "init_args": {**stream, "images": 64}}},
    }
    Path("mine.yaml").write_text(yaml.safe_dump(suite))
    assert main(["suite", "mine.yaml"]) == 2
    assert "Pass --tiny-imagenet FOLDER" in capsys.readouterr().err
    assert main(["suite", "mine.yaml", "--tiny-imagenet", str(tmp_path / "none")]) == 2
    assert "none is not a folder. Pass --tiny-imagenet FOLDER" in capsys.readouterr().err
    assert main(["suite", "mine.yaml", "--tiny-imagenet", str(root)]) == 0
    assert "64 images in" in capsys.readouterr().out
