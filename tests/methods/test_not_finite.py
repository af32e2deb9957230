"""A pixel, loss, gradient or logit that is not finite is outlived, by every method, estimator and reset."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from common import TensorStream, plain_trainer, tiny_net, trainer_test
from lightning.pytorch import Callback
from table import TABLE, quiet
from torch import Tensor
from torch.optim import SGD, Adam
from watchers import ESTIMATORS, RESETS, ruined

from holdfast import HoldfastError
from holdfast import callbacks as cb
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.papers.aetta.passes import DropoutCalibration
from holdfast.datamodules import Digits
from holdfast.methods import Source, Tent, TTAMethod, testing
from holdfast.methods.base import NOT_FINITE_LIMIT
from holdfast.run_folder import ROWS, read_rows

pytestmark = [
    quiet,
    pytest.mark.filterwarnings("ignore:a step was not finite", "ignore:Some images are not finite"),
]
BAD = 3  # the batch with the bad pixel


@pytest.mark.parametrize("optimizer", [SGD, Adam])
@pytest.mark.parametrize("bad", ["loss", "gradient", "memory"])
def test_a_loss_or_gradient_that_is_not_finite_changes_nothing(bad: str, optimizer: Any) -> None:
    class Stumbling(Tent):
        """Its third loss is NaN, or has a gradient that is not, or one whose square is not."""

        def loss(self, logits: Tensor, images: Tensor) -> Tensor:
            loss = super().loss(logits, images)
            if self.step_count != 2:
                return loss
            if bad == "memory":
                return loss * 1e25
            return loss * math.nan if bad == "loss" else loss + (0 * loss).sqrt()

    lost = optimizer is Adam or bad != "memory"  # only Adam remembers squares
    net, batches = tiny_net(), testing.image_batches(5)
    method, other = (kind(net, lambda p: optimizer(p, lr=0.01)) for kind in (Stumbling, Tent))
    for number, images in enumerate(batches):
        before = testing.tensors(method)
        assert method.adapt(images).isfinite().all()
        if number == 2 and lost:
            testing.pass_over(other)
            assert method.trace == {"not_finite": 1}
            assert all(torch.equal(t, before[key]) for key, t in testing.tensors(method).items())
        elif lost:
            other.adapt(images)
            assert "not_finite" not in method.trace
    if lost:
        assert testing.same(method.get_extra_state(), other.get_extra_state())
    assert all(tensor.isfinite().all() for tensor in testing.tensors(method).values())


@pytest.mark.parametrize("name", ["Tent", "EATA", "RDumb", "CoTTA", "RoTTA"])
def test_several_in_a_row_reset_also_after_a_restart(name: str) -> None:
    net, batches = tiny_net(), testing.image_batches(4)
    method, resumed = TABLE[name].make(net), TABLE[name].make(net)
    bad = [ruined(batches[0])] * NOT_FINITE_LIMIT
    for images in (*batches[:2], *bad[:-2]):
        method.adapt(images)
    resumed.load_state_dict(testing.io_copy(method.state_dict()))
    for images in bad[-2:]:
        resumed.adapt(images)
    assert resumed.reset_count == 0
    fresh = TABLE[name].make(net)
    fresh.fit(batches[:1])
    for images in batches[2:]:
        logits = resumed.adapt(images)
        assert torch.equal(logits, fresh.adapt(images))
    assert (resumed.reset_count, resumed.steps_since_reset, resumed.not_finite_in_a_row) == (
        1,
        2,
        0,
    )
    method.adapt(batches[2])
    for images in bad[:-1]:
        method.adapt(images)
    method.adapt(batches[3])
    assert method.reset_count == (name == "RDumb"), "not in a row; RDumb resets at step 10"


# ---- those who watch ------------------------------------------------------------------------------


# With each reset another method: that all outlive bad images is checked in test_promises.
PAIRS = [*zip(["Tent", "CoTTA", "EATA", "RoTTA", "ROID"], RESETS, strict=True)]


@pytest.mark.filterwarnings("ignore:.*replaces the")
@pytest.mark.parametrize(("name", "reset"), PAIRS)
def test_every_estimator_and_reset(name: str, reset: str) -> None:
    method, estimators = TABLE[name].make(tiny_net()), [make() for make in ESTIMATORS.values()]
    flips = cb.WeightedFlips(f=None, held=24, stop=6, at_once=6, any_backbone=True)
    heard = list(ESTIMATORS)[list(TABLE).index(name) % len(ESTIMATORS)]
    watch = cb.Watch(method, [*estimators, flips], RESETS[reset](heard))
    resets = []
    for number, images in enumerate(testing.image_batches(8)):
        watch.step(ruined(images) if number in (0, BAD) else images)
        resets.append(method.reset_count)
        known = [e.latest is not None for e in estimators]
        assert known == [number not in (0, BAD)] * len(estimators)
        assert all(e.not_finite == (number in (0, BAD)) for e in estimators)
    assert all(tensor.isfinite().all() for tensor in testing.tensors(method).values())
    assert method.step_count == 8
    if reset == "Accuracy":
        assert resets == [0, *[1] * 3, *[2] * 4], "the alarm is heard at the next step"
    if reset in ("Stochastic", "Fisher"):
        assert len(flips.predictions[0]) == 24


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimates_are_of_the_images_that_are_finite(name: str) -> None:
    images, watches = (
        testing.image_batches(1)[0],
        [cb.Watch(Tent(tiny_net()), [ESTIMATORS[name]()]) for _ in range(2)],
    )
    torch.manual_seed(3)
    watches[1].method.load_state_dict(watches[0].method.state_dict())
    watches[0].step(testing.spoiled(images))
    watches[1].step(images[[0, 2, 3, 4, 5]])
    estimates = [watch.estimators[0].latest for watch in watches]
    assert estimates[0] == estimates[1] is not None


def test_observers_leave_bad_images_out() -> None:
    data, labels = torch.rand(2, 6, 3, 8, 8), torch.ones(2, 6, dtype=torch.int64)
    data[1] = testing.spoiled(data[1])
    estimates = cb.DatasetEstimates(Digits(), images=12, validation_images=40, adapting=True)
    aetta, statistics = cb.AETTA(passes=2, layers=["2", "5"]), cb.PredictionStatistics()
    calibration = DropoutCalibration()
    trainer = plain_trainer(callbacks=[aetta, calibration, statistics, estimates])
    trainer.test(Tent(tiny_net(10)), datamodule=TensorStream(data, labels), verbose=False)
    assert calibration.sums[0].sum() == 11
    assert statistics.counts[1].sum() == 5
    assert math.isfinite(statistics.details["confidence"])
    assert trainer.callback_metrics["collected_images"] == 11


def test_a_dead_model_is_not_called_right() -> None:
    """Its parameters are NaN, as those of a run of an earlier version may be."""
    method = Tent(tiny_net())
    estimators = [make() for key, make in ESTIMATORS.items() if key != "Argmax"]
    for estimator in estimators:
        estimator.watch(method, torch.rand(4, 3, 8, 8))
    for parameter, _ in method.parameters_with_source():
        parameter.data.fill_(math.nan)
    for estimator in estimators:
        assert estimator.watch(method, torch.rand(4, 3, 8, 8)) is None
        assert estimator.not_finite


# ---- what is written ------------------------------------------------------------------------------


def strict(text: str) -> Any:
    """JSON as other readers take it."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


