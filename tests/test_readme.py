"""README and docs/: their Python runs as it stands, on a small folder of pictures; shell lines parse."""

import argparse
import logging
import re
import shlex
import sqlite3
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from pkgutil import resolve_name
from shutil import copy
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from common import ROOT
from PIL import Image
from torch import nn

from holdfast.benchmarks import demo
from holdfast.benchmarks.cli import COMMANDS, main
from holdfast.benchmarks.presets import with_presets
from holdfast.benchmarks.results.runs import collect
from holdfast.benchmarks.suites import grid
from holdfast.benchmarks.suites.cell import check_cells
from holdfast.benchmarks.suites.options import RunOptions
from holdfast.benchmarks.suites.suite import load_suite
from holdfast.benchmarks.test import parsed
from holdfast.run_folder import read_rows

PYTHON = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
DOCS = ROOT / "docs"
FIRST = DOCS / "tutorials" / "first-run.md"
PAGES = sorted(path for path in DOCS.rglob("*.md") if PYTHON.search(path.read_text()))
PAGES.remove(FIRST)  # which runs as a whole
LOGGERS = DOCS / "guides" / "loggers.md"
PAGES.remove(LOGGERS)  # which needs two packages


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


def lines_of(page: Path) -> list[str]:
    """The lines of `holdfast ...` and the like in a page, without what the shell does with them."""
    text = page.read_text().replace("\\\n", "")
    lines = re.findall(r"^(?:    )?((?:holdfast|make|tensorboard) .*)", text, re.M)
    lines = [re.sub(r" > \S+$", "", line.rstrip("& ")) for line in lines]
    return [re.sub(r"\$SLURM_ARRAY_TASK_ID/\$SLURM\w+", "0/8", line) for line in lines]


