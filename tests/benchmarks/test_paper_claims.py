"""Kinds of claims on small tidy tables, and what becomes of a claim."""

from typing import Any

import pytest

from holdfast.benchmarks.papers.experiment import experiments, rerun_noise
from holdfast.benchmarks.papers.page import page
from holdfast.benchmarks.papers.primitives import PRIMITIVES, Part
from holdfast.benchmarks.papers.table import Table, X
from holdfast.benchmarks.papers.verdicts import (
    FAILS,
    HOLDS,
    PREMISE,
    UNDECIDED,
    UNJUDGED,
    claim_of,
    described,
    judge,
    state,
)
from holdfast.benchmarks.results.run_statistics import Difference

Cells = dict[tuple[str, str, X], list[float]]


def table_of(cells: Cells, **facts: Any) -> Table:
    """Numbers of the runs "0", "1", ... for each panel, curve and x."""
    table = Table(**facts)
    for (panel, curve, x), values in cells.items():
        for run, value in enumerate(values):
            table.add(panel, curve, x, str(run), value)
    return table


def means(kind: str, table: Table, **arguments: Any) -> dict[str, float]:
    """The mean of each part of a claim."""
    parts = PRIMITIVES[kind](table, **arguments)
    assert all(part.found is not None for part in parts)
    return {part.name: part.found.mean for part in parts if part.found is not None}


CURVES = table_of(
    {
        ("", "a", 1): [10, 11, 12],
        ("", "a", 2): [20, 22, 24],
        ("", "a", 3): [16, 17, 18],
        ("", "b", 1): [9, 10, 11],
        ("", "b", 2): [15, 17, 19],
        ("", "b", 3): [16, 17, 18],
    }
)


def test_a_run_counts_once_whatever_its_windows() -> None:
    """Fault 6 of the audit: windows of one run are averaged, not counted as pairs."""
    (part,) = PRIMITIVES["above"](CURVES, "a", "b")
    assert part.found is not None
    assert part.found.n == 3
    assert part.found.mean == pytest.approx(2)
    again = table_of({key: values for key, values in CURVES_TWICE.items()})
    (twice,) = PRIMITIVES["above"](again, "a", "b")
    assert twice.found == part.found


CURVES_TWICE: Cells = {
    (row.panel, row.curve, x): [
        r.value for r in CURVES.rows if (r.curve, r.x) == (row.curve, row.x)
    ]
    for row in CURVES.rows
    for x in (row.x, row.x + 0.5)  # type: ignore[operator]
}


def test_above_and_below() -> None:
    assert means("above", CURVES, curve="a", than="b", x=2) == pytest.approx({"a - b": 5})
    found = means("above", CURVES, curve=["a", "b"], than="b", each="all")
    assert found["a - b, 2"] == 5
    assert len(found) == 6
    assert means("below", CURVES, curve="b", than="a", x=2) == pytest.approx({"a - b": 5})
    (part,) = PRIMITIVES["above"](CURVES, "a", "b", x=2, by=4)
    assert (part.least, state(part)) == (4, HOLDS)
    (part,) = PRIMITIVES["above"](CURVES, "a", "nobody")
    assert part.found is None


def test_panels_and_curves_of_another_panel() -> None:
    cells: Cells = {("p", "a", "x"): [1, 2], ("q", "a", "x"): [5, 6], ("q", "b", "x"): [2, 2]}
    table = table_of(cells)
    found = means("above", table, curve="a", than="a", panel="q", than_panel="p")
    assert found == pytest.approx({"q, a - a": 4})
    found = means("below", table, curve="a", than="b", panel="p", than_panel="q")
    assert list(found.values()) == pytest.approx([0.5])


def test_order_rise_fall_and_nearness() -> None:
    assert means("ordered", CURVES, curves=["a", "b"], x=2) == pytest.approx({"a - b": 5})
    assert means("rises", CURVES, curve="a", start="first", to="rest") == {
        "a, 2 - 1": 11,
        "a, 3 - 1": 6,
    }
    assert means("falls", CURVES, curve="a", start=2, to="last") == {"a, 2 - 3": 5}
    assert means("falls along", CURVES, curve="a", x={"from": 1}) == {"a, 2 - 3": 5}
    near = PRIMITIVES["near"](CURVES, within=2, curve="b", x=[1, 3], to=3)
    assert [(part.name, state(part)) for part in near] == [("b, 1 - 3", FAILS)]
    near = PRIMITIVES["near"](CURVES, within=2, curve="a", than="b", x=[1, 3])
    assert [state(part) for part in near] == [HOLDS, HOLDS]
    assert near[0].least == -near[0].most == -2


