"""Primitives of claims on small tidy tables, and what becomes of a claim."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from common import ROOT
from scipy.stats import ttest_1samp

from holdfast import HoldfastError
from holdfast.benchmarks.papers import EXPERIMENTS
from holdfast.benchmarks.papers.engine import claims, command
from holdfast.benchmarks.papers.engine.claims import AtFull, Claim, above
from holdfast.benchmarks.papers.engine.experiment import Experiment
from holdfast.benchmarks.papers.engine.page import section
from holdfast.benchmarks.papers.engine.pieces import joined
from holdfast.benchmarks.papers.engine.sources import Evidence, Simulation
from holdfast.benchmarks.papers.engine.table import ALL, FIRST, REST, Except, Positions, Table, tidy
from holdfast.benchmarks.papers.engine.verdicts import (
    FAILS,
    HOLDS,
    PREMISE,
    UNDECIDED,
    UNJUDGED,
    judge,
    state,
)
from holdfast.benchmarks.papers.field import tables as field
from holdfast.benchmarks.results.run_statistics import Difference, holm, p_value
from holdfast.benchmarks.suites.cell import Cell
from holdfast.callbacks.provenance import CODE

Cells = dict[tuple[str, str, str | float], list[float]]


def table_of(cells: Cells, **facts: Any) -> Table:
    """Numbers of the runs "0", "1", ... for each panel, curve and x."""
    rows = (
        (*key, str(n), value) for key, values in cells.items() for n, value in enumerate(values)
    )
    return tidy(rows, **facts)


def means(kind: str, table: Table, *args: Any, **options: Any) -> dict[str, float]:
    """The mean of each part of a primitive."""
    parts = list(getattr(claims, kind)(*args, **options)(table))
    assert all(part.number is not None for part in parts)
    return {part.name: part.number.mean for part in parts}


NUMBERS: Cells = {
    **{("", "a", 1): [10, 11, 12], ("", "a", 2): [20, 22, 24], ("", "a", 3): [16, 17, 18]},
    **{("", "b", 1): [9, 10, 11], ("", "b", 2): [15, 17, 19], ("", "b", 3): [16, 17, 18]},
}
CURVES = table_of(NUMBERS)


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({"each": ALL}, UNJUDGED),
        ({"each": Except(2)}, UNJUDGED),
        ({}, UNJUDGED),  # over the mean of all
        ({"x": 2}, HOLDS),
        ({"each": [1, 2]}, HOLDS),
    ],
)
def test_nothing_holds_of_streams_that_have_no_run(options, verdict):
    table = table_of({key: numbers for key, numbers in NUMBERS.items() if key[2] != 3})
    claim = Claim("", "", [above("a", "b", **options)])
    assert judge(claim, table).state == HOLDS
    assert judge(claim, table, absent=["3"]).state == verdict
    claim = Claim("", "", [above("b", "a", **options)])
    assert judge(claim, table, absent=["3"]).state == FAILS


def test_streams_of_which_all_runs_are_missing():
    names = [
        {"stream": stream, "seed": 1, "method": m, "override": ""} for stream in "ab" for m in "xy"
    ]
    cells = [Cell(name, Path("none"), {}, {}) for name in names]
    results = {
        "missing": ["a, seed 1, y", "b, seed 1, x", "b, seed 1, y"],
        "made": ["a, seed 1, x"],
    }
    assert command.absent(Evidence(None, cells=cells), results) == ["b"]
    assert command.absent(Evidence(None, cells=cells), {"missing": [], "made": []}) == []


def test_a_run_counts_once_whatever_its_windows():
    """Windows of one run are averaged, not counted as pairs."""
    (part,) = above("a", "b")(CURVES)
    assert (part.number.n, part.number.mean) == (3, pytest.approx(2))
    twice = {(p, c, x + more): v for (p, c, x), v in NUMBERS.items() for more in (0, 0.5)}  # type: ignore[operator]
    (again,) = above("a", "b")(table_of(twice))
    assert again.number == part.number


SETS = table_of(
    {("", "d1", "WF"): [1, 3], ("", "d1", "AC"): [4], ("", "d2", "WF"): [2], ("", "d2", "AC"): [6]}
)
PANELS = table_of({("p", "a", "x"): [1, 2], ("q", "a", "x"): [5, 6], ("q", "b", "x"): [2, 2]})
EACH = {"each": ALL}


@pytest.mark.parametrize(
    ("kind", "table", "options", "found"),
    [
        ("above", CURVES, {"curve": "a", "than": "b", "x": 2}, {"a - b": 5}),
        ("above", CURVES, {"curve": "a", "than": "b", **EACH}, {"1": 1, "2": 5, "3": 0}),
        ("above", CURVES, {"curve": "a", "than": "b", "x": 2, "than_x": 1}, {"a - b, 1": 12}),
        ("above", CURVES, {"curve": "a", "than": "b", "x": 1, "share": 0.5}, {"a - 0.5 x b": 6}),
        ("above", PANELS, {"curve": "a", "than": "a", "panel": "q", "than_panel": "p"}, {"q": 4}),
        ("above", PANELS, {"curve": FIRST, "than": Except("a"), "panel": "q"}, {"a - b": 3.5}),
        ("below", CURVES, {"curve": "b", "than": "a", "x": 2}, {"a - b": 5}),
        ("below", PANELS, {"curve": "a", "than": "b", "panel": "p", "than_panel": "q"}, {"q": 0.5}),
        ("rises", CURVES, {"curve": "a", "last": REST}, {"2 - 1": 11, "3 - 1": 6}),
        ("falls", CURVES, {"curve": "a", "first": 2}, {"2 - 3": 5}),
        ("falls_throughout", CURVES, {"curve": "a", "x": Positions(2, -1)}, {"2 - 3": 5}),
        ("highest_at", CURVES, {"curve": "a", "position": 2}, {"2 - 1": 11, "2 - 3": 5}),
        ("steady", CURVES, {"curve": "b", "x": [1, 3], "around": 3, "within": 2}, {"b, 1 - 3": -7}),
        ("near", CURVES, {"curve": "a", "than": "b", "x": 3, "within": 2}, {"a, 3 - b": 0}),
        ("bounded", CURVES, {"curve": "a", "x": [1, 2], "most": 12}, {"a, 1": 11, "a, 2": 22}),
        ("positive", CURVES, {"curve": "a", "x": 1}, {"a": 11}),
        ("negative", CURVES, {"curve": "a", "x": 1}, {"a": -11}),
        ("lower_mean", SETS, {"x": "WF", "than": ["AC"]}, {"AC - WF": 3}),
        ("lower_mean", SETS, {"x": "WF", "than": ["AC"], "by_share": 0.5}, {"0.5 x AC - WF": 0.5}),
        ("mean_below", SETS, {"limit": 3, "without": ["AC"]}, {"WF": 2}),
    ],
)
def test_parts_of_primitives(kind, table, options, found):
    """Each part's mean; its name contains the given one."""
    parts = means(kind, table, **options)
    assert list(parts.values()) == pytest.approx([*found.values()])
    assert all(name in own for name, own in zip(found, parts, strict=True))


