"""Pictures: their formats, the bands of paired runs, and the command that draws the figure of a table."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from holdfast.benchmarks.cli import main
from holdfast.benchmarks.papers.engine.picture import balanced, part_of, spread


@pytest.mark.parametrize(
    ("suffix", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_a_figure_has_the_format_of_its_suffix(suffix: str, start: bytes, tmp_path: Path) -> None:
    """The same bytes each time."""
    first, second = (tmp_path / name / f"figure.{suffix}" for name in "ab")
    for file in (first, second):
        assert main(["paper", "rdumb/T2.4", "--show", "--figure", str(file)]) == 0
    assert first.read_bytes().startswith(start)
    assert first.read_bytes() == second.read_bytes()


def test_other_suffixes_and_several_tables(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    file = tmp_path / "figure.bmp"
    assert main(["paper", "rdumb/T2.4", "--show", "--figure", str(file)]) == 2
    assert ".png, .pdf or .svg" in capsys.readouterr().err
    assert main(["paper", "rdumb/T2.4", "rdumb/T2.5", "--show", "--figure", str(file)]) == 2
    assert "2 are named" in capsys.readouterr().err
    assert not file.exists()


def test_bands_leave_out_what_the_curves_of_a_run_share() -> None:
    """Two curves that differ by 1 in every run have no band; with one run's luck only, the plain one."""
    luck, rng = np.array([0.0, 3.0, 7.0, 20.0]), np.random.default_rng(0)
    same = pd.DataFrame({(x, c): luck + x + add for x in (1, 2) for c, add in (("A", 0), ("B", 1))})
    assert np.allclose(spread(same), 0)
    assert np.allclose(spread(same.xs("A", axis=1, level=1, drop_level=False)), 0)
    assert np.allclose(spread(same.drop(columns=[(1, "A")])), same.std().drop((1, "A")))
    one = pd.DataFrame({(1, "steady"): np.full(4, 5.0), (1, "noisy"): rng.normal(size=4)})
    assert np.allclose(spread(one), one.std())


def test_panels_have_the_part_of_the_unit_that_is_theirs() -> None:
    unit, names = "accuracy, %; severity, 0 to 5", ["severity", "accuracy"]
    assert [part_of(unit, names, name) for name in names] == ["severity, 0 to 5", "accuracy, %"]
    assert part_of("steps; flips", ["error", "f"], "f") == "flips"
    assert part_of("by the row; %", ["one"], "one") == "by the row; %"
    assert [balanced(n, 4) for n in (3, 5, 7, 11)] == [3, 3, 4, 4]
