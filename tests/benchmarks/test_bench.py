"""`holdfast bench`: every subject on a few images, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import methods
from holdfast.benchmarks.bench.step_cost import rows
from holdfast.benchmarks.cli import main
from holdfast.datamodules.corruptions import CORRUPTIONS, EXTRA
from holdfast.methods.backbones import load_backbone

QUICK = ["--batch", "2", "--rounds", "1", "--device", "cpu"]


def measured(folder: Path, subject: str, *words: str) -> dict[str, dict[str, Any]]:
    """The rows that the command writes."""
    file = folder / "bench.json"
    assert main(["bench", subject, *QUICK, *words, "--json", str(file)]) == 0
    (key,) = json.loads(file.read_text()).keys() - {"setting"}
    return json.loads(file.read_text())[key]


def test_steps(tmp_path, capsys):
    words = ["--methods", "Source", "Tent", "CoTTA-views", "--bf16"]
    found = measured(tmp_path, "steps", *words)
    assert 0 < found["Tent"]["adapts"] < 0.01
    assert found["Source"]["sources"] == 1
    assert 1 < found["Tent"]["sources"] < found["CoTTA-views"]["sources"]
    network = sum(p.numel() * p.element_size() for p in load_backbone("glyphs").parameters())
    assert found["Tent"]["state"] < network < found["CoTTA-views"]["state"]  # which has a teacher
    said = capsys.readouterr()
    # 2 of 64 images and 2 of 6 turns of five minutes.
    assert said.err.startswith("steps: about 0.1 minutes")
    shown = said.out.splitlines()
    assert shown[1].startswith("glyphs, 2 images of 32 x 32, cpu, 1 thread(s)")
    assert [line.split()[0] for line in shown[3:]] == list(found)


def test_every_method_has_a_row_of_steps():
    classes = {name for name in vars(methods) if name[0].isupper()} - {"TTAMethod"}
    assert classes | {"CoTTA-views"} == {*rows()}


def test_estimators(tmp_path):
    found = measured(tmp_path, "estimators")
    assert found["forward pass"]["forwards"] == 1
    assert found["AETTA"]["forwards"] > 1


def test_long_runs(tmp_path, capsys):
    """A record and events that grow by a step's bytes; a figure of a run that was kept."""
    file, picture, folder = tmp_path / "long.json", tmp_path / "long.png", tmp_path / "runs"
    words = ["--batch", "2", "--methods", "Tent", "--device", "cpu", "--folder", str(folder)]
    assert main(["bench", "long", *words, "--steps", "40"]) == 0
    made = (folder / "Tent.json").stat().st_mtime_ns
    ends = ["--json", str(file), "--figure", str(picture)]
    assert main(["bench", "long", *words, "--steps", "40", *ends]) == 0
    assert (folder / "Tent.json").stat().st_mtime_ns == made
    tent = json.loads(file.read_text())["methods"]["Tent"]
    assert tent["ms"] > 0
    assert 100 < tent["record"] < 1000
    assert tent["files_end"] < 10
    assert tent["checkpoints"] > 2 * tent["record"]
    assert picture.stat().st_size > 10_000
    assert main(["bench", "long", "--steps", "9", "--device", "cpu"]) != 0
    assert "Pass at least 40" in capsys.readouterr().err
    assert main(["bench", "long", *words, "--steps", "41"]) != 0
    assert "is a run of 40 steps" in capsys.readouterr().err


def test_streams(tmp_path):
    found = measured(tmp_path, "streams", "--size", "32")
    assert found.keys() >= {*CORRUPTIONS, *EXTRA, "geometric mean of the 15", "CCC's pairs"}
    fog = found["fog"]
    assert fog["ratio"] == pytest.approx(fog["holdfast"] / fog["imagecorruptions"], abs=0.06)
    assert found["CCC's pairs"].keys() == {"holdfast"}


def test_loader(tmp_path):
    found = measured(tmp_path, "loader", "--images", "2", "--size", "32")
    assert all(value > 0 for row in found.values() for value in row.values())
    assert "torchvision's loader" in found