def test_limits_decide():
    (part,) = above("a", "b", x=2, by=4)(CURVES)
    assert (part.least, state(part)) == (4, HOLDS)
    (part,) = claims.steady("b", x=1, around=3, within=2)(CURVES)
    assert (part.least, part.most, state(part)) == (-2, 2, FAILS)
    parts = claims.bounded("a", x=[1, 2], most=12)(CURVES)
    assert [state(part) for part in parts] == [UNDECIDED, FAILS]
    (part,) = claims.lower_mean("WF", ["AC"])(SETS)
    assert (part.of, part.number.n) == ("data sets", 2)


def test_rank_correlation_and_shares_by_run():
    ups = [float(n) for n in range(8)]
    table = table_of({("", "one", "s"): ups, ("", "other", "s"): [-value for value in ups]})
    (part,) = claims.rank_correlation("one", "other", negative=True)(table)
    assert state(part) == HOLDS
    two = table_of({(p, "c", "s"): [1.0] * 30 for p in ("phase 1", "phase 2")})
    (part,) = claims.share_above("c", level=0.98)(two)
    assert part.number.n == 30  # runs, not 60 phases
    assert part.number.low == pytest.approx(0.8843, abs=1e-3)


def test_a_peak_is_chosen_on_other_runs():
    """With noise alone the highest point of the mean is above the start; that of other runs is not."""
    noise: Cells = {("", "c", x): [0.0, 0.0, 0.0] for x in range(5)}
    for run, x in enumerate((1, 2, 3)):
        noise["", "c", x][run] = 9.0
    assert means("rises_to_peak", table_of(noise)) == pytest.approx({"c": 0})
    real: Cells = {("acc", "c", x): [v, v + 1, v] for x, v in enumerate((1, 5, 2))}
    real |= {("shift", "c", x): [v, v, v] for x, v in enumerate((1, 2, 7))}
    table = table_of(real)
    for kind, change in (("rises_to_peak", 4), ("falls_from_peak", 3)):
        assert means(kind, table, panel="acc") == pytest.approx({"acc, c": change})
    growth = means("grows_after_peak_of", table, "acc", panel="shift")
    assert growth == pytest.approx({"shift, c": 5})


