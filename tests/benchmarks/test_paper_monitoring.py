"""The simulated streams of `holdfast paper monitoring/...`, against the monitors themselves."""

from pathlib import Path

import numpy as np
import pytest
import torch
from made_up import made_up

from holdfast.benchmarks.papers.experiment import experiments
from holdfast.benchmarks.papers.monitoring import alarm_rates, detection
from holdfast.benchmarks.papers.monitoring.streams import BATCH, CLASSES, STREAMS, answers
from holdfast.benchmarks.papers.verdicts import HOLDS
from holdfast.benchmarks.results.runs import collect
from holdfast.callbacks import RiskMonitor


@pytest.mark.parametrize("name", ["sudden drop", "collapse"])
def test_simulated_alarms_are_the_monitors(name: str) -> None:
    """From the same answers, at the same image."""
    own = STREAMS[name]()
    found = {
        key: int(alarm[0])
        for key, alarm in alarm_rates.watched(own, 1, np.random.default_rng(3)).items()
    }
    random = np.random.default_rng(3)
    seen = answers(own, random)
    fitted, _ = alarm_rates.reference(own, seen, random)
    rest = torch.from_numpy((1 - seen.confidence) / (CLASSES - 1))
    probs = rest[:, None].repeat(1, CLASSES)
    probs[torch.arange(len(rest)), torch.from_numpy(seen.classes)] = torch.from_numpy(
        seen.confidence
    )
    for proxy, rule in (
        ("confidence", "bets"),
        ("confidence", "running"),
        ("concentration", "bets"),
    ):
        monitor = RiskMonitor(reference=fitted, proxy=proxy, rule=rule)
        raised = [monitor.note(batch) for batch in probs.log().split(BATCH)]
        at = BATCH * (raised.index(True) + 1) if any(raised) else -1
        assert found[f"{proxy}, {rule}"] == at


def test_a_table_of_runs_has_rules_on_estimators(tmp_path: Path) -> None:
    """A collapse after half of the run; AETTA's estimates are the accuracies."""
    made_up(tmp_path, "Tent", [0.6] * 40 + [0.0] * 40)
    made_up(tmp_path, "Source", [0.5] * 80)
    found = detection.table(collect(tmp_path))
    assert found.mean(detection.RAISED, "AETTA, drop", "Tent") == 100
    delay = found.mean(detection.DELAY, "AETTA, drop", "Tent")
    assert delay is not None
    assert delay < 200
    assert found.mean(detection.RAISED, "AETTA, drop", "Source") == 0


def test_committed_results_are_judged() -> None:
    own = experiments()["monitoring/alarms"]
    states = {verdict.claim.id: verdict.state for verdict in own.verdicts(own.committed)}
    assert states["level"] == HOLDS
    assert len(states) == len(own.claims) > 9
