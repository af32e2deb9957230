"""Tables, warnings and fits: known answers on made-up records, and real runs through the commands."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from holdfast.benchmarks import dataset_table, early_warning, estimation, report
from holdfast.benchmarks.early_warning import Stretch, judge, stretches, trailing_mean
from holdfast.benchmarks.fit_flips import points
from holdfast.benchmarks.grid import CONFIGS, cells, load
from holdfast.benchmarks.run import main
from holdfast.callbacks.flips import FlipFunction

IMAGES = 10 * np.arange(1, 101)


def test_trailing_mean() -> None:
    np.testing.assert_allclose(trailing_mean(np.array([1.0, 2, 3, np.nan]), 2), [1, 1.5, 2.5, 3])
    assert math.isnan(trailing_mean(np.array([np.nan]))[0])


def test_stretches() -> None:
    flags = np.array([1, 1, 0, 1, 0, 0, 1, 1, 1], dtype=bool)
    assert stretches(flags) == [Stretch(0, 1), Stretch(3, 3), Stretch(6, 8)]
    assert stretches(flags, 3) == [Stretch(6, 8)]
    assert stretches(~flags[:0]) == []


@pytest.mark.parametrize(
    ("alarm", "delays", "false_alarms"),
    [
        ([(45, 60)], [50], 0),  # late by five batches
        ([(30, 60)], [-100], 0),  # began shortly before, and lasts
        ([(30, 31)], [-100], 0),
        ([(0, 99)], [], 1),  # always on
        ([(10, 20), (70, 75)], [300], 1),
        ([(10, 20), (85, 90)], [], 2),  # a false alarm, and one after it has recovered
        ([], [], 0),
        ([(40, 41), (50, 51)], [0], 0),  # the first one counts, the second is not false
    ],
)
def test_alarms(alarm: list[tuple[int, int]], delays: list[int], false_alarms: int) -> None:
    """Collapsed from batch 40 to 80; the dip of 5 batches at the start is too short to count."""
    collapsed, alarms = np.zeros(100, dtype=bool), np.zeros(100, dtype=bool)
    collapsed[40:81] = collapsed[:5] = True
    for first, last in alarm:
        alarms[first : last + 1] = True
    found = judge(collapsed, alarms, IMAGES)
    assert (found.collapses, found.delays, found.false_alarms) == (1, delays, false_alarms)
    assert found.missed == 1 - len(delays)


def test_aetta_rule_as_an_alarm() -> None:
    steady = np.full(30, 0.6)
    assert not early_warning.dropped(steady).any()
    falling = np.r_[steady[:15], np.full(15, 0.5)]
    assert np.flatnonzero(early_warning.dropped(falling)).tolist() == list(range(16, 23))
    assert early_warning.dropped(np.full(3, 0.1)).all()


def run(name: str, estimate: list[float], accuracy: list[float], **facts: Any) -> dict[str, Any]:
    """A run of forty batches of 10 images, as `report.collect` returns it."""
    rows = [
        {"images": 10 * (n + 1), "accuracy": a, "GDE": e, "GDE_error": abs(a - e), "reset": 0.0}
        | {"corruptions": "fog@5" if n < 10 else "snow@5"}
        for n, (a, e) in enumerate(zip(accuracy, estimate, strict=True))
    ]
    names = {"method": name, "stream": "s", "stream_id": "x", "seed": 1, "folder": "-"}
    return {**names, "adapts": name != "Source", "rows": rows, **facts}


def test_warnings_compare_with_the_source_model() -> None:
    source = run("Source", [0.4] * 40, [0.5] * 40)
    tent = run("Tent", [0.6] * 20 + [0.0] * 20, [0.8] * 10 + [0.0] * 30)
    found = early_warning.warnings([source, tent], window=4)
    verdicts = {f["rule"]: f["warning"] for f in found}
    assert verdicts["below source"].delays == [100]
    assert verdicts["drop"].delays == [90]  # one batch earlier: 0 is below the floor at once
    assert verdicts["below source"].false_alarms == 0
    assert early_warning.warnings([tent]) == []
    assert "+100 images" in early_warning.summary(found)


def test_errors_are_means_over_corruptions_then_seeds() -> None:
    one = run("Tent", [0.5] * 40, [0.6] * 10 + [0.9] * 30)
    two = run("Tent", [0.5] * 40, [0.7] * 10 + [0.9] * 30, seed=2)
    table = estimation.error_table([one, two])
    assert "25.00 ± 0.00" not in table
    assert estimation.per_seed([one, two], "GDE_error") == pytest.approx({1: 0.25, 2: 0.3})
    assert "27.50 ± 3.54" in table
    parts = [dict(one, stream=f"Fully X, {c}") for c in ("fog", "snow")]
    assert {estimation.setting(part) for part in parts} == {"Fully X"}


def test_recovery_gains() -> None:
    flat = [0.5] * 40
    runs = [run(name, flat, [a] * 40) for name, a in (("Tent", 0.2), ("Tent-MRS", 0.5))]
    lines = estimation.recovery_table(runs).splitlines()
    assert lines[1].split() == ["MRS", "30.00", "30.00"]
    assert lines[2].split()[-1] == "20.00"


def folder_with(path: Path, **facts: Any) -> str:
    path.mkdir()
    defaults = {"stream": "CIFARC", "batch_size": 64, "finished": True}
    (path / "provenance.json").write_text(json.dumps(defaults | facts))
    return str(path)


def test_published_numbers_only_in_the_published_setting(tmp_path: Path) -> None:
    def made(name: str, corruptions: int = 15, batches: int = 156, **facts: Any) -> dict[str, Any]:
        rows = [
            {"corruptions": f"c{k}@5", "accuracy": 0.5, "images": 1, "reset": 0.0, "AETTA": 0.5}
            | {"AETTA_error": 0.0}
            for k in range(corruptions)
            for _ in range(batches)
        ]
        where = folder_with(tmp_path / f"{len(list(tmp_path.iterdir()))}", **facts)
        return run("TENT", [0.5], [0.5], stream=name, rows=rows, folder=where)

    def shown(one: dict[str, Any]) -> bool:
        return "published" in estimation.error_table([one])

    assert shown(made("Continual CIFAR10-C"))
    assert not shown(made("Continual glyphs"))
    assert not shown(made("Continual CIFAR10-C", stream="Corrupted"))
    assert not shown(made("Continual CIFAR10-C", batch_size=32))
    assert not shown(made("Continual CIFAR10-C", corruptions=14))
    assert not shown(made("Continual CIFAR10-C", batches=100))
    assert not shown(made("Continual ImageNet-C", stream="CIFARC"))


def test_families() -> None:
    assert [
        dataset_table.family(n) for n in ("fog 3", "fog@2.5", "IN-C, fog 3", "glass_blur-1")
    ] == [*("fog", "fog", "IN-C", "glass_blur")]


# ---- the suites, the commands -------------------------------------------------------


@pytest.mark.parametrize("name", sorted(p.stem for p in CONFIGS.glob("*.yaml")))
def test_suites_are_well_formed(name: str) -> None:
    grid = list(cells(load(name)))
    assert len({cell.folder for cell in grid}) == len(grid) > 0


HELD = {
    "class_path": "holdfast.datamodules.Digits",
    "init_args": {"split": "calibration"},
}
SGD = {"class_path": "torch.optim.SGD", "init_args": {"lr": 1.0, "momentum": 0.9}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small suite: three methods watched by everything on four streams of digits."""
    folder = tmp_path_factory.mktemp("suite")
    listed = [
        {"class_path": "SrcValid", "init_args": {"source": HELD, "images": 50}},
        {"class_path": "AETTA", "init_args": {"passes": 2}},
        {"class_path": "WeightedFlips", "init_args": {"f": None, "held": 32, "stop": 3}},
        {
            "class_path": "DatasetEstimates",
            "init_args": {"validation": HELD, "images": 60, "validation_images": 100},
        },
    ]
    streams = {
        f"{name} {level}": {
            "class_path": "Corrupted",
            "init_args": {
                **{"source": "Digits", "corruptions": [name], "severities": [level], "each": 64},
                **{"batch_size": 16, "num_workers": 0},
            },
        }
        for name in ("fog", "gaussian_noise")
        for level in (1, 4)
    }
    digits = {"backbone": "digits"}
    suite = {
        "out": str(folder),
        "seeds": [0],
        "common": {"progress": False, "trainer": {"accelerator": "cpu", "callbacks": listed}},
        "streams": streams,
        "methods": {
            "Source": {"class_path": "Source", "init_args": digits},
            "Tent": {"class_path": "Tent", "init_args": {**digits, "optimizer": SGD}},
        },
    }
    config = folder / "suite.yaml"
    config.write_text(yaml.safe_dump(suite))
    assert main(["suite", str(config)]) == 0
    return folder