def verdict(
    *curves: Any, table: Table = CURVES, about: Any = None, **options: Any
) -> tuple[str, str]:
    """The verdict on a claim that one curve is above another."""
    claim = Claim("it-is-so", "it is so", [above(*curves, **options)], **(about or {}))
    found = judge(claim, table)
    return found.state, found.because


def test_one_part_of_many_fails_only_after_holms_correction():
    """p = 0.02 refutes a claim of two parts and none of three; the p-values are scipy's."""
    low, even = [-0.42, -1.0, -0.3, -1.6, -0.2, -0.9], [1.0, -1.0, 2.0, -2.0, 1.5, -1.5]
    cells: Cells = {("", "a", x): low if x == 1 else even for x in range(1, 4)}
    cells |= {("", "b", x): [0.0] * 6 for x in range(1, 4)}
    table = table_of(cells)
    (part,) = above("a", "b", x=1)(table)
    chance = p_value(part.number, 0, claims.INF)
    assert chance == pytest.approx(ttest_1samp(low, 0).pvalue)
    assert 0.05 / 3 < chance < 0.05 / 2
    assert verdict("a", "b", table=table, each=[1, 2])[0] == FAILS
    assert verdict("a", "b", table=table, each=[1, 2, 3])[0] == UNDECIDED
    assert holm([0.01, 0.04, 0.03, 0.005]) == [True, False, False, True]
    assert p_value(Difference(1, 0.5, 1.5, 3), 0, claims.INF) == 1


def test_a_size_of_imagenet_is_judged_at_full_scale_only():
    claim = Claim("by-six", "a is 6 above b", [above("a", "b", x=2, by=AtFull(6))])
    assert judge(claim, table_of(NUMBERS, full=True), "full").state == FAILS
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
def test_results_of_unknown_origin_decide_nothing(facts, reason):
    """Where they are committed; the picture stays, marked."""
    experiment = Experiment(lambda: tidy([]), "rdumb/x", Simulation(), "a and b")
    experiment.claim("up", "a is above b", above("a", "b", x=2))
    results = {"scale": "embedded", "table": CURVES.as_json(), "provenance": facts}
    experiment.committed = {"embedded": results}
    (found,) = experiment.judged()
    assert (found.state, reason in found.because) == (UNJUDGED if reason else HOLDS, True)
    assert ("decide no claim" in section(experiment, results)) == bool(reason)
    # The same results, but not those that are committed.
    assert experiment.verdicts({**results})[0].state == HOLDS
    if reason:
        with pytest.raises(HoldfastError, match=reason):
            command.keep(experiment, {**results, "missing": []}, Path("picture.png"))


def test_results_that_lack_runs_join_those_that_are_there():
    """New numbers replace old ones of the same run, others stay; not with other images."""
    experiment = Experiment(lambda: tidy([]), "rdumb/x", Simulation(), "a and b")
    origin = {"threads": "1", "weights": ["w"], "images": ["i"]}

    def results(rows: list[Any], missing: list[str], **facts: Any) -> dict[str, Any]:
        found = {"scale": "photos", "missing": missing, "made": [row[1] for row in rows]}
        return found | {"provenance": origin | facts, "table": {"rows": rows, "unit": "%"}}

    old = [["", "a", 1, "seed 1", 5.0], ["", "b", 1, "seed 1", 6.0]]
    new = [["", "c", 1, "seed 1", 8.0], ["", "a", 1, "seed 1", 7.0]]
    experiment.committed = {"photos": results(old, ["c", "d"], commit="1, 2", processor="x")}
    facts = {"commit": "2, 3", "processor": "y, z"}
    # "e" is of a suite that has grown: it was not known to be missing before.
    found = joined(experiment, results(new, ["b", "d", "e"], **facts), ["a", "b"])
    assert found["table"]["rows"] == [new[1], old[1], new[0]]
    assert found["missing"] == ["d", "e"]
    assert found["made"] == ["a", "b", "c"]
    assert found["provenance"]["commit"] == "1, 2, 3"
    assert found["provenance"]["processor"] == "x; y, z"
    experiment.committed["photos"]["missing"] = []
    assert joined(experiment, results(new, ["b", "d"], **facts))["missing"] == []
    complete = results(new, [], **facts)
    assert joined(experiment, complete) is complete
    with pytest.raises(HoldfastError, match=r"of other images \(\['i'\], not \['j'\]\)"):
        joined(experiment, results(new, ["b"], **facts | {"images": ["j"]}))


