"""Formulas of estimators for whole data sets: the official numbers, and independent solvers."""

import json
from typing import Any

import numpy as np
import pytest
from common import GOLDEN
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm

from holdfast.callbacks.functional import aline as ag
from holdfast.callbacks.functional import confidence as cf
from holdfast.callbacks.functional import spans
from holdfast.callbacks.functional import transport as ot

FOLDER = GOLDEN / "estimators"
COT = np.load(FOLDER / "cot_inputs.npz")
EXPECTED = json.loads((FOLDER / "cot_estimates.json").read_text())


def scores(probs: np.ndarray) -> dict[str, np.ndarray]:
    return {"confidence": cf.max_confidence(probs), "entropy": cf.negative_entropy(probs)}


@pytest.mark.parametrize("temperature", ["T=1", "T=fitted"])
@pytest.mark.parametrize("target", ["target", "target2"])
def test_confidence_and_transport(target: str, temperature: str) -> None:
    """COT's official code, which reports errors."""

    def official(name: str) -> Any:
        return pytest.approx(
            1 - EXPECTED[f"{target}|{temperature}|{name}"]["estimated_error"], abs=1e-4
        )

    fitted = EXPECTED[f"{target}|{temperature}|AC"]["temperature"]
    probs = cf.probabilities(COT[f"{target}_logits"], fitted)
    val, labels = cf.probabilities(COT["source_logits"], fitted), COT["source_labels"]
    correct = val.argmax(1) == labels
    found = cf.score_estimates(scores(probs), scores(val), correct)
    assert len(found) == 4
    assert all(value == official(name) for name, value in found.items())
    uniform = np.ones(10) / 10
    random = np.random.default_rng(0)
    drawn = COT["target2_drawn_labels_seed10"] if target == "target2" else None
    drawn = ot.draw_labels(uniform, 500, random) if drawn is None else drawn
    costs, val_costs = ot.transport_costs(probs, drawn), ot.transport_costs(val, labels)
    assert ot.cot(costs) == official("COT")
    assert ot.cott(costs, val_costs, correct) == official("COTT")
    limit = EXPECTED[f"{target}|{temperature}|COTT"]["threshold"]
    assert cf.threshold(-val_costs, correct) == pytest.approx(limit, abs=1e-4)


def test_atc_repository() -> None:
    trace = np.load(FOLDER / "atc_ac_doc.npz")
    probs, val, labels = trace["target_probs"], trace["source_probs"], trace["source_labels"]
    correct = val.argmax(1) == labels
    for name, score in (("mc", cf.max_confidence), ("ne", cf.negative_entropy)):
        limit = cf.threshold(score(val), correct)
        assert limit == pytest.approx(float(trace[f"atc_{name}_threshold"]), rel=1e-5)
        share = cf.thresholded_confidence(score(probs), score(val), correct)
        assert 100 * share == pytest.approx(float(trace[f"atc_{name}_acc"]), rel=1e-5)
    found = cf.score_estimates(scores(probs), scores(val), correct)
    for name, key in (("AC", "atc_avg_conf"), ("DoC", "atc_doc_acc")):
        assert 100 * found[name] == pytest.approx(float(trace[key]), rel=1e-5)
    ties, tied_correct = trace["tie_scores"], trace["tie_correct"]
    assert cf.threshold(ties, tied_correct) == pytest.approx(float(trace["tie_threshold"]))
    share = cf.thresholded_confidence(ties, ties, tied_correct)
    assert 100 * share == pytest.approx(float(trace["tie_acc"]))


def test_atc_of_a_perfect_model() -> None:
    values = np.array([-0.5, -0.1, 0.0])
    assert cf.thresholded_confidence(values - 1, values, np.ones(3)) == 1


@pytest.mark.parametrize("number", ["0", "1", "3"])
def test_temperature(number: str) -> None:
    inputs = np.load(FOLDER / "temperature_inputs.npz")
    expected = json.loads((FOLDER / "temperature.json").read_text())[number]
    found = cf.fit_temperature(inputs[f"logits{number}"], inputs[f"labels{number}"])
    assert found == pytest.approx(expected["T_exact_minimiser_scipy"], rel=1e-5)
    for official in ("T_entropyenigma", "T_cot"):
        assert found == pytest.approx(expected[official], rel=1e-2)


