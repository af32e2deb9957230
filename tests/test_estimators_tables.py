"""Tables, warnings and fits: known answers on made-up records, and real runs through the commands."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from holdfast.benchmarks.cli import main
from holdfast.benchmarks.estimators import (
    datasets as dataset_table,
)
from holdfast.benchmarks.estimators import (
    table as estimation,
)
from holdfast.benchmarks.estimators import (
    warnings as early_warning,
)
from holdfast.benchmarks.estimators.fit import Point, points
from holdfast.benchmarks.estimators.warnings import Stretch, judge, stretches, trailing_mean
from holdfast.benchmarks.papers import aetta as aetta_published
from holdfast.benchmarks.papers import flips as dataset_published
from holdfast.benchmarks.results import report
from holdfast.benchmarks.run_cli import RunCLI
from holdfast.benchmarks.suites.grid import CONFIGS, cells, load
from holdfast.callbacks.functional.flips import FlipFunction

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


def test_published_numbers_only_in_the_published_setting(tmp_path: Path) -> None:
    def made(
        name: str,
        corruptions: int = 15,
        batches: int = 156,
        method: str = "TENT",
        rate: float | None = None,
        source: dict[str, str] | None = None,
        passes: int = 10,
        **facts: Any,
    ) -> dict[str, Any]:
        """A record of a run in AETTA's setting, with these changes."""
        rows = [
            {"corruptions": f"c{k}@5", "accuracy": 0.5, "images": 1, "reset": 0.0, "AETTA": 0.5}
            | {"AETTA_error": 0.0}
            for k in range(corruptions)
            for _ in range(batches)
        ]
        where = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        where.mkdir()
        cifar = {"net": "CIFARResNet18(10)", "epochs": "200", "seed": "1", "name": "cifar10"}
        defaults = {"stream": "CIFARC", "batch_size": 64, "weights_from": cifar | (source or {})}
        defaults |= {"estimators": {"AETTA": {"passes": passes, "alpha": 3.0}, "Mine": {}}}
        defaults |= {"precision": "32-true", "resets": []}
        (where / "provenance.json").write_text(json.dumps(defaults | facts))
        model = yaml.safe_load((CONFIGS / "methods" / "tent-aetta-cifar10.yaml").read_text())[
            "model"
        ]
        if rate is not None:
            model["init_args"]["optimizer"]["init_args"]["lr"] = rate
        (where / "config.yaml").write_text(yaml.safe_dump({"model": model}))
        names = {"stream": name, "rows": rows, "folder": str(where), "finished": True}
        return run(method, [0.5], [0.5], **names)

    def shown(one: dict[str, Any]) -> bool:
        return "published" in estimation.error_table([one])

    assert shown(made("Continual CIFAR10-C"))
    assert shown(made("Fully CIFAR10-C, all of them"))
    assert not shown(made("Continual glyphs"))
    assert not shown(made("Continual CIFAR10-C", stream="Corrupted"))
    assert not shown(made("Continual CIFAR10-C", batch_size=32))
    assert not shown(made("Continual CIFAR10-C", corruptions=14))
    assert not shown(made("Continual CIFAR10-C", batches=100))
    assert not shown(made("Continual CIFAR10-C", rate=0.01))
    assert not shown(made("Continual CIFAR10-C", method="BNAdapt"))
    assert not shown(made("Continual CIFAR10-C", passes=5))
    assert not shown(made("Continual CIFAR10-C", source={"epochs": "1"}))
    assert not shown(made("Continual CIFAR10-C", source={"seed": "0"}))
    assert not shown(made("Continual ImageNet-C"))
    assert not shown(made("Continual CIFAR10-C", precision="bf16-mixed"))
    assert not shown(made("Continual CIFAR10-C", resets=["PeriodicReset(every=1)"]))
    scheme = {"method": "TENT-Episodic", "resets": ["PeriodicReset(every=1)"]}
    assert shown(made("Continual CIFAR10-C", **scheme))
    assert not shown(
        made("Continual CIFAR10-C", **{**scheme, "resets": ["PeriodicReset(every=2)"]})
    )
    assert not shown(made("Continual CIFAR10-C", method="TENT-Mine"))
    listens = "AccuracyReset(estimator='AETTA', window=5, margin=0.02, floor=0.2)"
    assert aetta_published.resets("AETTA") == [listens]


