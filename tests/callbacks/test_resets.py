"""Resets and restores: their rules equal the official sequences, and they work with every method."""

import json
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from common import GOLDEN, TensorStream, plain_trainer, tiny_net, trainer_test
from lightning.pytorch import Callback, LightningModule
from scripted import STEPS, Script, Scripted, Watch, stream
from torch import nn
from torch.optim import SGD

from holdfast import HoldfastError
from holdfast import callbacks as cb
from holdfast.callbacks.recovery import linear_quantile
from holdfast.methods import ETA, SAR, BNAdapt, CoTTA, RDumb, RoTTA, Tent, TTAMethod

AETTA = GOLDEN / "aetta"


@pytest.mark.parametrize("name", json.loads((AETTA / "reset_rule.json").read_text()))
def test_accuracy_reset_equals_the_official_rule(name: str) -> None:
    golden = json.loads((AETTA / "reset_rule.json").read_text())[name]
    script = Script()
    reset, lengths, resets = cb.AccuracyReset(script), [], []
    for estimate in golden["estimates"]:
        script.latest = estimate / 100
        resets.append(script.step(reset))
        lengths.append(0 if resets[-1] else len(reset.raised.memory))
    assert resets == [bool(r) for r in golden["resets"]]
    assert lengths == golden["memory_len_after"]


def test_accuracy_reset_passes_over_batches_without_an_estimate() -> None:
    script, resets = Script(), []
    reset = cb.AccuracyReset(script)
    for script.latest in [0.6] * 5 + [None] * 20 + [0.5] * 5:
        resets.append(script.step(reset))
    assert resets == [False] * 29 + [True]


def test_mrs_equals_the_official_rule() -> None:
    golden = json.loads((AETTA / "sar_reset_rule.json").read_text())
    script, reset = Script(), cb.MRS(keep_average=True)
    columns = (golden[key] for key in ("losses", "resets", "ema"))
    for loss, expected, average in zip(*columns, strict=True):
        script.trace = {"loss": float("nan") if loss is None else loss}
        assert script.step(reset) == bool(expected)
        assert reset.average == average


def test_mrs_begins_anew_after_a_reset() -> None:
    script, reset = Script(), cb.MRS()
    script.trace = {"loss": 0.1}
    assert script.step(reset)
    script.trace = {"loss": 0.3}
    assert not script.step(reset)
    assert reset.average == 0.3


def test_quantile_and_fisher_restore_equal_the_official_ones() -> None:
    golden = np.load(AETTA / "petal_quantile.npz")
    for key in golden:
        group, _, q = key.partition(".q")
        if q:
            squares = torch.from_numpy(golden[f"{group}.grad"]) ** 2
            threshold = linear_quantile(squares, float(q))
            assert threshold.item() == pytest.approx(float(golden[key]), rel=1e-6)
            assert torch.equal(squares < threshold, torch.from_numpy(golden[f"{group}.mask{q}"]))
    golden = np.load(AETTA / "petal_restore.npz")
    names = [key.removeprefix("source.") for key in golden if key.startswith("source.")]
    params = [nn.Parameter(torch.from_numpy(golden[f"current.{name}"])) for name in names]
    for name, parameter in zip(names, params, strict=True):
        parameter.grad = torch.from_numpy(golden[f"grad.{name}"])
    sources = [torch.from_numpy(golden[f"source.{name}"]) for name in names]
    method: Any = SimpleNamespace(
        trace={"loss": 1.0}, parameters_with_source=lambda: iter(zip(params, sources, strict=True))
    )
    cb.FisherRestore(float(golden["perc"])).after_step(method)
    for name, parameter in zip(names, params, strict=True):
        assert torch.equal(parameter.detach(), torch.from_numpy(golden[f"after.{name}"])), name


# ---- in a Trainer ---------------------------------------------------------------------------------


def fast_sgd(params: Any) -> SGD:
    return SGD(params, lr=0.05, momentum=0.9)


def run(method: TTAMethod, *callbacks: Callback, data: TensorStream | None = None) -> list[int]:
    watch = Watch()
    trainer_test(method, data or stream(), watch, *callbacks)
    return watch.resets


def test_segment_reset() -> None:
    data = stream([3, 3, 3, 5, 5, 3, 3, 3, 3, 3, 3, 4])
    data.batches[3].segment[0] = 3  # a batch that spans two segments counts as one of the new
    assert run(Tent(tiny_net()), cb.SegmentReset(), data=data) == [0] * 3 + [1] * 2 + [2] * 6 + [3]


