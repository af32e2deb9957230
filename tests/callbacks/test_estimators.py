"""Per-batch estimators agree with the official numbers, and watch without disturbing."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from common import GOLDEN, TensorStream, golden_network, tiny_net, trainer_test
from digit_runs import BATCH, STEPS, fast, flat, run, stream
from torch import Tensor, nn

from holdfast import HoldfastError
from holdfast import callbacks as cb
from holdfast.callbacks.dropout import dropout_rate
from holdfast.callbacks.functional import scores
from holdfast.datamodules import Digits
from holdfast.methods import CoTTA, Source, Tent, TTAMethod
from holdfast.run_folder import read_rows

IMAGES = torch.rand(5, 8, 3, 8, 8, generator=torch.Generator().manual_seed(1))
# ---- the official numbers -----------------------------------------------------------------------


@pytest.mark.parametrize("classes", [10, 100, 200, 1000])
def test_aetta_formula(classes: int) -> None:
    trace = np.load(GOLDEN / "aetta" / f"estimate_K{classes}.npz")
    assert dropout_rate(classes) == trace["default_dropout_rate"]
    average = None
    for batch, logits in enumerate(torch.from_numpy(trace["dropout_logits"]).double()):
        dropped = logits.transpose(0, 1)
        labels = torch.from_numpy(trace["base_logits"][batch]).double().argmax(1)
        match = scores.agreement(labels, dropped.argmax(-1))
        assert match == pytest.approx(trace["est_dropout"][batch], rel=1e-6)
        assert scores.mean_entropy(dropped) == pytest.approx(trace["avg_entropy"][batch], rel=1e-5)
        average = float(1 - match) if average is None else average
        error = scores.weighted_error(*scores.aetta_parts(labels, dropped), classes, alpha=3.0)
        average = scores.smoothed(float(error), average)
        # The official maximal entropies are rounded to four places: 2.3026 for ln 10.
        assert 100 * (1 - average) == pytest.approx(trace["aetta"][batch], rel=1e-5, abs=2e-3)


def test_gde_and_softmax_score() -> None:
    trace = np.load(GOLDEN / "aetta" / "gde_softmax.npz")
    net = nn.Linear(12, 10)
    method, gde, score = Source(net), cb.GDE(), cb.SoftmaxScore()
    linear: Any = method.backbone
    for t, features in enumerate(torch.from_numpy(trace["feats"])):
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(trace["weight"][t]))
            linear.bias.copy_(torch.from_numpy(trace["bias"][t]))
            assert float(gde.estimate(method, features)) == pytest.approx(trace["gde"][t], rel=1e-6)
            expected = trace["softmax_score_T2"][t]
            assert float(score.estimate(method, features)) == pytest.approx(expected, rel=1e-5)


def test_independent_models_adapt_each_by_itself() -> None:
    """Three networks, of which two adapt: the mean over three pairs, batch by batch."""
    networks = []
    for seed in range(3):
        torch.manual_seed(seed)
        networks.append(nn.Sequential(nn.Conv2d(3, 4, 8), nn.BatchNorm2d(4), nn.Flatten()))
    kinds: tuple[type[TTAMethod], ...] = (Source, Tent, Tent)
    alone = [kind(deepcopy(net)) for kind, net in zip(kinds, networks, strict=True)]
    own, *others = (kind(net) for kind, net in zip(kinds, networks, strict=True))
    gde = cb.IndependentGDE(others)
    for images in IMAGES:
        a, b, c = (method.adapt(images).argmax(1) for method in alone)
        expected = torch.stack([a == b, a == c, b == c]).float().mean()
        assert gde.watch(own, images) == pytest.approx(float(expected))
        own.adapt(images)
    with pytest.raises(HoldfastError, match="one or more methods"):
        cb.IndependentGDE([networks[0]])


@pytest.mark.parametrize("file", ["official_1_255", "eps_0.5", "eps_3"])
def test_adv_perturb(file: str) -> None:
    trace = np.load(GOLDEN / "aetta" / f"advperturb_{file}.npz")
    feats = np.load(GOLDEN / "aetta" / "advperturb_official_1_255.npz")["feats"]
    net = golden_network()
    changed = {k.removeprefix("net."): torch.from_numpy(trace[k]) for k in trace if "net." in k}
    net.load_state_dict(changed, strict=False)
    estimator, method = cb.AdvPerturb(golden_network(), float(trace["eps"])), Source(net)
    assert estimator.source is not None
    for batch, images in enumerate(torch.from_numpy(feats).float()):
        assert estimator.watch(method, images) == trace["est"][batch]
    first = torch.from_numpy(feats[0]).float()
    step = (estimator.attacked(first, estimator.source) - first)[:8].numpy()
    expected = trace["perturbation"][0]
    sure = np.abs(expected) > 0
    assert np.mean(np.abs(step - expected)[sure] < 1e-5) > 0.999


def test_adv_perturb_asks_the_source_in_the_methods_way() -> None:
    """CoTTA's own predictions and those of the source are means over the same number of views."""
    net = tiny_net()
    estimator = cb.AdvPerturb(net)
    for threshold, views in ((0.0, 1), (2.0, 4)):
        method = CoTTA(tiny_net(), threshold=threshold, views=4)
        seen: list[int] = []
        assert estimator.source is not None
        hook = estimator.source.register_forward_hook(
            lambda _, args, out, to=seen: to.append(len(out))
        )
        estimator.watch(method, IMAGES[0])
        hook.remove()
        assert sum(seen) == (1 + views) * len(IMAGES[0])  # the attack looks at it once


