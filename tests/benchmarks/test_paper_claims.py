"""Primitives of claims on small tidy tables, and what becomes of a claim."""

import re
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from common import ROOT
from scipy.stats import ttest_1samp

from holdfast import HoldfastError
from holdfast.benchmarks.papers import EXPERIMENTS, claims, field_tables, reproduce
from holdfast.benchmarks.papers.claims import besides
from holdfast.benchmarks.papers.experiment import Experiment
from holdfast.benchmarks.papers.page import section
from holdfast.benchmarks.papers.table import FIRST, REST, Table, tidy
from holdfast.benchmarks.papers.verdicts import (
    FAILS,
    HOLDS,
    PREMISE,
    UNDECIDED,
    UNJUDGED,
    Claim,
    judge,
    state,
)
from holdfast.benchmarks.results.run_statistics import Difference, holm, p_value
from holdfast.callbacks.provenance import CODE

Cells = dict[tuple[str, str, str | float], list[float]]


def table_of(cells: Cells, **facts: Any) -> Table:
    """Numbers of the runs "0", "1", ... for each panel, curve and x."""
    rows = (
        (*key, str(n), value) for key, values in cells.items() for n, value in enumerate(values)
    )
    return Table.of(tidy(rows, **facts))


def means(kind: str, table: Table, *args: Any, **options: Any) -> dict[str, float]:
    """The mean of each part of a primitive."""
    parts = list(getattr(claims, kind)(table, *args, **options))
    assert all(part.found is not None for part in parts)
    return {part.name: part.found.mean for part in parts}


NUMBERS: Cells = {
    **{("", "a", 1): [10, 11, 12], ("", "a", 2): [20, 22, 24], ("", "a", 3): [16, 17, 18]},
    **{("", "b", 1): [9, 10, 11], ("", "b", 2): [15, 17, 19], ("", "b", 3): [16, 17, 18]},
}
CURVES = table_of(NUMBERS)


def test_a_run_counts_once_whatever_its_windows() -> None:
    """Windows of one run are averaged, not counted as pairs."""
    (part,) = claims.above(CURVES, "a", "b")
    assert part.found is not None
    assert (part.found.n, part.found.mean) == (3, pytest.approx(2))
    twice = {(p, c, x + more): v for (p, c, x), v in NUMBERS.items() for more in (0, 0.5)}  # type: ignore[operator]
    (again,) = claims.above(table_of(twice), "a", "b")
    assert again.found == part.found


SETS = table_of(
    {("", "d1", "WF"): [1, 3], ("", "d1", "AC"): [4], ("", "d2", "WF"): [2], ("", "d2", "AC"): [6]}
)
PANELS = table_of({("p", "a", "x"): [1, 2], ("q", "a", "x"): [5, 6], ("q", "b", "x"): [2, 2]})
EACH = {"each": slice(None)}


@pytest.mark.parametrize(
    ("kind", "table", "options", "found"),
    [
        ("above", CURVES, {"curve": "a", "than": "b", "x": 2}, {"a - b": 5}),
        ("above", CURVES, {"curve": "a", "than": "b", **EACH}, {"1": 1, "2": 5, "3": 0}),
        ("above", CURVES, {"curve": "a", "than": "b", "x": 2, "than_x": 1}, {"a - b, 1": 12}),
        ("above", CURVES, {"curve": "a", "than": "b", "x": 1, "share": 0.5}, {"a - 0.5 x b": 6}),
        ("above", PANELS, {"curve": "a", "than": "a", "panel": "q", "than_panel": "p"}, {"q": 4}),
        ("above", PANELS, {"curve": FIRST, "than": besides("a"), "panel": "q"}, {"a - b": 3.5}),
        ("below", CURVES, {"curve": "b", "than": "a", "x": 2}, {"a - b": 5}),
        ("below", PANELS, {"curve": "a", "than": "b", "panel": "p", "than_panel": "q"}, {"q": 0.5}),
        ("rises", CURVES, {"curve": "a", "to": REST}, {"2 - 1": 11, "3 - 1": 6}),
        ("falls", CURVES, {"curve": "a", "start": 2}, {"2 - 3": 5}),
        ("falls_along", CURVES, {"curve": "a", "x": slice(1, None)}, {"2 - 3": 5}),
        ("near", CURVES, {"curve": "b", "x": [1, 3], "to": 3, "within": 2}, {"b, 1 - 3": -7}),
        ("near", CURVES, {"curve": "a", "than": "b", "x": 3, "within": 2}, {"a, 3 - b": 0}),
        ("bounded", CURVES, {"curve": "a", "x": [1, 2], "most": 12}, {"a, 1": 11, "a, 2": 22}),
        ("positive", CURVES, {"curve": "a", "x": 1, "sign": -1}, {"a": -11}),
        ("lower_mean", SETS, {"x": "WF", "than": ["AC"]}, {"AC - WF": 3}),
        ("lower_mean", SETS, {"x": "WF", "than": ["AC"], "by_share": 0.5}, {"0.5 x AC - WF": 0.5}),
        ("mean_below", SETS, {"limit": 3, "without": ["AC"]}, {"WF": 2}),
    ],
)
def test_parts_of_primitives(
    kind: str, table: Table, options: dict[str, Any], found: dict[str, float]
) -> None:
    """Each part's mean; its name contains the given one."""
    parts = means(kind, table, **options)
    assert list(parts.values()) == pytest.approx([*found.values()])
    assert all(name in own for name, own in zip(found, parts, strict=True))