def test_numbers_that_are_differences_and_shares_of_others() -> None:
    table = table_of({("", "all", 9): [10, 12, 11], ("", "few", 9): [8, 9, 9]})
    assert means("positive", table, curve="few") == pytest.approx({"few": 26 / 3})
    assert means("positive", table, curve="few", sign=-1) == pytest.approx({"few": -26 / 3})
    found = means("share kept", table, curve="few", of="all", share=0.5, x="last")
    assert list(found.values()) == pytest.approx([26 / 3 - 5.5])


def test_means_over_data_sets() -> None:
    cells: Cells = {("", "d1", "WF"): [1, 3], ("", "d1", "AC"): [4], ("", "d2", "WF"): [2]}
    table = table_of({**cells, ("", "d2", "AC"): [6]})
    (part,) = PRIMITIVES["lower mean"](table, x="WF", than="AC")
    assert part.of == "data sets"
    assert part.found is not None
    assert (part.found.mean, part.found.n) == (3, 2)
    assert means("mean below", table, limit=3, without="AC") == {"WF": 2}


def test_rank_correlation_and_shares_by_run() -> None:
    ups = [float(n) for n in range(8)]
    downs = [-value for value in ups]
    table = table_of({("", "one", "s"): ups, ("", "other", "s"): downs})
    (part,) = PRIMITIVES["rank correlation"](table, one="one", other="other", sign=-1)
    assert state(part) == HOLDS
    two = table_of({(p, "c", "s"): [1.0] * 30 for p in ("phase 1", "phase 2")})
    (part,) = PRIMITIVES["share above"](two, curve="c", level=0.98)
    assert part.found is not None
    assert part.found.n == 30  # runs, not 60 phases
    assert part.found.low == pytest.approx(0.8843, abs=1e-3)


def test_a_peak_is_chosen_on_other_runs() -> None:
    """With noise alone the highest point of the mean is above the start; that of other runs is not."""
    noise = {("", "c", x): [0.0, 0.0, 0.0] for x in range(5)}
    for run, x in enumerate((1, 2, 3)):
        noise["", "c", x][run] = 9.0
    assert means("peak", table_of(noise), way="rises") == pytest.approx({"c": 0})
    real: Cells = {("", "c", x): [v, v + 1, v] for x, v in enumerate((1, 5, 2))}
    assert means("peak", table_of(real), way="rises") == pytest.approx({"c": 4})
    assert means("peak", table_of(real), way="falls") == pytest.approx({"c": 3})
    both: Cells = {**{("acc", "c", x): v for (_, _, x), v in real.items()}}
    both |= {("shift", "c", x): [v, v, v] for x, v in enumerate((1, 2, 7))}
    found = means("peak", table_of(both), panel="shift", of="acc", way="grows")
    assert found == pytest.approx({"shift, c": 5})


def test_the_spread_is_between_curves_that_other_runs_name() -> None:
    table = table_of({("", "low", "x"): [0, 9, 0], ("", "high", "x"): [5, 4, 6]})
    (part,) = PRIMITIVES["spread"](table, x="x", by=3)
    assert part.least == 3
    assert part.found is not None
    assert part.found.mean == pytest.approx((5 - 5 + 6) / 3, abs=3)


def verdict(table: Table, noise: float = 0, **content: Any) -> tuple[str, str]:
    found = judge(claim_of("it-is-so", {"says": "it is so", **content}), table, noise)
    return found.state, found.because


