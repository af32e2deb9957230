"""The Python of README and docs/ runs as it stands, on a small folder of pictures; shell lines parse."""

import argparse
import json
import re
import shlex
from collections import OrderedDict
from collections.abc import Sequence
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

PYTHON = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if PYTHON.search(path.read_text()))


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


def run_snippets(page: Path) -> int:
    """Run a page's Python, one snippet after the other, and count them."""
    # What the pages take for granted: a network of one's own, and batches of images.
    names = {"my_model": network(), "batches": list(torch.rand(2, 8, 3, 32, 32))}
    snippets = PYTHON.findall(page.read_text())
    for snippet in snippets:
        exec(compile(snippet, page.name, "exec"), names)
    return len(snippets)


def test_the_snippets_run(folder: Path, capsys: pytest.CaptureFixture) -> None:
    assert run_snippets(ROOT / "README.md") >= 3
    for name in ("rdumb", "tent"):
        assert len(read_rows(folder / "runs" / "mine" / name)) == 2
        assert len(list((folder / "runs" / "mine" / name).glob("events.out.tfevents.*"))) == 1
    assert all("AETTA" in row for row in read_rows(folder / "runs" / "mine" / "tent"))
    capsys.readouterr()
    assert main(["report", "runs/mine", "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert {run["method"] for run in runs} == {"RDumb", "Tent"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_snippets_of_the_pages_run(
    page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PL_TRAINER_LIMIT_TEST_BATCHES", "1")
    assert run_snippets(page)


class Parsed(Exception):
    """The words of a command have been understood."""


def shell_lines() -> set[str]:
    """The lines of `holdfast ...` in docs/, without what the shell does with them."""
    lines = set()
    for page in (ROOT / "docs").rglob("*.md"):
        text = page.read_text().replace("\\\n", "")
        for line in re.findall(r"^(?:    )?(holdfast (?!test).*)", text, re.M):
            lines.add(re.sub(r"\$SLURM_ARRAY_TASK_ID/\$SLURM\w+", "0/8", line.rstrip("&\\ ")))
    return lines


@pytest.mark.parametrize("line", sorted(shell_lines()))
def test_the_shell_lines_are_understood(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = argparse.ArgumentParser.parse_args

    def stop(parser: argparse.ArgumentParser, words: Sequence[str] | None = None) -> Any:
        found = parse(parser, words)
        if vars(found).keys() == {"command"}:  # of those, another parser has the options
            return found
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    with pytest.raises(Parsed):
        main(shlex.split(line, comments=True)[1:])