def test_published_averages_are_over_the_same_methods() -> None:
    row = {"TENT": [1.0, 0.1], "SAR": [3.0, 0.2], "Avg": [2.0, 0.1]}
    assert aetta_published.published(row, ["TENT"]) == ["1.00 ± 0.10", "-"]
    assert aetta_published.published(row, ["SAR", "TENT"])[-1] == "2.00 ± 0.10"
    assert aetta_published.published(row, ["SAR", "TENT", "ETA"])[-2:] == ["-", "-"]


def test_runs_without_a_seed_have_a_table() -> None:
    runs = [run("Tent", [0.5] * 40, [a] * 40, seed=None) for a in (0.6, 0.7)]
    assert "15.00" in estimation.error_table(runs)


def test_families() -> None:
    assert [
        dataset_table.family(n) for n in ("fog 3", "fog@2.5", "IN-C, fog 3", "glass_blur-1")
    ] == [*("fog", "fog", "IN-C", "glass_blur")]


# ---- the suites, the commands -------------------------------------------------------


class OnlyParsed(RunCLI):
    """The arguments of `holdfast test`, checked; the data need not be there."""

    def instantiate_classes(self) -> None: ...


@pytest.mark.parametrize("name", sorted(p.stem for p in CONFIGS.glob("*.yaml")))
def test_suites_are_well_formed(name: str) -> None:
    """All names differ, and `holdfast test` takes the arguments of the first run and of the last."""
    grid = list(cells(load(name)))
    assert len({cell.folder for cell in grid}) == len(grid) > 0
    for cell in (grid[0], grid[-1]):
        config = OnlyParsed({**cell.config, "out": str(cell.folder)}).config
        assert config.seed_everything == cell.names["seed"]


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
        {
            "class_path": "WeightedFlips",
            "init_args": {"f": None, "held": 32, "at_once": 16, "stop": 3, "also": [2]},
        },
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
    assert main(["estimators", "warnings", str(finished), "--window", "0"]) == 2


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
    assert main(["estimators", "datasets", str(finished), "--fit-on", "fog*"]) == 2
    assert "do not determine a polynomial of degree 2" in capsys.readouterr().err


def test_flips_of_other_stops_and_fewer_images(finished: Path) -> None:
    """As counted by the definition from what the run kept."""
    point = points([finished])[0]
    assert point.recounted().flips == pytest.approx(point.flips)
    kept = np.load(point.folder / "flips.npz")
    assert kept["steps"].tolist() == [0, 2, 3]
    start, end = kept["classes"][:2, :16]
    rank = np.argsort(np.argsort(kept["confidence"][:16])) + 1
    again = point.recounted(stop=2, held=16).flips
    assert again[False] == pytest.approx(1000 * np.mean(start != end))
    assert again[True] == pytest.approx(1000 * np.sum((start != end) * rank / 16) / 16)


def published_point(number: int, folder: Path, seed: int = 0, **changes: Any) -> Point:
    """A run as the thesis made it, on a set of ImageNet-V2; `changes` of any of its facts."""
    name = ("matched-frequency", "threshold0.7", "top-images")[number]
    data = {"class_path": "holdfast.datamodules.ImageSet"}
    data["init_args"] = {"name": changes.pop("name", "imagenet-v2"), "parts": [name]}  # type: ignore[assignment]
    path = folder / f"{name}-{len(list(folder.iterdir()))}"
    path.mkdir()
    (path / "config.yaml").write_text(yaml.safe_dump({"data": data}))
    settings = {"held": changes.pop("held", 1000), "stop": 990, "data": None}
    rate = changes.pop("rate", 0.00025)
    facts = {
        "batch_size": 64,
        "method": "RDumb",
        "resets": ["PeriodicReset(every=1000)"],
        "weights_from": {"name": "torchvision/resnet50.IMAGENET1K_V1"},
        "optimizer": f"SGD ( lr: {rate} maximize: False momentum: 0.9 nesterov: False )",
        "parts": [[[], "-", 10_000]],
        "estimators": {"WeightedFlips": settings},
        **changes,
    }
    source = {"AC": 0.5, "collected_accuracy": 0.6, "collected_images": 10_000}
    return Point(f"IN-V2, {name}", seed, "RDumb", {True: 100.0}, 0.6, source, facts, 1, path)


