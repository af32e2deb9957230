"""Monitors: references from source images or a stream's start, and alarms."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from common import TensorStream, plain_trainer, tiny_net
from torch import Tensor

from holdfast import HoldfastError
from holdfast.callbacks import Reference, RiskMonitor, RunRecord
from holdfast.callbacks.alarm import Event
from holdfast.callbacks.functional.sequences import exact_upper
from holdfast.datamodules import Digits
from holdfast.methods import Source, Tent
from holdfast.run_folder import read_rows

RANDOM = np.random.default_rng(1)
CLASSES = 5


def outputs(n: int, scale: float = 4.0) -> tuple[Tensor, Tensor]:
    """Logits [n,5] that are the more right the larger the scale, and labels [n]."""
    labels = RANDOM.integers(0, CLASSES, n)
    noise = RANDOM.normal(size=(n, CLASSES))
    return torch.from_numpy(noise + scale * np.eye(CLASSES)[labels]), torch.from_numpy(labels)


@pytest.fixture(scope="module")
def reference() -> Reference:
    logits, labels = outputs(1200, 2.5)
    return Reference.fit(logits.numpy(), labels.numpy())


def test_a_reference_by_hand() -> None:
    """40 images, of whose second half 4 are wrong, 3 of them doubtful, and 2 right ones are doubtful."""
    confidence = np.tile(np.linspace(0.5, 0.88, 20), 2)
    logits = np.stack([np.log(confidence / (1 - confidence)), np.zeros(40)], 1)
    labels = np.zeros(40, dtype=int)
    labels[[0, 1, 2, 3, 4, 21, 23, 24, 39]] = 1  # five in the first half
    logits[0, 1] = -1e-9  # or its prediction would be a tie
    logits[20, 1] = -1e-9
    found = Reference.fit(logits, labels)
    assert found.threshold == pytest.approx(0.58)  # the fifth smallest of the first half
    assert (found.images, found.doubtful, found.at_fault) == (20, 5, 6)
    assert found.largest_class == 20
    assert found.limit("confidence", 0.025) == exact_upper(6, 20, 0.025)
    assert found.limit("concentration", 0.025) == 1
    start = Reference.from_answers(confidence, np.zeros(40, dtype=int), 2)
    assert start.threshold == pytest.approx(0.6)  # 1 - 0.69 of 20 images: six
    assert start.limit("confidence", 0.025) == exact_upper(start.doubtful, 20, 0.025)


def test_a_source_with_fewer_images_is_said() -> None:
    with pytest.warns(UserWarning, match="images=400: the source has 300"):
        assert RiskMonitor(source=Digits("calibration"), images=400).images == 300


def test_a_reference_is_saved_and_loaded(reference: Reference, tmp_path: Path) -> None:
    reference.save(tmp_path / "reference.json")
    assert Reference.load(tmp_path / "reference.json") == reference
    with pytest.raises(HoldfastError, match=r"other\.json"):
        Reference.load(tmp_path / "other.json")
    with pytest.raises(HoldfastError, match="40 images"):
        Reference.fit(np.eye(5), np.arange(5))


@pytest.mark.parametrize("rule", ["bets", "running"])
@pytest.mark.parametrize("unit", ["image", "batch"])
def test_an_alarm_comes_with_more_errors_and_not_without(
    reference: Reference, rule: str, unit: str
) -> None:
    monitor = RiskMonitor(reference=reference, rule=rule, unit=unit)
    assert not any(monitor.after_step(outputs(50, 2.5)[0]) for _ in range(40))
    assert monitor.details["low"] < monitor.details["share"] < monitor.limit
    events: list[Event] = []
    monitor.on_alarm, monitor.method = events.append, Source(tiny_net())
    assert any(monitor.after_step(outputs(50, 0.5)[0]) for _ in range(60))
    (event,) = events
    assert event.details["limit"] <= event.details["low"] <= event.details["share"]
    since = (
        {"bets": 2001, "running": 1}[rule] if unit == "image" else {"bets": 41, "running": 1}[rule]
    )
    assert abs(event.details["since"] - since) <= (25 if unit == "image" else 3)
    low, limit = (f"{100 * event.details[name]:.1f} %" for name in ("low", "limit"))
    assert event.reason == monitor.reason
    assert f"at least {low} of the answers are wrong or doubtful; {limit} are" in event.reason
    assert monitor.after_step(outputs(50, 2.5)[0])  # it stays
    assert event.reason == monitor.reason
    monitor.restart()
    assert not monitor.after_step(outputs(50, 2.5)[0])
    assert not monitor.reason


def test_bets_tell_a_late_change_before_the_running_mean(reference: Reference) -> None:
    """With 20,000 images before it, and 50 in a batch."""
    monitors = {rule: RiskMonitor(reference=reference, rule=rule) for rule in ("bets", "running")}
    delays = dict.fromkeys(monitors, 0)
    for _ in range(400):
        logits = outputs(50, 2.5)[0]
        assert not any(monitor.after_step(logits) for monitor in monitors.values())
    for _ in range(100):
        logits = outputs(50, 0.5)[0]
        for rule, monitor in monitors.items():
            delays[rule] += not monitor.after_step(logits)
    assert delays["bets"] < 15 < 60 < delays["running"]


def test_concentration_tells_a_collapse_that_confidence_does_not(reference: Reference) -> None:
    sure = torch.tensor([9.0, 0, 0, 0, 0]).expand(50, CLASSES)
    monitors = [RiskMonitor(reference=reference, proxy=p) for p in ("confidence", "concentration")]
    for _ in range(20):
        logits = outputs(50, 2.5)[0]
        assert not any(monitor.after_step(logits) for monitor in monitors)
    for _ in range(5):
        raised = [monitor.after_step(sure) for monitor in monitors]
    assert raised == [False, True]


def test_the_start_of_a_stream_is_a_reference_too() -> None:
    monitor = RiskMonitor(start=4)
    for _ in range(4):
        assert not monitor.after_step(outputs(50, 2.5)[0])
        assert monitor.details == {}
    assert monitor.fitted().images == 100
    assert not monitor.after_step(outputs(50, 2.5)[0])
    assert any(monitor.after_step(outputs(50, 0.5)[0]) for _ in range(40))


def test_no_reference_no_source_and_odd_words_are_refused() -> None:
    with pytest.raises(HoldfastError, match=r"source=.*Reference\.load"):
        RiskMonitor(source=Digits("calibration")).after_step(outputs(5)[0])
    with pytest.raises(HoldfastError, match="confidence or concentration"):
        RiskMonitor(proxy="odd")
    with pytest.raises(HoldfastError, match="source=IMAGES"):
        RiskMonitor(refit=3)


def test_images_that_are_not_finite_do_not_count(reference: Reference) -> None:
    one, other = (RiskMonitor(reference=reference) for _ in range(2))
    logits = outputs(20)[0]
    one.after_step(logits)
    other.after_step(torch.cat([torch.full((3, CLASSES), float("nan")), logits]))
    assert one.details == other.details


def test_monitors_in_a_trainer_write_rows_and_refit(tmp_path: Path) -> None:
    """With a threshold that is fitted again, the adapted model's own answers on the source count."""
    kept: dict[str, Any] = {"source": Digits("calibration"), "images": 80}
    watching = [RiskMonitor(**kept, refit=2)]
    images = torch.rand(4, 16, 3, 8, 8)
    trainer = plain_trainer(callbacks=[*watching, RunRecord(tmp_path)], inference_mode=False)
    trainer.test(Tent(tiny_net(10)), datamodule=TensorStream(images), verbose=False)
    rows = read_rows(tmp_path)
    assert {"RiskMonitor_alarm", "RiskMonitor_limit"} <= rows[0].keys()
    fresh = RiskMonitor(**kept)
    fresh.before_step(Tent(tiny_net(10)))
    assert watching[0].fitted().threshold != fresh.fitted().threshold
    assert watching[0].limit == pytest.approx(rows[0]["RiskMonitor_limit"])


def test_a_source_that_keeps_its_weights_needs_no_refit() -> None:
    monitor = RiskMonitor(source=Digits("calibration"), images=80)
    method = Source(tiny_net(10))
    monitor.before_step(method)
    monitor.after_step(method.adapt(torch.rand(16, 3, 8, 8)))
    assert monitor.fitted().images == 40