def test_the_readme(folder, monkeypatch, capsys, caplog):
    """One screen, whose Python and commands do what it says."""
    (folder / "mynets.py").write_text("from test_readme import network as make\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    monkeypatch.delitem(sys.modules, "mynets", raising=False)
    readme = ROOT / "README.md"
    assert len(readme.read_text().splitlines()) <= 110
    messages = logging.getLogger("lightning.pytorch")
    # Whatever level earlier runs in this process have set.
    caplog.set_level(logging.INFO, "lightning.pytorch.utilities.rank_zero")
    messages.addHandler(caplog.handler)
    assert run_snippets(readme) == run_snippets(readme) == 1  # again: its run is replaced
    messages.removeHandler(caplog.handler)
    assert "GPU available" in caplog.text
    runs = folder / "runs" / "readme"
    assert ["AETTA" in row for row in read_rows(runs / "Tent")] == [True, True]
    seen = set()
    for words in (shlex.split(line, comments=True) for line in lines_of(readme)):
        seen.add(" ".join(words[:2]))
        capsys.readouterr()
        if words[0] == "holdfast":
            words += ["--corruptions", "fog", "--size", "32"] * (words[1] == "corruptions")
            assert main(words[1:]) == 0
            shown = capsys.readouterr().out
            found = {"report": "Tent", "paper": "rdumb/T2.4", "corruptions": "fog"}
            assert found[words[1]] in shown
        elif (
            words[0] == "make"
        ):  # to run them takes minutes: .ci/run does, and the demo's own tests
            dry = ["make", "--dry-run", "--no-print-directory", *words[1:]]
            recipe = subprocess.check_output(dry, cwd=ROOT, text=True).splitlines()[-1]
            assert {"demo": "holdfast demo", "test": "python -m pytest"}[words[1]] in recipe
        else:
            assert words == ["tensorboard", "--logdir", "runs/readme"]
            assert list((runs / "Tent").glob("events.out.tfevents.*"))
    assert (runs / "accuracy.png").exists()
    commands = {f"holdfast {name}" for name in ("corruptions", "report", "paper")}
    assert seen == {"make demo", "make test", "tensorboard --logdir", *commands}


def test_the_findings_are_those_of_the_papers_pages():
    """Each number of the table, with its decimals, is on the page that its row links to."""
    text = (ROOT / "README.md").read_text().partition("## Findings\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+) \| \[\w+/\w+\S*\]\((docs/papers/\S+)\) \|$", text, re.M)
    assert len(rows) == 5
    for finding, page in rows:
        on_page = re.findall(r"\d+(?:\.\d+)?", (ROOT / page).read_text())
        numbers = re.findall(r"\d+(?:\.\d+)?", finding)
        assert numbers
        for number in numbers:
            decimals = len(number.partition(".")[2])
            assert number in {f"{float(other):.{decimals}f}" for other in on_page}, (number, page)


def test_the_guide_has_an_example_of_each_command(folder):
    """Its table names all of them; what other pages and their tests do not run, it runs."""
    guide = DOCS / "guides" / "command-line.md"
    assert {*re.findall(r"^\| `(\w+)` \|", guide.read_text(), re.M)} == COMMANDS.keys()
    tour = guide.read_text().partition("## An example of each\n")[2].partition("\n## ")[0]
    (folder / "tour.md").write_text(tour)
    lines = [shlex.split(line) for line in lines_of(folder / "tour.md")]
    elsewhere = {"demo", "corruptions", "report", "paper", "suite", "tune", "stress"}
    assert {words[1] for words in lines} == COMMANDS.keys() - elsewhere
    for words in lines:
        assert main(words[1:]) == 0


def test_relative_links_lead_somewhere():
    """To a file and a heading; in a clone, too, where the pages that the site generates are not."""
    dead = []
    for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\((?!\w+:)([^)\s]+)", page.read_text()):
            file, _, heading = target.partition("#")
            place = page.parent / file if file else page
            known = place.exists() and (not heading or heading in headings(place.read_text()))
            dead += [] if known else [f"{page.name}: {target}"]
    assert dead == []


def headings(text: str) -> list[str]:
    """The headings of a page as links name them."""
    found = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_snippets_of_the_pages_run(page, folder, monkeypatch):
    monkeypatch.setenv("PL_TRAINER_LIMIT_TEST_BATCHES", "1")
    assert run_snippets(page)


def test_the_page_on_loggers(folder, monkeypatch):
    """Offline; both loggers get the estimates."""
    pytest.importorskip("wandb")
    pytest.importorskip("mlflow")
    monkeypatch.setenv("WANDB_SILENT", "true")
    assert run_snippets(LOGGERS) == 2
    (run,) = (folder / "runs" / "wandb").glob("offline-run-*/run-*.wandb")
    assert b"stream/AETTA" in run.read_bytes()
    with closing(sqlite3.connect("mlflow.db")) as database:
        names = {name for (name,) in database.execute("SELECT key FROM metrics")}
    assert {"accuracy", "stream/accuracy", "stream/AETTA"} <= names


def test_the_home_page_names_the_code_of_each_step():
    """Of a batch, by links to what the package has."""
    text = (DOCS / "index.md").read_text().partition("## How a batch runs\n")[2]
    steps = re.findall(r"^\d+\. (?:.+\n)+?(?=\d+\. |\n)", text, re.M)
    assert len(steps) == 10
    for step in steps:
        ((shown, name),) = re.findall(r"\[`([\w.]+)`\]\[(holdfast[\w.]+)\]", step)
        assert name.endswith(f".{shown}")
        assert resolve_name(name)


def test_the_demo(folder, capsys):
    """Two batches of each method: three and their figure first, commands at the end."""
    config = load_suite("demo", RunOptions())
    config["streams"]["ccc-glyphs"]["init_args"] |= {"images": 128, "num_workers": 0}
    assert demo.run(config, RunOptions()) == 0
    shown = capsys.readouterr().out
    assert re.findall(r"^(\w+), steps .*: accuracy", shown, re.M)[::2] == [
        *("Source", "Tent", "RDumb", "BNAdapt", "ETA", "EATA")
    ]
    first, _, rest = shown.partition("figure: runs/demo/accuracy.png")
    assert "RDumb, steps" in first
    assert "BNAdapt, steps" in rest
    assert (folder / "runs/demo/accuracy.png").exists()
    assert re.findall(r"^  \S+ (\w+) .*   # ", shown, re.M) == ["report", "corruptions", "demo"]


def test_the_monitoring_page_alarms_on_shifted_digits_only(folder, capsys):
    exec(PYTHON.findall((DOCS / "tutorials" / "monitoring.md").read_text())[0], {})
    alarms = re.findall(r", alarm (\w+):", capsys.readouterr().out)
    assert alarms == ["False"] * 4 + ["True"] * 4


def test_the_numbers_of_the_first_run(folder, monkeypatch):
    """Its table is what its Python gives, but for another machine's rounding."""
    monkeypatch.delenv("PL_TRAINER_LIMIT_TEST_BATCHES")
    rows = re.findall(r"^\| (\w+) \| ([\d.]+) \|$", FIRST.read_text(), re.M)
    assert run_snippets(FIRST)
    found = {run.method: 100 * (run.accuracy or 0) for run in collect(folder / "runs/first")}
    assert found == pytest.approx({name: float(value) for name, value in rows}, abs=0.5)


def suites_of(page: Path) -> list[dict[str, Any]]:
    """The YAML of a page that is a suite."""
    blocks = map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.M | re.S))
    return [block for block in blocks if isinstance(block, dict) and "methods" in block]


