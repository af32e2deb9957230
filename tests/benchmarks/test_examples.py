"""The examples in docs/: one's own method, estimator, reset, stream, source of images and corruption."""

import shutil
import sys

import pytest
import yaml
from common import ROOT, without_times
from processes import started

from holdfast.benchmarks.cli import main
from holdfast.files import read_json
from holdfast.run_folder import OWNER


@pytest.mark.slow
def test_own_classes_in_a_suite_and_on_the_command_line(registry, tmp_path, monkeypatch):
    """Found by class path in worker processes too; `holdfast test` gives the same rows as the suite."""
    for name in ("own.py", "own.yaml"):
        shutil.copy(ROOT / "docs" / "examples" / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    # Workers find nothing in the current folder by themselves.
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert main(["suite", "own.yaml", "--jobs", "2"]) == 0
    assert len({path.read_text() for path in tmp_path.rglob(OWNER)}) == 2  # processes
    runs = tmp_path / "runs/own/tide-seed43"
    rows = without_times(runs / "Margin")
    assert [row["step"] for row in rows if row["reset"]] == [5, 15, 35]
    assert all(0 <= row["MarginScore"] <= 1 for row in rows)
    facts = read_json(runs / "Margin/provenance.json")
    assert facts["method"] == "Margin"
    assert facts["resets"] == [{"class": "DoublingReset", "first": 5}]
    source = read_json(runs / "Source/summary.json")
    assert read_json(runs / "Margin/summary.json")["accuracy"] > source["accuracy"]

    data = yaml.safe_load((tmp_path / "own.yaml").read_text())["streams"]["tide"]["init_args"]
    assert rows[4]["corruptions"] == [[data["corruption"], 2]]
    words = ["--model", "own.Margin", "--model.backbone", "digits", "--model.temperature", "2"]
    words += ["--data", "own.Tide", "--data.source", "own.ShiftedDigits"]
    words += ["--data.source.pixels", str(data["source"]["init_args"]["pixels"])]
    for name in ("corruption", "each", "images", "table", "batch_size"):
        words += [f"--data.{name}", str(data[name])]
    words += ["--trainer.callbacks+=own.MarginScore", "--trainer.callbacks+=own.DoublingReset"]
    words += ["--trainer.callbacks.first", "5", "--trainer.accelerator", "cpu"]
    words += ["--seed_everything", "43", "--out", "mine"]
    with started("test", *words, folder=tmp_path) as process:
        output = process.told(600)
    assert process.returncode == 0, output
    assert without_times(tmp_path / "mine") == rows
