"""How long a suite takes: what is measured, and how it is added up."""

import json
from pathlib import Path
from typing import Any

import pytest
from small_suites import corrupted_digits, write_suite

from holdfast import HoldfastError
from holdfast.benchmarks.measure import plan
from holdfast.benchmarks.measure.plan import Load, added_up
from holdfast.benchmarks.suites.cell_workers import cores

LOAD = Load(100, workers=1, start=4.0, step=0.1, read=0.02, corrupt=0.06, disk=50.0, disk_start=1e3)
FOG = {"fog": corrupted_digits("fog", each=320, batch_size=32, table="cifar")}


def test_a_run() -> None:
    """Workers make batches beside the steps; without any, a run does one after the other."""
    assert LOAD.seconds == pytest.approx(14)
    assert LOAD.limit == "stepping"
    assert LOAD._replace(workers=0).seconds == pytest.approx(4 + 18)
    slow = LOAD._replace(corrupt=0.3)
    assert slow.seconds == pytest.approx(4 + 32)
    assert slow.limit == "corrupting"
    assert slow._replace(workers=4).seconds == pytest.approx(14)


def test_a_grid() -> None:
    loads = [LOAD] * 8
    one = added_up(loads, 1, 0, 2)
    assert one["hours"] * 3600 == pytest.approx(8 * 14)
    assert one["core_hours"] * 3600 == pytest.approx(8 * 18)
    assert one["disk_bytes"] == 8 * 6000
    eight = added_up(loads, 8, 0, 2)
    assert (eight["hours"] * 3600, eight["limit"]) == (pytest.approx(72), "processor cores")
    gpus = added_up(loads, 8, 8, 16)
    assert gpus["gpu_hours"] * 3600 == pytest.approx(80)
    assert gpus["hours"] * 3600 == pytest.approx(14)


def test_a_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_suite(tmp_path, ("Source", "Tent"), FOG, seeds=[1, 2], common={"threads": 1})
    profile, out = tmp_path / "costs.json", tmp_path / "plan.json"
    words = [str(file), "--out", str(tmp_path / "runs"), "--profile", str(profile)]
    assert plan.main([*words, "--json", str(out)]) == 0
    printed = capsys.readouterr().err
    assert printed.count("timing") == 2  # another seed costs the same
    found = json.loads(out.read_text())
    assert found["runs"] == 4
    costs: dict[str, Any] = json.loads(profile.read_text())["costs"]
    for known in costs.values():
        assert min(known[name] for name in ("start", "step", "read", "corrupt", "disk")) > 0
    total = sum(known["start"] + 10 * known["step"] for known in costs.values())
    first, second = (10 * (known["read"] + known["corrupt"]) for known in costs.values())
    assert found["hours"] * 3600 == pytest.approx(2 * (total + first + second))
    assert not (tmp_path / "runs").exists()
    assert plan.main([*words, "--cache", str(tmp_path / "c"), "--json", str(out)]) == 0
    assert "timing" not in capsys.readouterr().err
    assert json.loads(out.read_text())["hours"] * 3600 == pytest.approx(2 * (total + first))
    with pytest.raises(HoldfastError, match="--gpus"):
        plan.main([*words, "--gpus", "2"])


def test_trials_have_the_threads_of_the_suite(tmp_path: Path) -> None:
    """Processes of a suite share the cores, so a trial for several of them does, too."""
    file, profile = write_suite(tmp_path, ["Source"], FOG, seeds=[1, 2]), tmp_path / "costs.json"
    words = [str(file), "--out", str(tmp_path / "runs"), "--profile", str(profile)]
    assert plan.main([*words, "--jobs", "2"]) == 0
    (key,) = json.loads(profile.read_text())["costs"]
    assert json.loads(key)["threads"] == max(1, cores() // 2)
