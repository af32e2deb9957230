"""The examples in docs/: one's own method, estimator, reset, stream, source of images and corruption."""

import shutil
import sys
from pathlib import Path

import pytest
import yaml
from common import without_times
from processes import started

from holdfast.benchmarks.cli import main
from holdfast.files import read_json
from holdfast.run_folder import OWNER

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


def holdfast(folder: Path, *words: str) -> None:
    """The command as it is installed, which finds nothing in the current folder by itself."""
    environment = {"PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"}
    with started(*words, folder=folder, environment=environment) as process:
        output = process.told(600)
    assert process.returncode == 0, output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("own.py", "own.yaml"):
        shutil.copy(EXAMPLES / name, tmp_path)
    return tmp_path


@pytest.mark.slow
def test_own_classes_in_a_suite_and_on_the_command_line(folder):
    """Found by class path in worker processes too; `holdfast test` gives the same rows as the suite."""
    holdfast(folder, "suite", "own.yaml", "--jobs", "2", "--seeds", "43", "44")
    assert len({path.read_text() for path in folder.rglob(OWNER)}) == 2  # processes, of four runs
    runs = folder / "runs/own/tide-seed43"
    rows = without_times(runs / "Margin")
    assert [row["step"] for row in rows if row["reset"]] == [5, 15, 35]
    assert all(0 <= row["MarginScore"] <= 1 for row in rows)
    facts = read_json(runs / "Margin/provenance.json")
    assert facts["method"] == "Margin"
    assert facts["resets"] == [{"class": "DoublingReset", "first": 5}]
    source = read_json(runs / "Source/summary.json")
    assert read_json(runs / "Margin/summary.json")["accuracy"] > source["accuracy"]

    data = yaml.safe_load((folder / "own.yaml").read_text())["streams"]["tide"]["init_args"]
    assert rows[4]["corruptions"] == [[data["corruption"], 2]]
    words = ["--model", "own.Margin", "--model.backbone", "digits", "--model.temperature", "2"]
    words += ["--data", "own.Tide", "--data.source", "own.ShiftedDigits"]
    words += ["--data.source.pixels", str(data["source"]["init_args"]["pixels"])]
    for name in ("corruption", "each", "images", "table", "batch_size"):
        words += [f"--data.{name}", str(data[name])]
    words += ["--trainer.callbacks+=own.MarginScore", "--trainer.callbacks+=own.DoublingReset"]
    words += ["--trainer.callbacks.first", "5", "--trainer.accelerator", "cpu"]
    holdfast(folder, "test", *words, "--seed_everything", "43", "--out", "mine")
    assert without_times(folder / "mine") == rows


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ("own.Margn", "own.Margn: Problem with given class_path 'own.Margn': module 'own' has no"),
        ("owm.Margin", "No module named 'owm'"),
        ("broken.Margin", "broken.Margin: the file is broken"),
        (
            "own.MarginScore",
            "own.MarginScore: Import path does not correspond to a subclass of TTA",
        ),
    ],
)
def test_what_cannot_be_imported(registry, folder, monkeypatch, capfd, model, sentence):
    (folder / "broken.py").write_text("raise RuntimeError('the file is broken')\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    words = ["--model", model, "--model.backbone", "digits", "--data", "CCC"]
    assert main(["test", *words, "--data.source", "Digits"]) == 2
    error = capfd.readouterr().err
    assert sentence in error
    assert "Traceback" not in error
