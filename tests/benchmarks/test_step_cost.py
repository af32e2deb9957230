"""The step-cost table runs and has a row for each method."""

from pathlib import Path

import pytest

from holdfast.benchmarks.measure.step_cost import WORKLOADS, main
from holdfast.files import read_json
from holdfast.methods import __all__ as exported


def test_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small = ["--size", "32", "--batch", "2", "--rounds", "1", "--calls", "1"]
    file = tmp_path / "costs.json"
    assert main([*small, "--methods", "Source", "Tent", "CoTTA-views", "--json", str(file)]) == 0
    kept = read_json(file)["methods"]
    assert 0 < kept["Tent"]["adapts"] < 0.01
    assert kept["Tent"]["state"] < 1e6 < 4e7 < kept["CoTTA-views"]["state"]  # which has a teacher
    assert kept["Source"]["sources"] == 1
    assert 1 < kept["Tent"]["sources"] < kept["CoTTA-views"]["sources"]
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0] for line in lines}
    assert {"Tent", "CoTTA-views"} <= rows
    assert any("separate passes" in line for line in lines)


def test_every_method_has_a_row() -> None:
    classes = {name for name in exported if name[0].isupper()}
    assert classes - {"TTAMethod"} == {*WORKLOADS} - {"CoTTA-views"}