def test_the_best_rate_of_joined_runs_is_that_of_all():
    experiment = EXPERIMENTS["rdumb/holdout"]
    whole = experiment.committed["photos"]
    rows = [row for row in whole["table"]["rows"] if row[1] == "Tent" and row[2] > 0.001]
    table = whole["table"] | {"rows": rows, "notes": ["Tent: the best rate is 0.002."]}
    found = joined(experiment, whole | {"table": table, "missing": ["Tent-0.001"], "made": []})
    assert found["table"]["notes"] == whole["table"]["notes"]


def test_results_that_are_renewed_in_part_keep_their_order():
    experiment = EXPERIMENTS["rdumb/Fig2.3"]
    whole = experiment.committed["embedded"]
    rows = [row for row in whole["table"]["rows"] if row[1] == "RDumb"]
    part = whole | {"table": whole["table"] | {"rows": rows}, "missing": ["Tent"], "made": []}
    found = joined(experiment, part, ["RDumb", "Tent"])
    assert found["table"]["rows"] == whole["table"]["rows"]


def test_runs_of_one_of_several_networks_join_those_of_all():
    experiment = EXPERIMENTS["rdumb/T2.2"]
    whole = experiment.committed["embedded"]
    all_weights = whole["provenance"]["weights"]

    def part(weights: list[str]) -> dict[str, Any]:
        origin = whole["provenance"] | {"weights": weights}
        return whole | {"provenance": origin, "missing": ["EATA-width8"], "made": []}

    found = joined(experiment, part(all_weights[1:2]))
    assert found["provenance"]["weights"] == all_weights
    assert found["table"] == whole["table"]
    with pytest.raises(HoldfastError, match="of other weights"):
        joined(experiment, part([all_weights[0], "1ce6876"]))


def test_claims_have_one_id_each_and_are_found_by_it():
    experiment = Experiment(lambda: tidy([]), "rdumb/x", Simulation(), "a and b")
    experiment.claim("up", "a is above b", above("a", "b"))
    assert experiment.claim_of("up").sentence == "a is above b"
    with pytest.raises(HoldfastError, match=r"no claim 'down'\. Its claims: up"):
        experiment.claim_of("down")
    with pytest.raises(HoldfastError, match="already has a claim 'up'"):
        experiment.claim("up", "b is above a", above("b", "a"))


def test_results_and_pages_are_no_code():
    """So that one command after another can write results with --keep."""
    words = ["git", "ls-files", *CODE]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "core/files.py" in found.splitlines()
    assert not re.search(r"papers/\w+/results/|^docs/|\.md$", found, re.M)


def test_a_claim_with_a_part_of_a_single_run_can_only_be_refuted():
    several = {("", "a", 1): [3, 3.1, 3], ("", "b", 1): [1, 1, 1.1], ("", "c", 1): [0]}
    assert verdict("a", ["b", "c"], table=table_of(several))[0] == UNJUDGED
    assert verdict("b", ["a", "c"], table=table_of(several))[0] == FAILS
    assert verdict("c", ["a", "d"], table=table_of(several)) == (UNJUDGED, "runs are missing")


def test_what_a_claim_is_about_must_have_happened():
    """Which is not known where its runs are missing."""
    for than, expected in (("b", HOLDS), ("a", PREMISE), ("c", UNJUDGED)):
        about = {"premise": above("a", than, x=2), "unless": "no rise"}
        assert verdict("a", "b", x=2, about=about)[0] == expected


def test_the_premises_of_claims_about_orders_of_labels():
    """Correlated labels leave at most half of the classes in a batch; imbalanced streams are as long."""
    for id, panel, order, lacking in (
        ("takes-labels-for-collapse", field.CLASSES, "correlated", [51, 91, 100]),
        ("takes-imbalance-for-collapse", field.LENGTH, "imbalanced", [49, 51]),
    ):
        for share in (49, 51, 91, 100):
            claim = EXPERIMENTS["field/recovery"].claim_of(id)
            found = judge(claim, table_of({(panel, "all", order): [share] * 3}))
            assert (found.state == PREMISE) == (share in lacking)