@pytest.mark.parametrize(("count", "classes"), [(60, 3), (200, 50), (400, 10), (30, 60)])
@pytest.mark.parametrize("spread", [0.0, 0.3, 4.0])
def test_transport_is_optimal(count: int, classes: int, spread: float) -> None:
    """Against scipy's assignment of every label to every prediction; with ties where spread is 0."""
    random = np.random.default_rng(count)
    probs = cf.probabilities(spread * random.normal(size=(count, classes)))
    labels = random.integers(classes, size=count) ** 2 // classes
    rows, columns = linear_sum_assignment(-probs[:, labels])
    best = probs[rows, labels[columns]].sum()
    counts = np.bincount(labels, minlength=classes)
    chosen = ot.transport(probs, counts)
    assert np.array_equal(np.bincount(chosen, minlength=classes), counts)
    assert probs[np.arange(count), chosen].sum() == pytest.approx(best, rel=1e-12)


def test_labels_keep_the_marginal() -> None:
    drawn = ot.draw_labels(np.array([1, 2, 1]), 402, np.random.default_rng(0))
    counts = np.bincount(drawn)
    assert counts.sum() == 402
    assert (counts >= [100, 201, 100]).all()
    chunks = ot.parts(25_000, np.random.default_rng(0))
    assert [len(chunk) for chunk in chunks] == [10_000] * 3
    assert max(chunk.max() for chunk in chunks) > 24_000


def aline(inside: Any, labels: Any, outside: Any) -> ag.ALine | None:
    """From predictions [m,n] in and out of distribution, and the labels of the first."""
    shares = ag.accuracies(inside, labels), ag.agreements(inside), ag.agreements(outside)
    return ag.aline_of_shares(*shares, (inside.shape[1], outside.shape[1]))


@pytest.mark.parametrize("case", ["a", "b", "d_20models"])
def test_aline(case: str) -> None:
    """In the other case the official notebook leaves out pairs, as Saxena et al. do not."""
    inputs = np.load(FOLDER / "aline_inputs.npz")
    expected = json.loads((FOLDER / "aline.json").read_text())[case]
    names = ("id_preds", "id_labels", "ood_preds")
    inside, labels, outside = (inputs[f"{case}.{name}"] for name in names)
    found = aline(inside, labels, outside)
    assert found is not None
    slope, bias, r2 = found.agreement_line
    assert (slope, bias, r2) == pytest.approx(
        [expected[k] for k in ("slope", "bias", "r2")], rel=1e-6
    )
    np.testing.assert_allclose(found.aline_s, expected["aline_s_accuracy_normcdf"], rtol=1e-6)
    np.testing.assert_allclose(
        norm.ppf(found.aline_s), expected["aline_s_returned_probit_scale"], rtol=1e-6
    )
    np.testing.assert_allclose(found.aline_d, expected["aline_d_accuracy"], rtol=1e-6)


def test_aline_needs_three_models_that_differ() -> None:
    same = np.zeros((4, 50), dtype=int)
    assert aline(same[:2], same[0], same[:2]) is None
    assert aline(same, same[0], same) is None


def test_agreement_under_f1_and_exact_match() -> None:
    answers = np.array([[[2, 5], [0, 0]], [[4, 7], [0, 0]], [[9, 9], [3, 1]]])
    assert ag.agreements(answers, spans.token_f1)[0].tolist() == [1, 0.75, 0]
    assert ag.agreements(answers, spans.exact_match)[0].tolist() == [1, 0.5, 0]
    assert ag.accuracies(answers, answers[1], spans.token_f1).tolist() == [0.75, 1, 0]


def test_joint_temperature_of_start_and_end() -> None:
    """The fitted pair is the best of a grid for the cross-entropy of the outer product."""
    random = np.random.default_rng(1)
    starts, ends = random.normal(size=(2, 300, 6)) * np.array([3, 0.5])[:, None, None]
    labels = np.stack([starts.argmax(1), ends.argmax(1)], 1)
    labels[::3] = random.integers(6, size=(100, 2))
    fitted = spans.fit_span_temperatures(starts, ends, labels)

    def loss(temperatures: tuple[float, float]) -> float:
        return -np.log(spans.span_probability(starts, ends, labels, temperatures)).mean()

    best = loss(fitted)
    for factor_s, factor_e in [(0.97, 1), (1.03, 1), (1, 0.97), (1, 1.03), (0.97, 1.03)]:
        assert loss((fitted[0] * factor_s, fitted[1] * factor_e)) > best


def test_negative_entropy_of_spans_is_that_of_all_pairs() -> None:
    starts, ends = np.log([[0.5, 0.5, 1e-30]]), np.log([[0.25, 0.75, 1e-30]])
    starts[0, 2] = ends[0, 2] = -np.inf  # masked
    joint = np.outer([0.5, 0.5], [0.25, 0.75]).ravel()
    expected = (joint * np.log(joint)).sum()
    assert spans.span_negative_entropy(starts, ends)[0] == pytest.approx(expected)