# ---- errors -------------------------------------------------------------------------------------


class Constant(cb.AccuracyEstimator):
    """Estimates 0.5, but has no estimate on the second batch."""

    def estimate(self, method: Any, images: Tensor) -> float | None:
        return None if method.step_count == 1 else 0.5


def test_a_row_has_the_error_where_accuracy_and_estimate_are_known(tmp_path: Path) -> None:
    with torch.no_grad():
        labels = Source(tiny_net())(IMAGES.flatten(0, 1)).argmax(1).view(5, 8)
    wrong = (labels + 1) % 5
    for batch, correct in enumerate((8, 0, 6, 4, 3)):
        labels[batch, correct:] = wrong[batch, correct:]
    labels[3], labels[4, 7] = -1, -1
    torch.manual_seed(0)
    trainer_test(
        Source(tiny_net()), TensorStream(IMAGES, labels), Constant(), cb.RunRecord(tmp_path)
    )
    errors = [row.get("Constant_error") for row in read_rows(tmp_path)]
    assert errors == pytest.approx([0.5, None, 0.25, None, 0.5 - 3 / 7])


def test_src_valid_is_an_accuracy() -> None:
    method: Any = Source("digits")
    source = Digits("calibration")
    images, labels = source.load(torch.arange(300), torch.arange(300))
    right = (method.predict(images / 255).argmax(1) == labels).float().mean()
    assert cb.SrcValid(source).watch(method, torch.rand(4, 3, 32, 32)) == right > 0.9


# ---- with resets ----------------------------------------------------------------------------------


class Predictions(cb.AccuracyEstimator):
    """Collects what an estimator sees before each step, and draws numbers, as one of a user's may."""

    def __init__(self) -> None:
        self.all: list[Tensor] = []

    def estimate(self, method: cb.Adapting, images: Tensor) -> None:
        torch.rand(3)
        self.all.append(method.predict(images))


def test_estimators_see_the_model_that_is_scored() -> None:
    """Also when a reset is due before the step; and random numbers that they draw change nothing."""
    seen, plain = Predictions(), run(fast("ETA"), [cb.PeriodicReset(2)])
    watched = run(fast("ETA"), [seen, cb.PeriodicReset(2)])
    torch.testing.assert_close(seen.all, watched[0])
    assert flat(plain[0]) == flat(watched[0])


def test_rdumb_is_eta_with_a_periodic_reset() -> None:
    """In a Trainer and in a bare loop; with a reset after each step, Tent is BNAdapt."""
    rdumb, eta = run(fast("RDumb"), []), run(fast("ETA"), [cb.PeriodicReset(4)])
    assert flat(rdumb[:2]) == flat(eta[:2])
    assert rdumb[1][-1]["resets"] == 1
    assert flat(rdumb[0]) != flat(run(fast("ETA"), [])[0])
    bare, positions = fast("RDumb"), torch.arange(STEPS * BATCH).split(BATCH)
    assert flat(rdumb[0]) == flat([bare.adapt(stream().batch(index).images) for index in positions])
    tent, plain = run(fast("Tent"), [cb.PeriodicReset(1)])[0], run(fast("BNAdapt"), [])[0]
    torch.testing.assert_close(tent, plain)