@pytest.mark.parametrize(
    ("changes", "confidence", "flips"),
    [
        ({}, 5.58, 4.70),
        ({"rate": 0.001}, 5.58, None),
        ({"held": 500}, 5.58, None),
        ({"method": "Tent", "rate": 0.0005}, 5.58, None),
        ({"resets": ["PeriodicReset(every=500)"]}, 5.58, None),
        ({"batch_size": 32}, None, None),
        ({"name": "imagenet-c"}, None, None),
        ({"parts": [[[], "-", 50_000]]}, None, 4.70),  # not all images were collected
        ({"weights_from": {"name": "torchvision/resnet50.IMAGENET1K_V2"}}, None, None),
    ],
)
def test_published_errors_only_in_the_published_setting(
    tmp_path: Path, changes: dict[str, Any], confidence: float | None, flips: float | None
) -> None:
    runs = [published_point(k, tmp_path, **({**changes} if k == 1 else {})) for k in range(3)]
    by_name = {"IN-V2": runs}
    shown = dataset_published.numbers("T3.1", "AC", by_name).get("IN-V2")
    assert shown == confidence
    assert dataset_published.numbers("T3.1", "WF", by_name, {"held": 1000, "data": None}).get(
        "IN-V2"
    ) == (flips)
    assert dataset_published.numbers("T3.1", "AC", {"IN-V2": runs[:2]}) == {}
    assert dataset_published.numbers("T3.2", "RN18", by_name) == {}
    for f, known in ((FlipFunction.load("resnet50"), True), (other_f(), False)):
        column = dataset_table.wf(runs, {0: f}, "T3.1", "WF")
        assert bool(column.paper) == (known and flips is not None)


def other_f() -> FlipFunction:
    """A function that was fitted to other streams than the thesis'."""
    return FlipFunction((0.0, 60.0), True, 1, {"streams": [["fog 1", 0, "x"]]})


def test_table_of_errors() -> None:
    errors = {"a": {0: 0.01, 1: 0.03}, "b": {0: 0.05, 1: 0.01}}
    lines = dataset_table.table({"X": dataset_table.Column(errors, {"b": 7.0})}).splitlines()
    rows = {line.split("  ")[0]: line.split("  ")[-1].strip() for line in lines}
    assert rows["a"] == "2.00 ± 1.41"
    assert lines[3].split() == ["published", "7.00"]
    assert rows["Average"] == "2.50 ± 0.71"
    assert rows["Worst case"] == "4.00 ± 1.41"
    assert rows["Average (worst excluded)"] == "1.00 ± 0.00"


@pytest.mark.parametrize("command", ["table", "warnings", "datasets", "agree"])
def test_a_folder_without_runs_is_refused_in_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["estimators", command, str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "runs" in line or "run of" in line


def test_a_table_needs_estimates(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    stream = ["--data", "Corrupted", "--data.source", "Digits", "--data.each", "16"]
    words = ["--model", "Tent", "--model.backbone", "digits", *stream, "--progress", "false"]
    assert main(["test", *words, "--out", str(tmp_path / "run")]) == 0
    assert main(["estimators", "table", str(tmp_path)]) == 2
    assert "with an estimator" in capsys.readouterr().err


def test_flips_are_of_the_adapting_run_only(finished: Path) -> None:
    summary = json.loads((finished / "fog 4-seed0" / "Source" / "summary.json").read_text())
    assert summary["WeightedFlips_unweighted"] == 0
    assert {"AC", "COTT_T", "temperature", "AETTA_error"} <= summary.keys()
    adapting = json.loads((finished / "fog 4-seed0" / "Tent" / "summary.json").read_text())
    assert "AC" not in adapting
