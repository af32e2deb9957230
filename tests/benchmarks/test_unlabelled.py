"""Images whose labels are not known, or only of some: runs, records, and what the commands say."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from common import plain_trainer
from PIL import Image

from holdfast.benchmarks.cli import main
from holdfast.callbacks import RunRecord, SoftmaxScore
from holdfast.datamodules import Clean, ImageFolder
from holdfast.files import read_json
from holdfast.methods import Source
from holdfast.run_folder import read_rows


@pytest.fixture(scope="module")
def unlabelled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, ImageFolder]]:
    """Runs on images of which no labels are known ("none"), or those of 24 of 64 ("some")."""
    folder = tmp_path_factory.mktemp("unlabelled")
    for name, count in (("new", 40), ("3", 24)):
        (folder / "images" / name).mkdir(parents=True)
        for number in range(count):
            pixels = np.random.default_rng(number).integers(0, 256, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "images" / name / f"{number}.png")
    sources = {}
    for name, labels in (("none", {"new": -1}), ("some", {"new": -1, "3": 3})):
        sources[name] = ImageFolder(folder / "images", size=32, crop=None, labels=labels)
        trainer = plain_trainer(callbacks=[RunRecord(folder / "runs" / name), SoftmaxScore()])
        stream = Clean(sources[name], batch_size=8, num_workers=0)
        trainer.test(Source("digits"), datamodule=stream, verbose=False)
    return folder / "runs", sources


def test_images_without_labels_are_watched(unlabelled):
    runs, _ = unlabelled
    rows = read_rows(runs / "none")
    assert rows[-1]["images"] == 40
    assert all("accuracy" not in row and 0 < row["SoftmaxScore"] < 1 for row in rows)
    assert "accuracy" not in read_json(runs / "none/summary.json")


def test_a_replay_has_the_order_of_the_files(unlabelled):
    source = unlabelled[1]["none"]
    stream = Clean(source, shuffle=False, batch_size=8, num_workers=0)
    indices = torch.arange(8, 24)
    assert torch.equal(stream.batch(indices).images, source.load(indices, indices)[0] / 255)
    assert stream.identity != Clean(source, batch_size=8).identity


def test_images_with_labels_are_scored(unlabelled):
    """Those that have one, among others that have none."""
    runs, sources = unlabelled
    rows, summary = read_rows(runs / "some"), read_json(runs / "some/summary.json")
    assert rows[-1]["images"] == 64
    seeds = torch.zeros(64, dtype=torch.int64)
    images, labels = sources["some"].load(torch.arange(64), seeds)
    known = (Source("digits")(images.float() / 255).argmax(1) == labels)[labels == 3]
    assert summary["accuracy_per_image"] == pytest.approx(known.float().mean().item())
    scored = [row["accuracy"] for row in rows if "accuracy" in row]
    assert summary["accuracy"] == pytest.approx(np.mean(scored))
    assert any(row.get("SoftmaxScore_error", 0) > 0 for row in rows)


def test_report_and_status_without_labels(unlabelled, capsys):
    runs, _ = unlabelled
    assert main(["report", str(runs), "--json"]) == 0
    first, second = sorted(
        json.loads(capsys.readouterr().out)["runs"], key=lambda run: run["images"]
    )
    assert first["accuracy"] is None
    assert second["accuracy"] == read_json(runs / "some/summary.json")["accuracy"]
    assert main(["report", str(runs), "--status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["none", "finished", "-", "40/40"]
    assert main(["report", str(runs)]) == 0


def test_estimators_say_that_labels_are_lacking(unlabelled, tmp_path, capsys):
    runs, _ = unlabelled
    page = tmp_path / "page.html"
    for command in (["estimators", "warnings", str(runs)], ["report", str(runs / "none")]):
        main(command)
        assert f"holdfast report {command[-1]} --html FILE" in "".join(capsys.readouterr())
    assert main(["report", str(runs / "none"), "--html", str(page)]) == 0
    assert "SoftmaxScore (" in page.read_text()
    assert not (runs / "none" / "accuracy.png").exists()