class Strange(Tent):
    """Traces what is not finite without a reason to undo the step."""

    def loss(self, logits: Tensor, images: Tensor) -> Tensor:
        self.trace["odd"] = math.inf
        return super().loss(logits, images)


def test_rows_and_report(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    data = torch.rand(8, 6, 3, 8, 8)
    data[1], data[BAD] = testing.spoiled(data[1]), ruined(data[BAD])
    for name, kind in (("tent", Strange), ("source", Source)):
        record, watch = cb.RunRecord(tmp_path / name, every=2), [cb.GDE(), cb.SoftmaxScore()]
        method = kind(tiny_net())
        stream = TensorStream(data if kind is Strange else torch.rand(8, 6, 3, 8, 8))
        plain_trainer(callbacks=[record, cb.AccuracyReset("GDE"), *watch]).test(
            method, datamodule=stream, verbose=False
        )
        for file in (tmp_path / name).iterdir():
            if file.suffix == ".json":
                strict(file.read_text())
        rows = [strict(line) for line in (tmp_path / name / ROWS).read_text().splitlines()]
        assert [row["step"] for row in rows] == list(range(8))
        if kind is Source:
            assert not any("not_finite" in row for row in rows)
    rows = read_rows(tmp_path / "tent")
    assert [row.get("not_finite", 0) for row in rows] == [0] * BAD + [1] + [0] * (7 - BAD)
    assert [row.get("not_finite_images", 0) for row in rows] == [0, 1, 0, 6, 0, 0, 0, 0]
    assert [row["reset"] for row in rows] == [0] * (BAD + 1) + [1] + [0] * (6 - BAD)
    assert ["GDE" in row for row in rows] == [number != BAD for number in range(8)]
    assert rows[0]["odd"] is None
    assert main(["report", str(tmp_path), "--json"]) == 0
    runs = strict(capsys.readouterr().out)["runs"]
    assert {run["method"]: run["not_finite"] for run in runs} == {"Strange": 1, "Source": 0}
    assert {run["method"]: run["not_finite_images"] for run in runs} == {"Strange": 7, "Source": 0}
    assert main(["report", str(tmp_path)]) == 0
    assert "not finite" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "source")]) == 0
    assert "not finite" not in capsys.readouterr().out