def test_limits_decide() -> None:
    (part,) = claims.above(CURVES, "a", "b", x=2, by=4)
    assert (part.least, state(part)) == (4, HOLDS)
    (part,) = claims.near(CURVES, "b", x=1, to=3, within=2)
    assert (part.least, part.most, state(part)) == (-2, 2, FAILS)
    parts = claims.bounded(CURVES, "a", x=[1, 2], most=12)
    assert [state(part) for part in parts] == [UNDECIDED, FAILS]
    (part,) = claims.lower_mean(SETS, "WF", ["AC"])
    assert part.found is not None
    assert (part.of, part.found.n) == ("data sets", 2)


def test_rank_correlation_and_shares_by_run() -> None:
    ups = [float(n) for n in range(8)]
    table = table_of({("", "one", "s"): ups, ("", "other", "s"): [-value for value in ups]})
    (part,) = claims.rank_correlation(table, "one", "other", sign=-1)
    assert state(part) == HOLDS
    two = table_of({(p, "c", "s"): [1.0] * 30 for p in ("phase 1", "phase 2")})
    (part,) = claims.share_above(two, "c", 0.98)
    assert part.found is not None
    assert part.found.n == 30  # runs, not 60 phases
    assert part.found.low == pytest.approx(0.8843, abs=1e-3)


def test_a_peak_is_chosen_on_other_runs() -> None:
    """With noise alone the highest point of the mean is above the start; that of other runs is not."""
    noise: Cells = {("", "c", x): [0.0, 0.0, 0.0] for x in range(5)}
    for run, x in enumerate((1, 2, 3)):
        noise["", "c", x][run] = 9.0
    assert means("peak", table_of(noise), "rises") == pytest.approx({"c": 0})
    real: Cells = {("acc", "c", x): [v, v + 1, v] for x, v in enumerate((1, 5, 2))}
    real |= {("shift", "c", x): [v, v, v] for x, v in enumerate((1, 2, 7))}
    table = table_of(real)
    for way, change in (("rises", 4), ("falls", 3)):
        assert means("peak", table, way, panel="acc") == pytest.approx({"acc, c": change})
    found = means("peak", table, "grows", panel="shift", of="acc")
    assert found == pytest.approx({"shift, c": 5})


def verdict(
    *above: Any, table: Table = CURVES, about: Any = None, **options: Any
) -> tuple[str, str]:
    """The verdict on a claim that one curve is above another."""
    claim = Claim("it-is-so", "it is so", "paper", **(about or {}))
    claim.above(*above, **options)
    found = judge(claim, table)
    return found.state, found.because


