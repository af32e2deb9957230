"""Estimators for whole data sets: the official numbers, independent solvers, real runs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import GOLDEN, TensorStream, plain_trainer, tiny_net
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm

from holdfast import HoldfastError
from holdfast.callbacks import DatasetEstimates, RunRecord, SrcValid, WeightedFlips
from holdfast.callbacks.functional import aline as ag
from holdfast.callbacks.functional import confidence as cf
from holdfast.callbacks.functional import spans
from holdfast.callbacks.functional import transport as ot
from holdfast.callbacks.functional.flips import PUBLISHED, FlipFunction, fit, flips
from holdfast.methods import RDumb, Source, Tent

FOLDER = GOLDEN / "estimators"
COT = np.load(FOLDER / "cot_inputs.npz")
EXPECTED = json.loads((FOLDER / "cot_estimates.json").read_text())
RANDOM = torch.Generator().manual_seed(1)
COLOURS = torch.rand(12, 8, 3, 1, 1, generator=RANDOM)
IMAGES = COLOURS * torch.rand(12, 8, 3, 8, 8, generator=RANDOM)
IMAGES = (IMAGES * 255).round() / 255


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


@pytest.mark.parametrize(
    ("classes", "each", "least", "most"),
    [(10, 500, 0.97, 1), (500, 2, 0.6, 0.8), (50, 100, 0.9, 0.97)],
)
def test_cot_of_a_perfect_classifier(classes: int, each: int, least: float, most: float) -> None:
    """It needs hundreds of images of a class if labels are random; few if all are equally frequent."""
    random = np.random.default_rng(0)
    labels, validation = random.integers(classes, size=(2, classes * each))
    for target, source, low in (
        (labels, validation, least),
        (*[np.repeat(np.arange(classes), each)] * 2, 1),
    ):
        drawn = ot.draw_labels(np.bincount(source, minlength=classes), len(target), random)
        found = ot.cot(ot.transport_costs(np.eye(classes)[target], drawn))
        assert low <= found <= (1 if low == 1 else most)


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


@pytest.mark.slow
def test_transport_of_ten_thousand() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(100, size=10_000)
    logits = random.normal(size=(10_000, 100)) + 3 * np.eye(100)[labels]
    probs = cf.probabilities(logits)
    uniform = np.full(100, 100)
    chosen = ot.transport(probs, uniform)
    assert np.array_equal(np.bincount(chosen), uniform)
    # Optimal by duality: prices exist under which every row has the class that suits it best.
    gain = probs[np.arange(len(probs)), chosen].mean()
    assert (chosen == labels).mean() > 0.5
    assert gain <= probs.max(1).mean()


def test_labels_keep_the_marginal() -> None:
    drawn = ot.draw_labels(np.array([1, 2, 1]), 402, np.random.default_rng(0))
    counts = np.bincount(drawn)
    assert counts.sum() == 402
    assert (counts >= [100, 201, 100]).all()
    chunks = ot.parts(25_000, np.random.default_rng(0))
    assert [len(chunk) for chunk in chunks] == [10_000] * 3
    assert max(chunk.max() for chunk in chunks) > 24_000


@pytest.mark.parametrize("case", ["a", "b", "c_nearduplicates", "d_20models"])
def test_aline(case: str) -> None:
    inputs = np.load(FOLDER / "aline_inputs.npz")
    expected = json.loads((FOLDER / "aline.json").read_text())[case]
    names = ("id_preds", "id_labels", "ood_preds")
    inside, labels, outside = (inputs[f"{case}.{name}"] for name in names)
    found = ag.aline(inside, labels, outside, most_agreement=0.95)
    slope, bias, r2 = found.agreement_line
    assert (slope, bias, r2) == pytest.approx(
        [expected[k] for k in ("slope", "bias", "r2")], rel=1e-6
    )
    assert found.pairs == expected["pairs_kept"]
    np.testing.assert_allclose(found.aline_s, expected["aline_s_accuracy_normcdf"], rtol=1e-6)
    np.testing.assert_allclose(
        norm.ppf(found.aline_s), expected["aline_s_returned_probit_scale"], rtol=1e-6
    )
    np.testing.assert_allclose(found.aline_d, expected["aline_d_accuracy"], rtol=1e-6)


def test_aline_needs_three_models_that_differ() -> None:
    same = np.zeros((4, 50), dtype=int)
    with pytest.raises(HoldfastError, match="at least 3 models"):
        ag.aline(same[:2], same[0], same[:2])
    for most in (None, 0.95):
        with pytest.raises(HoldfastError, match="models that differ"):
            ag.aline(same, same[0], same, most_agreement=most)


def test_aline_takes_all_pairs_unless_told() -> None:
    """Saxena et al. 2024, eq. 2: also those that agree on nearly everything."""
    random = np.random.default_rng(0)
    labels = random.integers(5, size=2000)
    wrong = random.random((4, 2000)) < np.array([0.01, 0.02, 0.03, 0.04])[:, None]
    inside = np.where(wrong, 9, labels)
    outside = np.where(random.random((4, 2000)) < 0.2, 9, inside)
    assert ag.agreements(inside).min() > 0.95 - 0.02
    found = ag.aline(inside, labels, outside)
    assert found.pairs == 6
    assert np.isfinite([*found.aline_s, *found.aline_d]).all()
    with pytest.raises(HoldfastError, match="pairs of 4 models"):
        ag.aline(inside, labels, outside, most_agreement=0.95)


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


def test_naive_agreement() -> None:
    classes = np.array([[0, 1, 2, 3], [0, 1, 2, 0], [0, 0, 0, 0]])
    np.testing.assert_allclose(ag.naive_agreement(classes), [0.5, 0.625, 0.375])


# ---- weighted flips -----------------------------------------------------------------------------


def test_flips_and_published_functions() -> None:
    golden = json.loads((FOLDER / "entropy_enigma_flips.json").read_text())
    for table in golden["tables"].values():
        arrays = (np.array(table[k]) for k in ("pred_start", "pred_end", "conf_start"))
        start, end, confidence = arrays
        share = table["n"] / 1000
        weighted = share * flips(start, end, confidence)
        unweighted = share * flips(start, end, confidence, weighted=False)
        assert weighted == pytest.approx(table["weighted_flips"], abs=1e-9)
        assert unweighted == pytest.approx(table["unweighted_flips"], abs=1e-9)
    for key, name in (
        ("weighted_deg2", "resnet50"),
        ("unweighted_deg1", "resnet50-unweighted-linear"),
    ):
        percent = [100 * PUBLISHED[name](count) for count in golden["f_grid"]["flips"]]
        # The paper clips, the official code does not.
        np.testing.assert_allclose(percent, np.clip(golden["f_grid"][key], 0, 100), atol=1e-9)


def test_flips_count_per_thousand() -> None:
    start, end = np.zeros(100), np.r_[np.ones(25), np.zeros(75)]
    assert flips(start, end, np.arange(100), weighted=False) == 250
    assert flips(start, end, np.arange(100)) == pytest.approx(10 * 26 * 25 / 2 / 100)


def test_fit_recovers_a_polynomial(tmp_path: Path) -> None:
    x = np.array([0.0, 100, 300, 500])
    f = fit(np.stack([x, 80 - 0.1 * x - 1e-5 * x**2], 1), 2, False, 7, stream="s")
    assert f.coefficients == pytest.approx((-1e-5, -0.1, 80))
    f.save(tmp_path / "f.json")
    again = FlipFunction.load(tmp_path / "f.json")
    assert again(200) == pytest.approx(0.596)
    assert again.provenance["stream"] == "s"
    for text in ("{", "{}", "[]"):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(HoldfastError, match=r"bad\.json does not contain an f"):
            FlipFunction.load(tmp_path / "bad.json")
    with pytest.raises(HoldfastError, match="cannot be written"):
        f.save(tmp_path / "bad.json" / "f.json")
    with pytest.raises(HoldfastError, match="degree 2"):
        fit(np.array([[1, 2], [1, 3], [2, 2]]), 2, True, 7)


def tent() -> Tent:
    torch.manual_seed(0)
    return Tent(tiny_net(), lambda params: torch.optim.SGD(params, lr=1.0, momentum=0.9))


def by_hand(held: torch.Tensor, steps: int) -> dict[str, float]:
    """The flips of Tent after that many steps, with two models side by side."""
    source, adapted = tent(), tent()
    for images in IMAGES[:steps]:
        adapted.adapt(images)
    groups = [(source.predict(x).softmax(1), adapted.predict(x)) for x in held.split(10)]
    start, end = (torch.cat(part) for part in zip(*groups, strict=True))
    arrays = start.argmax(1).numpy(), end.argmax(1).numpy(), start.amax(1).numpy()
    assert (arrays[0] != arrays[1]).sum() >= 2
    return {"flips": flips(*arrays), "unweighted": flips(*arrays, weighted=False)}


@pytest.mark.parametrize("stop", [5, 9])
def test_flips_of_a_run(stop: int) -> None:
    """20 images fill three batches: the first predictions come late, but with the first weights."""
    watch = WeightedFlips(None, held=20, stop=stop, at_once=10)
    trainer = plain_trainer(callbacks=[watch])
    (metrics,) = trainer.test(tent(), TensorStream(IMAGES), verbose=False)
    expected = by_hand(IMAGES.flatten(0, 1)[:20], stop)
    assert metrics["WeightedFlips_flips"] == pytest.approx(expected["flips"])
    assert metrics["WeightedFlips_unweighted"] == pytest.approx(expected["unweighted"])


def test_each_reset_begins_anew() -> None:
    torch.manual_seed(0)
    sgd = lambda params: torch.optim.SGD(params, lr=0.05)  # noqa: E731
    method = RDumb(tiny_net(), sgd, 1.0, 2.0, every=6)
    watch = WeightedFlips("resnet50", held=16, stop=4, any_backbone=True, at_once=8)
    answers = []
    for images in IMAGES:
        answers.append(watch.watch(method, images))
        method.adapt(images)
    assert [step for step, answer in enumerate(answers) if answer is not None] == [4, 10]


def test_flips_are_counted_before_a_reset_that_is_due() -> None:
    """RDumb's reset and the paper's stop both come after 1,000 steps, as may the stream's end."""

    def made(every: int) -> tuple[RDumb, WeightedFlips]:
        torch.manual_seed(0)
        sgd = lambda params: torch.optim.SGD(params, lr=1.0, momentum=0.9)  # noqa: E731
        return RDumb(tiny_net(), sgd, 1.0, 2.0, every), WeightedFlips(None, 16, 4, at_once=8)

    method, watch = made(every=4)
    for images in IMAGES[:5]:
        watch.watch(method, images)
        method.adapt(images)
    assert method.reset_count == 1
    assert watch.logged["_unweighted"] > 0
    other, late = made(every=9)
    plain_trainer(callbacks=[late]).test(other, TensorStream(IMAGES[:4]), verbose=False)
    assert late.logged == watch.logged


