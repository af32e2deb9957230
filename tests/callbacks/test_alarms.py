"""Rules for alarms on known cases, and alarms in a Trainer: what they record and whom they
notify."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from common import TensorStream, plain_trainer, tiny_net
from lightning.pytorch import Callback
from scripted import STEPS, Script, Scripted, Watch, stream
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from holdfast import HoldfastError
from holdfast import callbacks as cb
from holdfast.alarms import BelowSource, Collapse, Drop, raised
from holdfast.benchmarks.results.estimators import ONLINE, alarms, judged_alarms
from holdfast.benchmarks.results.runs import Run, collect
from holdfast.callbacks import Watch as Loop
from holdfast.methods import Source, Tent, TTAMethod

FALLING = [0.9] * 5 + [0.5] * 7  # of twelve batches


def at(alarm: np.ndarray) -> list[int]:
    return np.flatnonzero(alarm).tolist()


def test_aettas_rule() -> None:
    """The alarm ends once both windows are after the drop; a reset clears the earlier estimates."""
    falling = np.r_[np.full(15, 0.6), np.full(15, 0.5)]
    assert at(raised(Drop(), falling)) == list(range(16, 23))
    # Without a margin, and with every estimate below every one before (section 5, read literally).
    assert at(raised(Drop(margin=0), falling)) == list(range(15, 24))
    assert at(raised(Drop(margin=0, each=True), falling)) == [19]
    fresh = np.arange(30) == 16
    assert at(raised(Drop(), falling, fresh=fresh)) == []
    assert raised(Drop(), np.full(3, 0.1)).all()
    assert at(raised(Drop(), np.full(3, np.nan), not_finite=[False, True, False])) == [1]


def test_below_source_and_collapse() -> None:
    """The margin is 2 points, or a tenth of the source's accuracy if that is less."""
    source, own = np.full(12, 0.5), np.r_[np.full(4, 0.5), np.full(8, 0.44)]
    assert at(raised(BelowSource(4), own, source)) == list(range(5, 12)), (
        "0.485 is not 2 points below"
    )
    assert at(raised(Collapse(4), own, source)) == list(range(8, 12))
    fresh = np.arange(12) == 8
    assert at(raised(BelowSource(4), own, source, fresh)) == [5, 6, 7, 11]
    assert at(raised(Collapse(4), own, source, fresh)) == []
    hard = np.full(4, 0.1)
    assert raised(BelowSource(4), hard - 0.011, hard).any()
    assert not raised(BelowSource(4), hard - 0.009, hard).any()
    assert at(raised(BelowSource(2), np.array([0.1, np.nan, 0.1]), np.full(3, 0.5))) == [2]


class Told(cb.AccuracyEstimator):
    """Prepared estimates."""

    def __init__(self, *estimates: float) -> None:
        self.estimates = estimates

    def estimate(self, method: Any, images: torch.Tensor) -> float:
        return self.estimates[method.step_count]


def run(
    out: Path,
    *callbacks: Any,
    segments: list[int] | None = None,
    method: type[TTAMethod] = Tent,
    estimator: Callback | None = None,
) -> tuple[Run, list[int]]:
    """The record of a run with a scripted estimator, and the reset count of every step."""
    torch.manual_seed(0)
    watch = Watch()
    named = [estimator or Scripted(*FALLING), watch, *callbacks, cb.RunRecord(out)]
    data: TensorStream = stream(segments)
    plain_trainer(callbacks=named).test(method(tiny_net()), datamodule=data, verbose=False)
    return Run.load(out), watch.resets


def test_an_alarm_is_recorded_and_told_and_resets_nothing(tmp_path: Path) -> None:
    events: list[cb.Event] = []
    alarm = cb.Alarm("Scripted", Drop(2), on_alarm=events.append)
    below = cb.Alarm("Scripted", BelowSource(2), source=0.7)
    below.name = "Below"
    found, resets = run(tmp_path, alarm, below)
    assert found.column("Alarm_alarm").tolist() == [0] * 5 + [1] * 3 + [0] * 4
    (event,) = events
    assert event[:3] == ("Alarm", 5, {"alarm": 1.0})
    assert "that of the 2 before was" in event.reason
    assert "over the last 2 batches the estimate is" in below.reason
    assert "the source model's 70.0 %" in below.reason
    assert resets == [0] * STEPS
    assert at(alarms(found)["Alarm", "online"]) == [5, 6, 7]
    assert at(alarms(found)["Below", "online"]) == list(range(6, STEPS))
    curves = EventAccumulator(str(tmp_path)).Reload()
    marks = [(e.step, e.value) for e in curves.Scalars("stream/Alarm_alarm")]
    assert marks == [(6 * (n + 1), float(n in (5, 6, 7))) for n in range(STEPS)]


