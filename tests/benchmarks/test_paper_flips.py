"""The thesis' tables and figures of whole data sets: known answers on made-up runs."""

from pathlib import Path

import numpy as np
import pytest
from made_up import flipping, put

from holdfast.benchmarks.papers.artefact import artefacts
from holdfast.benchmarks.papers.flips import families
from holdfast.benchmarks.papers.flips.fig3_7 import DRAWS
from holdfast.benchmarks.papers.table import Table, judge
from holdfast.benchmarks.results.runs import set_beside

ALL = artefacts()


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    """Of the same made-up runs, whose accuracy falls by a point for each flip of 20."""
    folder: Path = tmp_path_factory.mktemp("runs")
    names = (
        "T3.1",
        "T3.2",
        "TB.1",
        "TB.2",
        "TB.3",
        "TB.4",
        "Fig3.6",
        "Fig3.7",
        "FigB.2",
        "FigB.3",
        "Why",
    )
    cells = {name: ALL[f"flips/{name}"].cells("embedded", out=str(folder)) for name in names}
    for cell in {cell.folder: cell for own in cells.values() for cell in own}.values():
        put(cell.folder, cell.names, {}, [0.8 - flipping(cell.names["stream"]) / 100] * 40)
    return {name: ALL[f"flips/{name}"].table("embedded", cells[name]) for name in names}


def test_errors_of_whole_data_sets(tables: dict[str, Table]) -> None:
    """All are judged by the accuracy on each image once, a point above that of the batches."""
    table = tables["T3.1"]
    found = {name: table.mean("Average", name) for name in table.columns}
    expected = {"AC": 9, "DoC": 19, "ATC": 29, "COT": 39, "WF": 0}
    assert found == pytest.approx(expected, abs=1e-6)
    assert table.mean("Worst case", "AC") == pytest.approx(9)
    assert "holdout clean" not in table.rows
    assert {judge(c, table).state for c in ALL["flips/T3.1"].claims} == {"holds"}


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("T3.2", ["first", "width8", "width24"]),
        ("TB.1", ["Unweighted linear", "Weighted linear", "Weighted quadratic", "Weighted cubic"]),
        ("TB.2", ["WF original", "WF limited mem/data"]),
        ("TB.3", ["RDumb", "Tent", "RPL", "CPL"]),
        ("TB.4", ["WF", "WF (refit f)"]),
    ],
)
def test_variants_of_weighted_flips(
    name: str, columns: list[str], tables: dict[str, Table]
) -> None:
    """All of them run through the made-up streams; COT is 39 points off there."""
    table = tables[name]
    for column in table.columns:
        if column in columns:
            assert table.mean("Average", column) == pytest.approx(0, abs=1e-6)
        elif column.startswith("COT"):
            assert table.mean("Average", column) == pytest.approx(39)
    assert {*columns} <= {*table.columns}
    states = {claim.text: judge(claim, table).state for claim in ALL[f"flips/{name}"].claims}
    below = [state for text, state in states.items() if "points" in text or "COT" in text]
    assert set(below) <= {"holds"}


def test_why_flips_err(tables: dict[str, Table]) -> None:
    """Here they do not: DoC does, by 19 points, everywhere."""
    table = tables["Why"]
    assert table.mean("all", "WF") == pytest.approx(0, abs=1e-6)
    assert table.mean("all", "DoC") == pytest.approx(19)
    parts = ["the half with fewer flips", "the half with more flips"]
    counts = [len(table.rows[row]["WF"]) for row in parts]
    assert sum(counts) == len(table.rows["all"]["WF"])
    first, second = (judge(claim, table).state for claim in ALL["flips/Why"].claims[:2])
    assert (first, second) == ("holds", "does not hold")
    assert sum("ten more flips go with -0.25 points" in note for note in table.notes) >= 3


def test_f_runs_through_the_hold_out(tables: dict[str, Table]) -> None:
    table = tables["Fig3.6"]
    fitted = [row for row in table.rows if row.startswith("fitted")]
    assert len(fitted) == 13
    for row in table.rows:
        assert table.mean(row, "estimate") == pytest.approx(table.mean(row, "accuracy"))
    assert judge(ALL["flips/Fig3.6"].claims[0], table).state == "holds"


def test_f_of_random_subsets(tables: dict[str, Table]) -> None:
    table = tables["Fig3.7"]
    assert table.columns[-1] == "15"  # one of the sixteen is left to judge by
    assert {len(cells) for cells in table.rows["COT"].values()} <= set(range(1, DRAWS + 1))
    assert table.mean("WF", "15") == pytest.approx(0, abs=1e-6)
    assert table.mean("COT", "15") == pytest.approx(39)
    assert judge(ALL["flips/Fig3.7"].claims[0], table).state in ("holds", "undecided")


def test_stops_and_sizes_have_their_own_f(tables: dict[str, Table]) -> None:
    assert list(tables["FigB.2"].rows) == ["12 steps", "25 steps", "49 steps"]
    assert list(tables["FigB.3"].rows) == ["200 held", "100 held"]
    late, early = (tables["FigB.2"].mean(row, "error") for row in ("49 steps", "12 steps"))
    assert late is not None
    assert early is not None
    assert late < 0.2 < early  # three values of early flips stand for seven accuracies
    assert np.isfinite(tables["FigB.3"].mean("100 held", "error") or np.nan)


def test_too_few_points_make_no_f() -> None:
    assert families.fitted([]) is None
    set_beside([], "source", "Source")
    assert families.with_means({}, ["WF"]).rows == {}