def test_a_model_that_does_not_adapt_has_no_flips_to_speak_of() -> None:
    watch = WeightedFlips("resnet50", held=16, stop=4, any_backbone=True, at_once=8)
    trainer = plain_trainer(callbacks=[watch])
    (metrics,) = trainer.test(Source(tiny_net()), TensorStream(IMAGES), verbose=False)
    assert metrics["WeightedFlips_flips"] == 0
    assert "WeightedFlips" not in metrics


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(Tent, {}), (RDumb, {"entropy_factor": 1.0, "redundancy": 2.0, "every": 7})],
)
def test_limited_data_leaves_the_run_alone(kind: Any, settings: dict[str, Any]) -> None:
    def logits(*watchers: WeightedFlips) -> tuple[torch.Tensor, dict[str, Any]]:
        torch.manual_seed(0)
        method = kind(tiny_net(), lambda params: torch.optim.Adam(params, lr=0.2), **settings)
        scored = []
        for images in IMAGES:
            for watcher in watchers:
                watcher.watch(method, images)
            scored.append(method.adapt(images))
        return torch.stack(scored), method.get_extra_state()

    watch = WeightedFlips(None, held=20, stop=6, data=24, at_once=10)
    plain, state = logits()
    watched, watched_state = logits(watch)
    assert torch.equal(plain, watched)
    assert state["counters"] == watched_state["counters"]
    assert watch.logged["_unweighted"] > 0


