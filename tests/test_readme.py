"""The README's Python runs as it stands, one snippet after the other, on a small folder of pictures."""

import json
import re
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import ROOT
from PIL import Image
from torch import nn

from holdfast.benchmarks.cli import main
from holdfast.run_folder import read_rows

SNIPPETS = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
# What the README takes for granted: a network of one's own, and batches of images.
OWN = "my_model", "batches"


def network() -> nn.Module:
    """A small network of two stages, for images of any size and of two classes."""
    stages = OrderedDict[str, nn.Module]()
    for name, channels in (("layer1", 3), ("layer2", 8)):
        conv = nn.Conv2d(channels, 8, 3, stride=4)
        stages[name] = nn.Sequential(conv, nn.BatchNorm2d(8), nn.ReLU())
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
    return nn.Sequential(stages | {"head": head})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: photos of two classes; a Trainer that makes two steps."""
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(2):
            pixels = np.random.default_rng(number).integers(0, 256, (240, 250, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.jpg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PL_TRAINER_LIMIT_TEST_BATCHES", "2")
    monkeypatch.setenv("PL_TRAINER_ACCELERATOR", "cpu")
    return tmp_path


def test_the_snippets_run(folder: Path, capsys: pytest.CaptureFixture) -> None:
    images = torch.rand(2, 8, 3, 32, 32)
    names: dict[str, Any] = dict(zip(OWN, (network(), list(images)), strict=True))
    assert len(SNIPPETS) >= 3
    for snippet in SNIPPETS:
        exec(compile(snippet, "README.md", "exec"), names)
    for name in ("rdumb", "tent"):
        assert len(read_rows(folder / "runs" / "mine" / name)) == 2
        assert len(list((folder / "runs" / "mine" / name).glob("events.out.tfevents.*"))) == 1
    assert all("AETTA" in row for row in read_rows(folder / "runs" / "mine" / "tent"))
    capsys.readouterr()
    assert main(["report", "runs/mine", "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert {run["method"] for run in runs} == {"RDumb", "Tent"}