def test_accuracy_reset_listens_to_the_estimator_of_each_run() -> None:
    reset = cb.AccuracyReset("Scripted")
    assert run(Tent(tiny_net()), Scripted(*[0.5] * STEPS), reset)[-1] == 0
    assert run(Tent(tiny_net()), Scripted(*[0.1] * STEPS), reset)[-1] > 0
    assert "estimator='Scripted'" in repr(reset)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_callbacks_may_come_in_any_order(order: tuple[int, ...]) -> None:
    estimator = Scripted(0.5, 0.5, 0.1, *[0.5] * 9)
    listed = estimator, cb.PeriodicReset(5), cb.AccuracyReset("Scripted")
    resets = run(Tent(tiny_net()), *(listed[k] for k in order))
    assert resets == [0] * 3 + [1] * 2 + [2] * 5 + [3] * 2


class Predicting(Script):
    """Its steps bring batches of given logits."""

    def play(self, reset: cb.Reset, *batches: torch.Tensor) -> list[bool]:
        resets = []
        for logits in batches:
            self.last_step = torch.zeros(len(logits), 3, 1, 1), logits
            resets.append(self.step(reset))
        return resets

    def source_logits(self, images: torch.Tensor) -> torch.Tensor:
        """A network that predicts the first class for all images."""
        return torch.eye(3)[torch.zeros(len(images), dtype=torch.int64)]

    def reset(self, *_: Any) -> None: ...


def certain(factor: float, *classes: int) -> torch.Tensor:
    return factor * torch.eye(3)[list(classes)]


def test_a_jump_of_entropy_resets() -> None:
    steady, jump = certain(1.0, 0, 1, 2), certain(9.0, 0, 1, 2)
    rule = {"warm_up": 2, "cool_down": 3}
    played = Predicting().play(cb.EntropyDrift(**rule), *[steady] * 8, jump)
    assert played == [False] * 8 + [True]
    reset = cb.EntropyDrift(**rule)
    assert not any(Predicting().play(reset, steady, steady, steady, jump))  # still cooling down
    # By hand: mean x, variance 0.6 * 1e-6 + 0.4 * (y - x)^2.
    reset, script = cb.EntropyDrift(warm_up=0, cool_down=0), Predicting()
    script.play(reset, steady, certain(1.1, 0, 1, 2))
    x, y = (reset.statistic(certain(f, 0, 1, 2)) for f in (1.0, 1.1))
    variance = 0.6e-6 + 0.4 * (y - x) ** 2
    assert reset.z == pytest.approx(abs(y - x) / (np.sqrt(variance + 1e-6) + 1e-6))
    assert reset.mean == pytest.approx(0.75 * x + 0.25 * y)


def test_a_jump_of_the_mean_prediction_resets() -> None:
    balanced, one = certain(9.0, 0, 1, 2), certain(9.0, 0, 0, 0)
    # Their entropies are alike.
    assert Predicting().play(cb.KLDrift(cool_down=2), *[balanced] * 8, one) == [False] * 8 + [True]
    assert not any(Predicting().play(cb.EntropyDrift(cool_down=2), *[balanced] * 8, one))


def test_disagreement_with_the_source_resets() -> None:
    same, half = certain(1.0, 0, 0), certain(1.0, 0, 1)
    reset = cb.DisagreementReset(0.07)
    assert Predicting().play(reset, same, half, half, same) == [False, False, True, False]
    assert reset.average == 0


def test_a_soft_reset_goes_a_part_of_the_way() -> None:
    method, reset = Tent(tiny_net(), fast_sgd), cb.EntropyDrift(soft=0.25)
    method.adapt(torch.rand(6, 3, 8, 8))
    before = [(p.detach().clone(), source.clone()) for p, source in method.parameters_with_source()]
    reset.z = 2.0
    reset.before_step(method)
    assert method.reset_count == 1
    for (p, source), (now, _) in zip(before, method.parameters_with_source(), strict=True):
        torch.testing.assert_close(now, 0.75 * p + 0.25 * source)
    assert not method.optimizer.state


def test_asr_resets_the_layers_near_the_output() -> None:
    method = Tent(tiny_net(), fast_sgd, recovery=cb.ASR(start=1.0, keep=0.5, selectivity=0))
    first, *others = torch.rand(4, 6, 3, 8, 8)
    method.adapt(first)
    adapted = [p.detach().clone() for p, _ in method.parameters_with_source()]
    method.recover()
    pairs = list(method.parameters_with_source())
    assert method.reset_count == 1
    assert all(torch.equal(p, old) for (p, _), old in zip(pairs[:2], adapted, strict=False))
    assert all(torch.equal(p, source) for p, source in pairs[2:])
    assert any(not torch.equal(p, source) for p, source in pairs[:2])
    for images in others:
        method.adapt(images)
    assert method.recovery.fisher
    method.reset()  # by someone else: all is forgotten
    method.recover()
    assert (method.recovery.fisher, method.recovery.weight, method.recovery.sums) == ([], 0, [])
    with pytest.raises(HoldfastError, match="anchor=True, but Tent"):
        cb.ASR(anchor=True).before_step(method)


