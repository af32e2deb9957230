"""Estimators do not change a run, and resets happen when they should."""

from typing import Any

import pytest
import torch
from conftest import TensorStream, plain_trainer, tiny_net
from lightning.pytorch import Callback

from holdfast.callbacks import AccuracyEstimator, Adapting, PeriodicReset, SoftmaxScore
from holdfast.methods import EATA, ETA, BNAdapt, RDumb, Source, Tent, TTAMethod

IMAGES = torch.rand(12, 8, 3, 8, 8, generator=torch.Generator().manual_seed(1))
METHODS = [Source, BNAdapt, Tent, ETA, EATA, RDumb]


class Logits(Callback):
    """Collects the scored logits."""

    def __init__(self) -> None:
        self.all: list[torch.Tensor] = []

    def on_test_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:
        self.all.append(outputs["logits"])


class Predictions(AccuracyEstimator):
    """Collects what an estimator sees before each step, and draws numbers, as one of a user's may."""

    def __init__(self) -> None:
        self.all: list[torch.Tensor] = []

    def estimate(self, method: Adapting, images: torch.Tensor) -> None:
        torch.rand(3)
        self.all.append(method.predict(images))


def scored(method: TTAMethod, *callbacks: Callback) -> torch.Tensor:
    logits = Logits()
    plain_trainer(callbacks=[*callbacks, logits]).test(method, TensorStream(IMAGES), verbose=False)
    return torch.stack(logits.all)


def fast(kind: Any, **kwargs: Any) -> TTAMethod:
    """A method with steps large enough to show every difference."""
    torch.manual_seed(0)
    if kind not in (Source, BNAdapt):
        kwargs["optimizer"] = lambda params: torch.optim.SGD(params, lr=0.5, momentum=0.9)
    if issubclass(kind, ETA):
        kwargs |= {"entropy_factor": 1.0, "redundancy": 2.0}
    return kind(tiny_net(), **kwargs)


@pytest.mark.parametrize("kind", METHODS)
def test_estimators_do_not_change_the_run(kind: Any) -> None:
    method, watched = fast(kind), fast(kind)
    assert isinstance(method, Adapting)
    torch.manual_seed(1)
    plain, random = scored(method), torch.get_rng_state()
    torch.manual_seed(1)
    assert torch.equal(plain, scored(watched, SoftmaxScore(), Predictions()))
    assert torch.equal(torch.get_rng_state(), random)
    for ours, other in zip(method.parameters(), watched.parameters(), strict=True):
        assert torch.equal(ours, other)


@pytest.mark.parametrize("kind", METHODS)
def test_estimators_see_the_model_that_is_scored(kind: Any) -> None:
    """Also when a reset, built in or attached, is due before the step."""
    extra = {"every": 5} if kind is RDumb else {}
    seen = Predictions()
    logits = scored(fast(kind, **extra), seen, PeriodicReset(4))
    torch.testing.assert_close(torch.stack(seen.all), logits)


def test_rdumb_is_eta_with_a_periodic_reset() -> None:
    rdumb, eta = fast(RDumb, every=5), fast(ETA)
    logits = scored(rdumb)
    assert torch.equal(logits, scored(eta, PeriodicReset(5)))
    assert rdumb.reset_count == eta.reset_count == 2
    assert not torch.equal(logits, scored(fast(ETA)))
    bare = fast(RDumb, every=5)
    assert torch.equal(logits, torch.stack([bare.adapt(images) for images in IMAGES]))


def test_episodic_reset_forgets_every_batch() -> None:
    logits = scored(fast(Tent), PeriodicReset(1))
    torch.testing.assert_close(logits, scored(fast(BNAdapt)))


def test_softmax_score_is_the_mean_confidence() -> None:
    score = SoftmaxScore(temperature=2.0)
    method = fast(Tent)
    expected = (method.predict(IMAGES[0]) / 2).softmax(1).amax(1).mean()
    assert score.estimate(method, IMAGES[0]) == expected