def test_the_suites_of_the_pages_run(registry, folder, monkeypatch):
    """Every run of the guide's example, on fewer images, is what the page says; all are suites."""
    copy(DOCS / "examples" / "own.py", folder)
    monkeypatch.syspath_prepend(folder)
    found = [
        block
        for page in ("guides/suites", "tutorials/grid", "tutorials/own-method")
        for block in suites_of(DOCS / f"{page}.md")
    ]
    assert len(found) == 3
    for content in found:
        (folder / "grid.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
        check_cells(grid.cells(grid.read_suite("grid.yaml")))
    for stream in found[0]["streams"].values():
        stream["init_args"] |= {"images": 128, "num_workers": 0}
    (folder / "grid.yaml").write_text(yaml.safe_dump(found[0], sort_keys=False))
    assert main(["suite", "grid.yaml", "--seeds", "43"]) == 0
    runs = collect(folder / found[0]["out"])
    assert [(run.label, run.factors) for run in runs] == [
        ("Source", {}),
        *((f"RDumb-every {every}", {"every": every}) for every in (25, 50, 100)),
    ]
    for run in runs[1:]:
        assert run.provenance["resets"][0]["every"] == run.factors["every"]
        assert run.provenance["factors"] == run.factors


class Parsed(Exception):
    """The words of a command have been understood."""


def shell_lines() -> list[str]:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return sorted(
        {line for page in pages for line in lines_of(page) if line.startswith("holdfast")}
    )


@pytest.mark.parametrize("line", [x for x in shell_lines() if not x.startswith("holdfast test")])
def test_the_shell_lines_are_understood(line, monkeypatch):
    parse = argparse.ArgumentParser.parse_args

    def stop(parser: argparse.ArgumentParser, words: Sequence[str] | None = None) -> Any:
        found = parse(parser, words)
        if vars(found).keys() == {"command"}:  # of those, another parser has the options
            return found
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    with pytest.raises((Parsed, SystemExit)) as ended:
        main(shlex.split(line, comments=True)[1:])
    assert ended.type is Parsed or getattr(ended.value, "code", None) == 0  # --help


@pytest.mark.parametrize("line", [x for x in shell_lines() if x.startswith("holdfast test")])
def test_the_lines_of_holdfast_test_are_understood(line, monkeypatch):
    monkeypatch.chdir(ROOT)  # the pages name files of the clone
    words = with_presets(shlex.split(line, comments=True)[2:])
    if "--resume" in words and "--model" not in words:  # the folder of a run says the rest
        words += ["--model", "Source", "--model.backbone", "glyphs", "--data", "CCC"]
        words += ["--data.source", "Glyphs"]
    if "..." in words:
        words.remove("...")
        words += [] if "--model" in words else ["--model", "Source"]
        words += [] if "--model.backbone" in words else ["--model.backbone", "glyphs"]
    parsed(words)