def test_mrs_with_a_method_of_another_paper() -> None:
    assert run(Tent(tiny_net()), cb.MRS(floor=9.0)) == list(range(STEPS))
    assert run(BNAdapt(tiny_net()), cb.MRS(floor=9.0)) == [0] * STEPS  # it has no loss


def test_stochastic_restore() -> None:
    for p, least, most in ((1.0, 1, 1), (0.5, 0.2, 0.8)):
        method = Tent(tiny_net(), fast_sgd)
        run(method, cb.StochasticRestore(p))
        pairs = method.parameters_with_source()
        same = torch.cat([(own == source).flatten() for own, source in pairs])
        assert least <= same.float().mean() <= most
        assert least <= float(method.trace["restored"]) / len(same) <= most


def test_restores_draw_anew_in_each_step_and_alike_in_each_run() -> None:
    def masks(method: TTAMethod) -> torch.Tensor:
        return torch.cat([mask.flatten() for mask in cb.StochasticRestore(0.5).masks(method)])

    method, other = Tent(tiny_net()), Tent(tiny_net())
    first = masks(method)
    assert torch.equal(first, masks(other))
    method.adapt(torch.rand(4, 3, 8, 8))
    assert not torch.equal(first, masks(method))
    other.seed += 1
    assert not torch.equal(first, masks(other))


@pytest.mark.parametrize(("make", "remembered"), [(ETA, "mean_probs"), (RoTTA, "memory")])
def test_a_reset_says_what_it_clears(make: Any, remembered: str) -> None:
    """Weights and optimizer always; what a method remembers besides only by default."""
    for keep in (False, True):
        method = make(tiny_net(), fast_sgd)
        method.adapt(torch.rand(64, 3, 8, 8))
        if make is ETA:
            method.state["mean_probs"] = torch.ones(5)
        before = deepcopy(method.state[remembered])
        cb.PeriodicReset(1, keep_memory=keep).before_step(method)
        assert method.reset_count == 1
        assert all(torch.equal(p, source) for p, source in method.parameters_with_source())
        now = method.state if keep else {remembered: before}
        assert str(now[remembered]) == str(before)
        fresh = str(method.state[remembered]) == str(method.fresh_state()[remembered])
        assert fresh == (not keep)
    assert repr(cb.MRS(keep_memory=True)) == "MRS(floor=0.2, keep_average=False, keep_memory=True)"


# ---- recovery that belongs to a method ------------------------------------------------------------


def test_a_recovery_of_the_trainer_takes_the_place_of_the_methods_own() -> None:
    method = SAR(tiny_net())
    assert isinstance(method.recovery, cb.MRS)
    with pytest.warns(match="PeriodicReset replaces the MRS of SAR"):
        assert run(method, cb.PeriodicReset(4))[-1] == 2
    assert method.recovery is None
    with pytest.warns(match="MRS replaces the StochasticRestore of CoTTA"):
        run(CoTTA(tiny_net()), cb.MRS())
    with pytest.warns(match="PeriodicReset replaces the PeriodicReset of RDumb"):
        assert run(RDumb(tiny_net(), every=3), cb.PeriodicReset(5))[-1] == 2
    assert SAR(tiny_net(), recovery=None).recovery is None


@pytest.mark.filterwarnings("error:.*replaces the.*")
def test_a_recovery_that_a_method_was_given_acts_as_well() -> None:
    method = RDumb(tiny_net(), recovery=cb.PeriodicReset(3))
    assert run(method, cb.PeriodicReset(5))[-1] == 5
    assert method.recovery.every == 3


class Plain(LightningModule):
    """A model that does not adapt."""

    def test_step(self, *_: Any) -> None: ...


def test_a_model_that_does_not_adapt_is_refused() -> None:
    with pytest.raises(HoldfastError, match=r"Plain does not adapt.* TTAMethod"):
        plain_trainer(callbacks=[cb.PeriodicReset()]).test(Plain(), datamodule=stream())


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        (cb.PeriodicReset, {"every": 0}),
        (cb.StochasticRestore, {"p": 2.0}),
        (cb.FisherRestore, {"quantile": -0.1}),
        (cb.AccuracyReset, {"window": 0}),
        (cb.ASR, {"start": 0}),
        (cb.KLDrift, {"soft": 2.0}),
        (cb.EntropyDrift, {"limit": 1.6}),
        (cb.DisagreementReset, {"limit": 1.5}),
    ],
)
def test_nonsense_is_refused(kind: Any, option: dict[str, float]) -> None:
    with pytest.raises(HoldfastError, match=next(iter(option))):
        kind(**option)
