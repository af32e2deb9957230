"""The step-cost table runs and has a row for each method."""

import pytest

from holdfast.benchmarks.measure.step_cost import WORKLOADS, main
from holdfast.methods import __all__ as exported


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--size", "32", "--batch", "2", "--rounds", "1", "--calls", "1"]
    assert main([*small, "--methods", "Tent", "CoTTA-views"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0] for line in lines}
    assert {"Tent", "CoTTA-views"} <= rows
    assert any("of the time of separate passes" in line for line in lines)


def test_every_method_has_a_row() -> None:
    classes = {name for name in exported if name[0].isupper()}
    assert classes - {"TTAMethod"} == {*WORKLOADS} - {"CoTTA-views"}
