"""Statistics agree with scipy; scores, their comparison, and published figures beside them."""

import pytest
from cite_samples import record, row, write
from scipy import stats

from holdfast import HoldfastError
from holdfast.agents.cite_compare import compare, mcnemar, sign_flip
from holdfast.agents.cite_score import of_run
from holdfast.agents.data import load
from holdfast.agents.records import Header, settings_of
from holdfast.agents.score import proportion, score


def test_statistics_agree_with_scipy():
    for k, n in [(0, 10), (42, 119), (119, 119), (1, 3)]:
        expected = stats.binomtest(k, n).proportion_ci(method="wilson")
        rate = proportion(k, n)
        assert (rate.low, rate.high) == pytest.approx((expected.low, expected.high), abs=1e-6)
    assert str(proportion(0, 0)) == "none"


def header_of(agent, provider, **budget):
    content = settings_of(load("mini-cite"), agent, provider, budget)
    return Header.model_validate({"type": "header", "schema": 1, **content})


def scores_of(records, tmp_path, **options):
    rows = [
        row(id="a", target_paper_title="Alpha networks", year="2022"),
        row(id="b", target_paper_title="Beta methods for graphs", year="2023"),
        row(id="c", target_paper_title="Gamma", year=""),
    ]
    data = load(write(tmp_path / "d.csv", rows))
    return score({(r.sample, r.repeat): r for r in records}, data, **options), data


def test_provider_errors_stand_apart_and_rank_one_counts_as_found(tmp_path):
    s, data = scores_of(
        [
            record("a", title="Alpha Networks", hits=["Alpha networks", "Other"]),
            record("b", title="Other", hits=["x", "Beta methods for graphs"]),
            record("c", status="provider_error"),
        ],
        tmp_path,
        prices=(2.0, 10.0),
    )
    assert (s["accuracy"].k, s["accuracy"].n, s["n_expected"]) == (1, 2, 3)
    assert s["found_in_search"].k == 2
    assert s["best_rank_median"] == 1.5
    assert s["accuracy_given_found"].rate == 0.5
    assert s["found_not_selected"] == 1
    assert s["provider_errors"] == {"provider_error": 1}
    assert s["outcomes"] == {"correct": 1, "wrong": 1}
    assert s["tokens"] == {"input": 20, "output": 10}
    assert s["usd"] == pytest.approx(20 * 2e-6 + 10 * 10e-6)
    assert s["by_year"]["2022"].rate == 1.0
    assert s["seconds"] == {"mean": 2.0, "p50": 2.0, "p90": 2.0}
    assert s["usd_per_sample"]["mean"] == pytest.approx(10 * 2e-6 + 5 * 10e-6)
    assert s["tokens_per_sample"]["p90"] == 15.0
    header = header_of({"name": "x"}, {"name": "local"})
    report = of_run(header, s, data)
    assert "UNFINISHED            2 of 3" in report
    assert "n = 3, split = all" in report


def test_repeats_give_mean_and_deviation(tmp_path):
    good = [record(i, title=t) for i, t in [("a", "Alpha networks"), ("c", "Gamma")]]
    bad = [record("a", title="no", repeat=1), record("c", title="Gamma", repeat=1)]
    s, _ = scores_of(good + bad, tmp_path, repeats=2)
    assert s["per_repeat"]["mean"] == pytest.approx(0.75)
    assert s["per_repeat"]["sd"] == pytest.approx(0.25 * 2**0.5)
    assert (s["accuracy"].k, s["accuracy"].n, s["missing"]) == (3, 4, 2)
    # A sample with two answers is one trial: 1.5 right of 2, by Wilson's formula.
    p, z2 = 0.75, 1.959964**2
    half = (z2 / 2 * (p * (1 - p) + z2 / 8)) ** 0.5
    low = (p + z2 / 4 - half) / (1 + z2 / 2)
    assert s["accuracy"].low == pytest.approx(low)


def test_comparison_is_paired_over_what_both_answered(tmp_path):
    _, data = scores_of([record("a", title="x")], tmp_path)
    one = [record("a", title="Alpha networks"), record("b", title="no"), record("c", title="Gamma")]
    two = [record("a", title="no"), record("b", title="no"), record("c", status="crash")]
    a, b = ({(r.sample, 0): r for r in records} for records in (one, two))
    figures = compare(a, b, data)
    assert (figures["pairs"], figures["only_a"], figures["only_b"], figures["neither"]) == (
        2,
        1,
        0,
        1,
    )
    assert (figures["p"], figures["test"]) == (1.0, "exact McNemar")
    assert 0.0 <= figures["interval"][0] <= figures["difference"] <= figures["interval"][1] <= 1.0
    (first,) = (key for key in a if key[0] == "a")
    assert compare({first: a[first]}, b, data)["interval"] == [1.0, 1.0]


def test_comparison_of_repeated_runs_counts_a_sample_once(tmp_path):
    _, data = scores_of([record("a", title="x")], tmp_path)
    right = {"a": "Alpha networks", "b": "Beta methods for graphs", "c": "Gamma"}
    # A gets a and c right in all three repeats and b in one; B gets c right, in its only two.
    one = [record(i, title=right[i], repeat=k) for i in "ac" for k in range(3)]
    one += [record("b", title=right["b"] if k == 1 else "no", repeat=k) for k in range(3)]
    two = [record(i, title=right[i] if i == "c" else "no", repeat=k) for i in "abc" for k in (0, 1)]
    a, b = ({(r.sample, r.repeat): r for r in records} for records in (one, two))
    figures = compare(a, b, data)
    assert figures["pairs"] == 3
    assert figures["difference"] == pytest.approx((1 + 1 / 3 + 0) / 3)
    assert figures["a"] == pytest.approx({"mean": 7 / 9, "sd": 3**0.5 / 9, "repeats": 3})
    assert figures["b"] == pytest.approx({"mean": 1 / 3, "sd": 0.0, "repeats": 2})
    assert (figures["test"], figures["p"]) == ("sign flips over samples", 0.5)
    assert (figures["both"], figures["only_a"], figures["neither"]) == (1, 1, 1)


def test_flipping_signs_of_yes_and_no_answers_is_mcnemars_test():
    for a, b in [(0, 0), (5, 1), (6, 6), (0, 7)]:
        assert sign_flip([1.0] * a + [-1.0] * b + [0.0] * 9) == pytest.approx(mcnemar(a, b))
    many = [1.0] * 22 + [-1.0] * 9
    assert sign_flip(many) == pytest.approx(mcnemar(22, 9), abs=0.005)


def test_a_run_without_samples_has_no_score(tmp_path):
    with pytest.raises(HoldfastError, match=r"no samples yet.* Rerun"):
        scores_of([], tmp_path)
