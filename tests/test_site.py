"""The site builds offline without a warning, and its search finds what people look for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT


def test_the_site_builds_and_is_searched(tmp_path: Path) -> None:
    pytest.importorskip("mkdocstrings", reason="needs the extra docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    index = json.loads((tmp_path / "search" / "search_index.json").read_text())
    for word in ("reset", "collapse", "AETTA"):
        assert any(word in entry["title"] + entry["text"] for entry in index["docs"])
    assert 'id="holdfast.callbacks.AETTA"' in (tmp_path / "estimators" / "aetta.html").read_text()