def test_one_part_of_many_fails_only_after_holms_correction() -> None:
    """p = 0.02 refutes a claim of two parts and none of three; the p-values are scipy's."""
    low, even = [-0.42, -1.0, -0.3, -1.6, -0.2, -0.9], [1.0, -1.0, 2.0, -2.0, 1.5, -1.5]
    cells: Cells = {("", "a", x): low if x == 1 else even for x in range(1, 4)}
    cells |= {("", "b", x): [0.0] * 6 for x in range(1, 4)}
    table = table_of(cells)
    (part,) = claims.above(table, "a", "b", x=1)
    chance = p_value(part.found, 0, claims.INF)
    assert chance == pytest.approx(ttest_1samp(low, 0).pvalue)
    assert 0.05 / 3 < chance < 0.05 / 2
    assert verdict("a", "b", table=table, each=[1, 2])[0] == FAILS
    assert verdict("a", "b", table=table, each=[1, 2, 3])[0] == UNDECIDED
    assert holm([0.01, 0.04, 0.03, 0.005]) == [True, False, False, True]
    assert p_value(Difference(1, 0.5, 1.5, 3), 0, claims.INF) == 1


def test_a_size_of_imagenet_is_judged_at_full_scale_only() -> None:
    claim = Claim("by-six", "a is 6 above b", "paper", at_full={"by": 6}).above("a", "b", x=2)
    assert judge(claim, CURVES, "full").state == FAILS
    found = judge(claim, CURVES)
    assert found.state == HOLDS
    assert found.because.startswith("the direction only")


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"commit": "1ce6876+", "threads": "1", "processor": "x"}, "uncommitted"),
        ({"commit": "1ce6876", "threads": "not recorded", "processor": "x"}, "unknown threads"),
        ({"commit": "1ce6876, 2ce6876-dirty", "threads": "1", "processor": "x"}, "uncommitted"),
        ({"commit": "1ce6876", "threads": "1"}, "unknown threads or processor"),
        ({"commit": "1ce6876", "threads": "1", "processor": "x"}, ""),
    ],
)
def test_results_of_unknown_origin_decide_nothing(facts: dict[str, str], reason: str) -> None:
    """Where they are committed; the picture stays, marked."""
    own = Experiment(lambda: tidy([]), "rdumb/x", sentences={"paper": {"up": "a is above b"}})
    own.says("up").above("a", "b", x=2)
    own.kept = {"embedded": {"scale": "embedded", "table": CURVES.as_json(), "provenance": facts}}
    (found,) = own.judged
    assert (found.state, reason in found.because) == (UNJUDGED if reason else HOLDS, True)
    assert ("decide no claim" in section(own, own.committed)) == bool(reason)
    # The same results, but not those that are committed.
    assert own.verdicts({**own.committed})[0].state == HOLDS
    if reason:
        with pytest.raises(HoldfastError, match=reason):
            reproduce.keep(own, {**own.committed, "missing": []}, Path("picture.png"))


def test_results_and_pages_are_no_code() -> None:
    """So that one command after another can write results with --keep."""
    words = ["git", "ls-files", *CODE]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "core/files.py" in found.splitlines()
    assert not re.search(r"papers/\w+/results/|\.png$|\.md$", found, re.M)


def test_a_claim_with_a_part_of_a_single_run_can_only_be_refuted() -> None:
    several = {("", "a", 1): [3, 3.1, 3], ("", "b", 1): [1, 1, 1.1], ("", "c", 1): [0]}
    assert verdict("a", ["b", "c"], table=table_of(several))[0] == UNJUDGED
    assert verdict("b", ["a", "c"], table=table_of(several))[0] == FAILS
    assert verdict("c", ["a", "d"], table=table_of(several)) == (UNJUDGED, "runs are missing")


def test_what_a_claim_is_about_must_have_happened() -> None:
    """Which is not known where its runs are missing."""
    for than, expected in (("b", HOLDS), ("a", PREMISE), ("c", UNJUDGED)):
        about = {"premise": partial(claims.above, curve="a", than=than, x=2), "unless": "no rise"}
        assert verdict("a", "b", x=2, about=about)[0] == expected


def test_the_premises_of_claims_about_orders_of_labels() -> None:
    """Correlated labels leave at most half of the classes in a batch; imbalanced streams are as long."""
    every = {claim.id: claim for claim in EXPERIMENTS["field/recovery"].claims}
    for id, panel, order, lacking in (
        ("takes-labels-for-collapse", field_tables.CLASSES, "correlated", [51, 91, 100]),
        ("takes-imbalance-for-collapse", field_tables.LENGTH, "imbalanced", [49, 51]),
    ):
        for share in (49, 51, 91, 100):
            found = judge(every[id], table_of({(panel, "all", order): [share] * 3}))
            assert (found.state == PREMISE) == (share in lacking)