def test_a_claim_of_several_parts_says_which_hold() -> None:
    both = {"above": {"curve": "a", "than": ["b"], "each": "all"}}
    found, because = verdict(CURVES, **both)
    assert found == UNDECIDED  # at 3 they are equal
    assert "of 3 parts 2 hold, 1 undecided: a - b, 3" in because
    found, because = verdict(CURVES, above={"curve": "b", "than": "a", "each": "all"})
    assert found == FAILS
    assert "2 do not hold" in because
    found, because = verdict(CURVES, above={"curve": "a", "than": "b", "each": [1, 2]})
    assert found == HOLDS
    assert "all 2 parts" in because


def test_verdicts_of_their_own() -> None:
    one = table_of({("", "a", 1): [3], ("", "b", 1): [1]})
    assert verdict(one, above={"curve": "a", "than": "b"})[0] == UNJUDGED
    assert verdict(one, above={"curve": "a", "than": "c"})[0] == UNJUDGED
    assert verdict(CURVES, needs="COT", above={"curve": "a", "than": "b"}) == (UNJUDGED, "COT")
    premise = {"above": {"curve": "b", "than": "a", "x": 2}}
    given = {"above": {"curve": "a", "than": "b", "x": 2}, "unless": "no collapse"}
    found, because = verdict(CURVES, premise=premise, **given)
    assert found == PREMISE
    assert because.startswith("no collapse")
    assert (
        verdict(CURVES, premise={"above": {"curve": "a", "than": "b", "x": 2}}, **given)[0] == HOLDS
    )


def test_an_effect_below_the_rerun_noise_is_undecided() -> None:
    small = table_of({("", "a", 1): [10.1, 10.2, 10.3], ("", "b", 1): [10.0, 10.1, 10.2]})
    claim = {"above": {"curve": "a", "than": "b"}}
    slightly = table_of({("", "a", 1): [10.1, 10.21, 10.3], ("", "b", 1): [10.0, 10.1, 10.2]})
    assert verdict(slightly, **claim)[0] == HOLDS
    found, because = verdict(slightly, noise=0.5, **claim)
    assert found == UNDECIDED
    assert "rerun noise of 0.5" in because
    assert verdict(slightly, noise=0.05, **claim)[0] == HOLDS
    assert verdict(slightly, noise=0.5, points=False, **claim)[0] == HOLDS
    assert small.rows


def test_rerun_noise_is_that_of_an_experiments_suites() -> None:
    known = rerun_noise()
    own = experiments()["flips/Fig3.4"]
    assert own.noise == known["flips/phases-glyphs"]["noise"] > 0
    assert f"up to {own.noise:.2g} points" in page(own, own.committed)
    assert experiments()["rdumb/Fig2.6"].noise == 0  # computed
    assert known.keys() <= {
        name for e in experiments().values() for name in e.suites.get("embedded", ())
    }


def test_a_margin_is_said_as_a_margin() -> None:
    assert described(Part("", Difference(19.75, 18, 21.5, 3), 10)).endswith("above +10")
    assert described(Part("", Difference(0.2, 0, 0.4, 3), -1, 1)).endswith("within ±1")
    assert described(Part("", Difference(7, 6.5, 7.5, 3), most=6)).endswith("below 6")
    assert "claimed" not in described(Part("", Difference(1, 0.5, 1.5, 3), 0))


def test_positions_along_an_axis() -> None:
    table = table_of({("", "a", x): [1.0] for x in (1, 2, 5, 10)})
    chosen = table.chosen
    assert chosen(None) == [1, 2, 5, 10]
    assert (chosen("first"), chosen("last"), chosen("middle")) == ([1], [10], [5])
    assert (chosen("rest"), chosen("inner"), chosen("second half")) == ([2, 5, 10], [2, 5], [5, 10])
    assert (chosen({"from": 2}), chosen({"most": 5}), chosen([1, "last"])) == (
        [5, 10],
        [1, 2, 5],
        [1, 10],
    )


def test_a_table_comes_back_from_json_as_it_was() -> None:
    table = table_of({("p", "c", 1): [1.5]}, axis="steps", summary="columns", notes=["n"])
    table.intervals = {"a": [Difference(1.0, 0.0, 2.0, 3), None]}
    content = table.as_json()
    again = Table.read({**content, "rows": [list(row) for row in content["rows"]]})
    assert again.rows == table.rows
    assert (again.axis, again.notes, again.intervals) == ("steps", ["n"], table.intervals)
    assert "points" not in content