# ---- a loop of one's own --------------------------------------------------------------------------


class Seen(Callback):
    """Logits, estimates and resets of every step in a Trainer."""

    def __init__(self, *estimators: cb.AccuracyEstimator) -> None:
        self.estimators = estimators
        self.steps: list[Any] = []

    def on_test_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:
        answers = [e.latest for e in self.estimators]
        self.steps.append((outputs["logits"], answers, pl_module.reset_count))


@pytest.mark.filterwarnings("ignore:.*replaces the")
@pytest.mark.parametrize(("name", "reset"), PAIRS)
def test_a_watch_is_what_a_trainer_does(name: str, reset: str) -> None:
    """Also when it is cut in the middle; with a batch that is not finite."""
    net, batches = tiny_net(), testing.image_batches(9)
    batches[BAD] = testing.spoiled(batches[BAD])

    def parts() -> tuple[TTAMethod, list[cb.AccuracyEstimator], cb.Recovery]:
        method = TABLE[name].make(net)
        method.fit(batches[:1])
        estimators = [cb.AETTA(passes=2, layers=["2", "5"]), cb.GDE(), cb.SoftmaxScore()]
        own = cb.AccuracyReset("GDE", floor=0.9) if reset == "Accuracy" else RESETS[reset]("GDE")
        return method, estimators, own

    method, estimators, recovery = parts()
    seen = Seen(*estimators)
    trainer_test(method, TensorStream(torch.stack(batches)), *estimators, recovery, seen)
    watch = cb.Watch(*parts())
    for number, (images, expected) in enumerate(zip(batches, seen.steps, strict=True)):
        if number == BAD + 1:
            state, watch = testing.io_copy(watch.state_dict()), cb.Watch(*parts())
            watch.load_state_dict(state)
        logits = watch.step(images)
        assert torch.equal(logits.nan_to_num(), expected[0].nan_to_num())
        assert [e.latest for e in watch.estimators] == expected[1]
        assert watch.method.reset_count == expected[2]
    assert not testing.unlike(watch.method, method, ("counters", "activity"))


def test_a_watch_refuses_what_it_cannot_do() -> None:
    with pytest.raises(HoldfastError, match="SegmentReset needs to know"):
        cb.Watch(Tent(tiny_net()), reset=cb.SegmentReset())
    with pytest.raises(HoldfastError, match=r"uses AETTA.*SoftmaxScore"):
        cb.Watch(Tent(tiny_net()), [cb.SoftmaxScore()], cb.AccuracyReset())