def test_a_published_f_speaks_for_its_network_only() -> None:
    with pytest.raises(HoldfastError, match="any_backbone"):
        plain_trainer(callbacks=[WeightedFlips()]).test(tent(), TensorStream(IMAGES), verbose=False)
    with pytest.raises(HoldfastError, match="Unknown f 'resnet51'"):
        WeightedFlips("resnet51")


@pytest.mark.parametrize("cut", [1, 4])
def test_flips_continue_from_a_checkpoint(tmp_path: Path, cut: int) -> None:
    method, watch = tent(), WeightedFlips(None, held=20, stop=9, at_once=10)
    for step, images in enumerate(IMAGES):
        if step == cut:
            torch.save(watch.state_dict(), tmp_path / "state")
            watch = WeightedFlips(None, held=20, stop=9, at_once=10)
            watch.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
        watch.watch(method, images)
        method.adapt(images)
    assert watch.logged["_flips"] == pytest.approx(by_hand(IMAGES.flatten(0, 1)[:20], 9)["flips"])


# ---- the callback that collects -----------------------------------------------------------------


class Validation:
    """Forty images and their labels."""

    images = torch.randint(
        0, 256, (40, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(2)
    )

    def __len__(self) -> int:
        return 40

    def load(self, index: torch.Tensor, seed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.images[index], index % 5


class Sorted(Validation):
    """As in folders: class after class, which the colour tells."""

    def load(self, index: torch.Tensor, seed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        labels = index // 8
        return (labels[:, None, None, None] * 50 * torch.ones(3, 8, 8)).to(torch.uint8), labels


def test_validation_images_are_of_all_classes(tmp_path: Path) -> None:
    collect = DatasetEstimates(Sorted(), images=70, validation_images=20)
    valid = SrcValid(Sorted(), images=20)
    trainer = plain_trainer(callbacks=[collect, valid, RunRecord(tmp_path)])
    trainer.test(Source(tiny_net()), TensorStream(IMAGES), verbose=False)
    assert len(set(np.load(tmp_path / "outputs.npz")["val_labels"])) == 5
    assert valid._held is not None
    assert len(set(valid._held[1].tolist())) == 5


class Damaged(Validation):
    """A source of which every other image cannot be read."""

    def load(self, index: torch.Tensor, seed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        images, labels = super().load(index, seed)
        return images * (index % 2)[:, None, None, None], torch.where(index % 2 == 1, labels, -1)


class Odd(Validation):
    """Only those that can."""

    def __len__(self) -> int:
        return 20

    def load(self, index: torch.Tensor, seed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return super().load(2 * index + 1, seed)


def test_validation_images_that_cannot_be_read_are_left_out() -> None:
    answers = []
    for source in (Damaged(), Odd()):
        torch.manual_seed(0)
        collect, valid = DatasetEstimates(source, images=70), SrcValid(source)
        trainer = plain_trainer(callbacks=[collect, valid])
        labels = torch.full((12, 8), -1)
        (metrics,) = trainer.test(Source(tiny_net()), TensorStream(IMAGES, labels), verbose=False)
        assert "collected_accuracy" not in metrics
        answers.append({**metrics, "SrcValid": valid.latest})
    assert answers[0] == pytest.approx(answers[1], rel=1e-4)


def test_dataset_estimates_refuse_what_they_cannot_use() -> None:
    for source, images in ((Validation(), 0), (Validation.images[:0], 9)):
        with pytest.raises(HoldfastError, match="at least 1"):
            DatasetEstimates(source, images)
    for settings, words in (
        ({"images": None}, "Pass DatasetEstimates a number"),
        ({}, "has labels such as 4"),
    ):
        trainer = plain_trainer(callbacks=[DatasetEstimates(Validation(), **settings)])
        with pytest.raises(HoldfastError, match=words):
            trainer.test(Source(tiny_net(4)), TensorStream(IMAGES), verbose=False)


@pytest.mark.filterwarnings("ignore:DatasetEstimates has no estimate")
def test_a_broken_model_has_no_estimates() -> None:
    trainer = plain_trainer(callbacks=[DatasetEstimates(Validation())])
    broken = TensorStream(IMAGES * torch.nan)
    (metrics,) = trainer.test(Source(tiny_net()), broken, verbose=False)
    assert "COT" not in metrics
    assert "accuracy" in metrics


def test_dataset_estimates(tmp_path: Path) -> None:
    torch.manual_seed(0)
    method: Any = Source(tiny_net())
    labels = torch.arange(96).view(12, 8) % 5
    callbacks = [DatasetEstimates(Validation(), images=70), RunRecord(tmp_path)]
    trainer = plain_trainer(callbacks=callbacks)
    (metrics,) = trainer.test(method, TensorStream(IMAGES, labels), verbose=False)
    logits = method.predict(IMAGES.flatten(0, 1)[:70])
    right = (logits.argmax(1) == labels.flatten()[:70]).double().mean()
    assert metrics["collected_accuracy"] == pytest.approx(float(right))
    assert metrics["AC"] == pytest.approx(float(logits.softmax(1).amax(1).mean()), rel=1e-5)
    names = ("AC", "DoC", "ATC-MC", "ATC-NE", "COT", "COTT")
    assert all(f"{name}_T" in metrics for name in names)
    assert metrics["AC_T"] != metrics["AC"]
    outputs = np.load(tmp_path / "outputs.npz")
    assert outputs["classes"].tolist() == logits.argmax(1).tolist()
    assert len(outputs["val_classes"]) == 40
