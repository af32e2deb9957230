"""The site builds offline without a warning, with additions too; its search, and its curves."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import numpy as np
import pytest
from common import PARTS, ROOT, linked_package
from made_up import made_up

from holdfast.benchmarks.suites import grid


def script(name: str) -> ModuleType:
    """A script in docs/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """docs/page_curves.py, which keeps its numbers elsewhere."""
    module = script("page_curves")
    monkeypatch.setattr(module, "KEPT", tmp_path / "curves.json")
    return module


PAGES = {"methods": "methods", "estimators": "callbacks"}
# What a method, an estimator and a stream touch (CONTRIBUTING.md): a file and an export each, the method's
# settings, and a page of prose. The row of a method in tests/methods/table.py comes on top.
ADDED = {
    "methods/halved.py": """
from torch import Tensor

from .tent import Tent


class Halved(Tent):
    \"\"\"Tent with half of the loss.\"\"\"

    def loss(self, logits: Tensor, images: Tensor) -> Tensor:
        return super().loss(logits, images) / 2
""",
    "callbacks/cautious.py": """
from torch import Tensor

from .protocols import Adapting
from .fitted import SoftmaxScore


class Cautious(SoftmaxScore):
    \"\"\"Half of the mean confidence.\"\"\"

    def estimate(self, method: Adapting, images: Tensor) -> Tensor:
        return super().estimate(method, images) / 2
""",
    "datamodules/backwards.py": """
from torch import Tensor

from .wrapper import StreamWrapper, length_of


class Backwards(StreamWrapper):
    \"\"\"Another stream from its end.\"\"\"

    def positions(self, index: Tensor) -> Tensor:
        return length_of(self.stream, "Backwards") - 1 - index
""",
    "docs/methods/halved.md": """---
index:
  Halved: ["half of Tent's loss", "1 fwd, 1 bwd", "norm scale, shift", "", "no", "nobody"]
---
# Halved

**Tent, slower.**

## Use

As Tent.

## Cost

As Tent.

## Source

Nobody.
""",
    "docs/estimators/cautious.md": """---
index:
  Cautious: ["the adapting model, batch by batch", "nothing", "1 forward"]
---
# Cautious

**Half of the confidence.**

## Source

Nobody.
""",
}
EXPORTS = {
    "methods": "from .halved import Halved as Halved",
    "callbacks": "from .cautious import Cautious as Cautious",
    "datamodules": "from .backwards import Backwards as Backwards",
}
USE = """
from holdfast import methods
from holdfast.benchmarks.cli import main
from holdfast.methods.testing import check_method

check_method(methods.Halved, nets=["bn"], skip=["memory", "large_images"])
inner = '{class_path: Corrupted, init_args: {source: Digits, corruptions: [fog], each: 64, table: cifar}}'
words = "--model Halved --model.backbone digits --data Backwards --data.images 64 --out run".split()
assert main(["test", *words, "--trainer.callbacks+=Cautious", "--data.stream", inner]) == 0
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and its docs to which a method, an estimator and a stream were added."""
    folder = tmp_path_factory.mktemp("copy")
    leave = shutil.ignore_patterns("__pycache__")
    for part in (*PARTS, "core", "docs"):
        shutil.copytree(ROOT / part, folder / part, ignore=leave)
    for file in ("mkdocs.yml", "CHANGELOG.md", "README.md"):
        shutil.copy(ROOT / file, folder)
    for name, text in ADDED.items():
        (folder / name).write_text(text.lstrip())
    for part, line in EXPORTS.items():
        file = folder / part / f"{'exports' if part == 'datamodules' else '__init__'}.py"
        file.write_text(f"{file.read_text()}{line}\n")
    linked_package(folder / "package", folder)
    return folder