def test_warnings_and_online_alarms_count_alike(tmp_path: Path) -> None:
    """`holdfast estimators warnings` finds the alarms that were raised online, batch by batch."""
    falling = [0.9, 0.9, 0.1, 0.1, *[0.9] * 2, *[0.7] * 6]
    drop, below = cb.Alarm("Told"), cb.Alarm("Told", BelowSource(4), source=0.9)
    below.name = "Below"
    run(tmp_path / "Source", method=Source, estimator=Told(*[0.9] * STEPS))
    run(tmp_path / "Tent", drop, below, estimator=Told(*falling))
    (tent,) = (r for r in collect(tmp_path) if r.adapts)
    found = alarms(tent, window=4)
    for online, rule in (("Alarm", "drop"), ("Below", "below source")):
        assert at(found[online, ONLINE]) == at(found["Told", rule]) != []
    judged = judged_alarms([tent], window=4).set_index(["estimator", "alarm"])
    for online, rule in (("Alarm", "drop"), ("Below", "below source")):
        assert judged.loc[online, ONLINE].equals(judged.loc["Told", rule])


def test_alarms_are_raised_while_predicting() -> None:
    """In Trainer.predict, where no label is known: after the same steps as in a test."""
    events: list[cb.Event] = []
    alarm = cb.Alarm("Told", Drop(2), on_alarm=events.append)
    monitor = cb.RiskMonitor(start=7)
    trainer = plain_trainer(callbacks=[Told(*FALLING), alarm, monitor])
    trainer.predict(Tent(tiny_net()), stream().test_dataloader(), return_predictions=False)
    assert [(e.name, e.step) for e in events] == [("Alarm", 5)]
    assert monitor.steps == STEPS - 7


@pytest.mark.parametrize("make", [cb.AccuracyReset, lambda *a, **k: None], ids=["own", "heard"])
def test_a_reset_listens_to_an_alarm(tmp_path: Path, make: Any) -> None:
    """By either way a reset comes before the step after the alarm, and the alarm begins anew."""
    reset = make("Scripted", window=2) or cb.AlarmReset()
    found, resets = run(tmp_path, cb.Alarm("Scripted", Drop(2)), reset)
    assert resets == [0] * 6 + [1] * 6
    assert at(found.column("Alarm_alarm")) == [5]
    assert at(found.column("reset") > 0) == [6]


def test_a_loop_of_your_own() -> None:
    """An alarm that is passed as an object needs no names; a monitor works as well."""
    score = cb.SoftmaxScore()
    alarm = cb.Alarm(score, Drop(floor=1.0))
    loop = Loop(Tent(tiny_net()), [score], cb.AlarmReset(alarm))
    for _ in range(3):
        alarm.before_step(loop.method)
        assert alarm.after_step(loop.step(torch.rand(4, 3, 8, 8))), "no confidence reaches 100 %"
    assert loop.method.reset_count == 2
    cb.AlarmReset("RiskMonitor").listen([cb.RiskMonitor(), score])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: cb.Alarm(rule="rise"), "rise.*drop, below source, collapse"),
        (lambda: cb.Alarm(rule="collapse"), "source="),
        (lambda: cb.Alarm(rule=Drop(floor=2.0)), "floor=2.0"),
        (lambda: cb.Alarm(source=2.0), "source"),
        (lambda: cb.Alarm("GDE").listen([]), "GDE"),
        (lambda: cb.AlarmReset().listen([]), "Alarm"),
        (lambda: cb.Alarm("GDE").judge(Script()), "GDE"),
        (lambda: cb.AlarmReset().should_reset(Script()), "Alarm"),
    ],
)
def test_what_is_refused(make: Any, words: str) -> None:
    with pytest.raises(HoldfastError, match=words):
        make()