def test_table_command(finished: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["estimators", "table", str(finished)]) == 0
    out = capsys.readouterr().out
    runs = [run for run in report.collect(finished) if run["stream"] == "fog 4"]
    tent = next(run for run in runs if run["method"] == "Tent")
    error = np.mean([abs(row["AETTA"] - row["accuracy"]) for row in tent["rows"]])
    assert f"{100 * error:.2f}" in out
    assert "published" not in out
    assert (finished / "estimates.png").stat().st_size > 10_000


def test_warnings_command(finished: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["estimators", "warnings", str(finished), "--window", "2"]) == 0
    out = capsys.readouterr().out
    assert "below source" in out
    assert "AETTA" in out
    assert "WeightedFlips" not in out


def test_fit_and_datasets_commands(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    file = tmp_path / "f.json"
    words = [str(finished), "--degree", "1", "--out", str(file)]
    assert main(["estimators", "fit", *words]) == 0
    f = FlipFunction.load(file)
    found = points([finished])
    assert len(found) == 4
    pairs = [[p.flips[True], 100 * p.accuracy] for p in found]
    assert f.coefficients == pytest.approx(np.polyfit(*np.transpose(pairs), 1), rel=1e-6)
    assert f.provenance["method"] == "Tent"
    assert f.provenance["callback"]["stop"] == 3
    assert f.parameters == found[0].parameters > 10_000
    assert main(["estimators", "fit", str(finished), "--streams", "x*", "--out", str(file)]) == 2
    capsys.readouterr()
    assert main(["estimators", "datasets", str(finished), "--f", str(file)]) == 0
    out = capsys.readouterr().out
    errors = [100 * abs(p.source["COT"] - p.source["collected_accuracy"]) for p in found]
    assert f"{np.mean(errors):.2f}" in out
    assert "WF" in out


def test_flips_are_of_the_adapting_run_only(finished: Path) -> None:
    summary = json.loads((finished / "fog 4-seed0" / "Source" / "summary.json").read_text())
    assert summary["WeightedFlips_unweighted"] == 0
    assert {"AC", "COTT_T", "temperature", "AETTA_error"} <= summary.keys()
    adapting = json.loads((finished / "fog 4-seed0" / "Tent" / "summary.json").read_text())
    assert "AC" not in adapting