def test_an_addition_touches_few_places(copy, tmp_path):
    """A file and an export suffice for the command line, and for the checks of all methods."""
    where = {**os.environ, "PYTHONPATH": str(copy / "package")}
    command = [sys.executable, "-c", USE]
    done = subprocess.run(
        command, cwd=tmp_path, env=where, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads((tmp_path / "run" / "provenance.json").read_text())
    assert facts["method"] == "Halved"
    assert "Backwards" in json.dumps(facts)
    first = json.loads((tmp_path / "run" / "record.jsonl").read_text().partition("\n")[0])
    assert 0 < first["Cautious"] < 0.5


def test_the_site_builds_and_is_searched(copy, tmp_path):
    pytest.importorskip("mkdocstrings", reason="needs the extra docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for page, name in {"methods": "Halved", "estimators": "Cautious"}.items():
        assert f'href="{name.lower()}.html"' in (tmp_path / page / "index.html").read_text()
        assert (
            f'id="holdfast.{PAGES[page]}.{name}"'
            in (tmp_path / page / f"{name.lower()}.html").read_text()
        )
    index = json.loads((tmp_path / "search" / "search_index.json").read_text())
    pages = {
        "reset": "guides/resets.html",
        "collapse": "methods/tent.html",
        "AETTA": "estimators/aetta.html",
    }
    for word, page in pages.items():
        found = [e["location"] for e in index["docs"] if word in e["title"] + e["text"]]
        assert any(place.startswith(page) for place in found)
    assert (tmp_path / "search" / "search_index.js").stat().st_size > 100_000  # for file:
    home = (tmp_path / "index.html").read_text()
    assert 'src="iframe-worker.js"' in home
    assert not re.findall(r'<(?:script|link rel="stylesheet")[^>]*"https?:[^>]*>', home)
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser:  # opened from the disk, without a server
        address = f"{(tmp_path / 'methods' / 'tent.html').as_uri()}?q=collapse"
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/own"]
        options += ["--virtual-time-budget=10000", "--dump-dom", address]
        page = subprocess.run([browser, *options], capture_output=True, text=True, timeout=120)
        assert re.search(r'href="file:[^"]*guides/reports.html[^>]*md-search-result', page.stdout)
    assert 'id="holdfast.callbacks.AETTA"' in (tmp_path / "estimators" / "aetta.html").read_text()
    kept = json.loads((ROOT / "docs" / "curves.json").read_text())
    for part, names in kept.items():
        for name in names:
            page = (tmp_path / part / f"{name.lower()}.html").read_text()
            assert f'src="curve-{name.lower()}.svg"' in page
            assert (tmp_path / part / f"curve-{name.lower()}.svg").stat().st_size < 50_000
    for page in (tmp_path / "methods").glob("*.html"):
        assert "<!--" not in page.read_text().partition("<article")[2]  # every comment is filled in
        assert re.search("parameters that adapt|bench steps", page.read_text())


def test_curves_come_from_runs(curves, tmp_path, monkeypatch):
    """Means over seeds, on the longest stream; curves of the other kind stay."""
    free, watched = tmp_path / "free", tmp_path / "watched"
    for seed in (1, 2):
        made_up(free, "Source", [0.2] * 64, seed=seed, exactly=True)
        made_up(free, "ETA", [0.1 * seed] * 64, seed=seed, exactly=True)
    made_up(watched, "Tent", list(np.linspace(0.5, 0, 64)))
    made_up(watched, "Tent", [0.9] * 8, stream="short")
    curves.main([str(free)])
    curves.main([str(watched)])
    kept = json.loads(curves.KEPT.read_text())
    assert kept["methods"].keys() == {"ETA", "Source"}
    assert kept["methods"]["ETA"]["accuracy"] == pytest.approx([0.15] * 32)
    assert kept["methods"]["ETA"]["seeds"] == [1, 2]
    assert kept["estimators"].keys() == {"AETTA", "GDE"}
    aetta = kept["estimators"]["AETTA"]
    assert aetta["estimate"] == aetta["accuracy"]  # as it was made up
    assert aetta["accuracy"][0] > 0.45
    assert aetta["length"] == 640
    first = curves.picture("methods", "ETA", kept)
    assert first == curves.picture("methods", "ETA", kept)
    assert ">ETA<" in first
    assert first != curves.picture("methods", "Source", kept)
    assert "GDE's estimate" in curves.picture("estimators", "GDE", kept)
    assert "640 images, seeds 1, 2" in curves.caption("methods", "ETA", kept)
    assert "640 images, seed 1;" in curves.caption("estimators", "GDE", kept)


def test_all_methods_are_run_on_the_demos_stream():
    """But those for transformers and CLIP."""
    pages = {page.stem for page in (ROOT / "docs" / "methods").glob("*.md")} - {"index"}
    assert pages - {"rem", "foa", "tpt", "vte", "tda", "batclip"} == {
        name.lower() for name in grid.read_suite("methods-2026")["methods"]
    }


def test_the_diagram_is_what_its_script_writes():
    diagram = script("diagram")
    assert diagram.FILE.read_text(encoding="utf-8") == diagram.picture()
    assert ElementTree.fromstring(diagram.picture()).get("viewBox") == "0 0 600 424"
