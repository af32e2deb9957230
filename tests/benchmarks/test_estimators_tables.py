"""Tables, warnings and fits: known answers on made-up records, and real runs through the commands."""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from holdfast.benchmarks.cli import main
from holdfast.benchmarks.estimators import datasets, table, warnings
from holdfast.benchmarks.estimators.warnings import alarm_quality
from holdfast.benchmarks.papers.aetta import setting as aetta
from holdfast.benchmarks.papers.flips import setting as thesis
from holdfast.benchmarks.results.collapse import Interval, aetta_alarm, intervals, trailing_mean
from holdfast.benchmarks.results.flip_points import Point, points
from holdfast.benchmarks.results.runs import Run, collect, grouped, with_results
from holdfast.benchmarks.run_cli import RunCLI
from holdfast.benchmarks.suites.grid import CONFIGS, cells, load
from holdfast.callbacks.functional.flips import FlipFunction

IMAGES = 10 * np.arange(1, 101)


def test_trailing_mean() -> None:
    np.testing.assert_allclose(trailing_mean(np.array([1.0, 2, 3, np.nan]), 2), [1, 1.5, 2.5, 3])
    assert math.isnan(trailing_mean(np.array([np.nan]))[0])


def test_intervals() -> None:
    flags = np.array([1, 1, 0, 1, 0, 0, 1, 1, 1], dtype=bool)
    assert intervals(flags) == [Interval(0, 1), Interval(3, 3), Interval(6, 8)]
    assert intervals(flags, 3) == [Interval(6, 8)]
    assert intervals(~flags[:0]) == []


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
    found = alarm_quality(collapsed, alarms, IMAGES)
    assert (found.collapses, found.delays, found.false_alarms) == (1, delays, false_alarms)
    assert found.missed == 1 - len(delays)


def test_aetta_rule_as_an_alarm() -> None:
    steady = np.full(30, 0.6)
    assert not aetta_alarm(steady).any()
    falling = np.r_[steady[:15], np.full(15, 0.5)]
    assert np.flatnonzero(aetta_alarm(falling)).tolist() == list(range(16, 23))
    assert aetta_alarm(np.full(3, 0.1)).all()


def run(
    folder: Path,
    method: str,
    estimate: list[float],
    accuracy: list[float],
    /,
    override: str = "",
    seed: int | None = 1,
    setting: str = "s",
    rows: list[dict[str, Any]] | None = None,
    **facts: Any,
) -> Run:
    """A finished run of batches of 10 images, as it would lie in a suite's folder."""
    own = folder / f"{len(list(folder.iterdir()))}"
    own.mkdir()
    names = {"method": method, "override": override, "stream": "s", "setting": setting}
    (own / "cell.json").write_text(json.dumps({"names": {**names, "seed": seed}, "config": {}}))
    names = {"method": method, "stream": "Corrupted", "stream_id": "x"}
    facts = {**names, "seed": seed, "images": None, "started": own.name, **facts}
    (own / "provenance.json").write_text(json.dumps(facts))
    rows = rows or [
        {"accuracy": a, "GDE": e, "GDE_error": abs(a - e), "reset": 0.0}
        | {"corruptions": "fog@5" if n < 10 else "snow@5"}
        for n, (a, e) in enumerate(zip(accuracy, estimate, strict=True))
    ]
    counted = ({"images": 10 * (n + 1), "seconds": n + 1, **row} for n, row in enumerate(rows))
    (own / "record.jsonl").write_text("".join(json.dumps(row) + "\n" for row in counted))
    (own / "summary.json").write_text("{}")
    return Run.load(own)


def test_warnings_compare_with_the_source_model(tmp_path: Path) -> None:
    source = run(tmp_path, "Source", [0.4] * 40, [0.5] * 40)
    tent = run(tmp_path, "Tent", [0.6] * 20 + [0.0] * 20, [0.8] * 10 + [0.0] * 30)
    assert warnings.warnings(with_results([tent])) == []
    found = warnings.warnings(with_results([source, tent]), window=4)
    quality = {warning.rule: warning.quality for warning in found}
    assert quality["below source"].delays == [100]
    assert quality["drop"].delays == [90]  # one batch earlier: 0 is below the floor at once
    assert quality["below source"].false_alarms == 0
    assert "+100 images" in warnings.table(found)


def test_the_source_model_is_the_one_of_the_same_weights(tmp_path: Path) -> None:
    """Of two networks on one stream, each run is set beside its own; without one, nothing is said."""
    low, high = (
        run(tmp_path, "Source", [a] * 8, [a] * 8, weights=f"{a}", override=f"{a}")
        for a in (0.2, 0.8)
    )
    tents = [run(tmp_path, "Tent", [0.5] * 8, [0.5] * 8, weights=w) for w in ("0.2", "0.8", "0.5")]
    with_results([high, *tents, low])
    assert [tent.source for tent in tents] == [low, high, None]
    assert [tent.collapsed for tent in tents] == [False, True, None]


def test_errors_are_means_over_corruptions_then_seeds(tmp_path: Path) -> None:
    one = run(tmp_path, "Tent", [0.5] * 40, [0.6] * 10 + [0.9] * 30)
    two = run(tmp_path, "Tent", [0.5] * 40, [0.7] * 10 + [0.9] * 30, seed=2)
    text = table.error_table([one, two])
    assert "25.00 ± 0.00" not in text
    assert table.by_seed([one, two], "GDE_error") == pytest.approx({1: 0.25, 2: 0.3})
    assert "27.50 ± 3.54" in text


def test_recovery_gains(tmp_path: Path) -> None:
    """Methods and schemes by their names, hyphens or not."""
    flat = [0.5] * 40
    accuracy = {("Tent", ""): 0.2, ("Tent", "M-R"): 0.5, ("A-b", ""): 0.4, ("A-b", "M-R"): 0.3}
    runs = [run(tmp_path, m, flat, [a] * 40, override) for (m, override), a in accuracy.items()]
    lines = table.recovery_table(runs).splitlines()
    assert lines[0].split() == ["recovery", "Tent", "A-b", "Avg"]
    assert lines[1].split() == ["M-R", "30.00", "-10.00", "10.00"]
    assert lines[2].split()[-3:] == ["20.00", "40.00", "30.00"]


def test_published_numbers_only_in_the_published_setting(tmp_path: Path) -> None:
    def made(
        setting: str = "Continual CIFAR10-C",
        corruptions: int = 15,
        batches: int = 156,
        method: str = "TENT",
        override: str = "",
        rate: float | None = None,
        source: dict[str, str] | None = None,
        passes: int = 10,
        severity: int = 5,
        **facts: Any,
    ) -> Run:
        """A run in AETTA's setting, with these changes."""
        rows = [
            {"corruptions": f"c{k}@5", "accuracy": 0.5, "reset": 0.0, "AETTA": 0.5}
            | {"AETTA_error": 0.0}
            for k in range(corruptions)
            for _ in range(batches)
        ]
        cifar = {"net": "CIFARResNet18(10)", "epochs": "200", "seed": "1", "name": "cifar10"}
        defaults = {"stream": "CIFARC", "batch_size": 64, "weights_from": cifar | (source or {})}
        defaults |= {"estimators": {"AETTA": {"passes": passes, "alpha": 3.0}, "Mine": {}}}
        defaults |= {"precision": "32-true", "resets": []}
        defaults |= {"parts": [[[[f"c{k}", severity]], "-", 9_984] for k in range(corruptions)]}
        given = {**defaults, **facts}
        one = run(tmp_path, method, [], [], override, setting=setting, rows=rows, **given)
        path = CONFIGS / "methods" / "tent-aetta-cifar10.yaml"
        model = yaml.safe_load(path.read_text())["model"]
        if rate is not None:
            model["init_args"]["optimizer"]["init_args"]["lr"] = rate
        (one.folder / "config.yaml").write_text(yaml.safe_dump({"model": model}))
        return one

    def shown(one: Run) -> bool:
        return "published" in table.error_table([one])

    assert shown(made())
    assert shown(made("Fully CIFAR10-C"))
    assert not shown(made("Continual glyphs"))
    assert not shown(made("Fully CIFAR10-C, all of them"))
    assert not shown(made(stream="Corrupted"))
    assert not shown(made(batch_size=32))
    assert not shown(made(corruptions=14))
    assert not shown(made(batches=100))
    assert not shown(made(severity=4))
    assert not shown(made(rate=0.01))
    assert not shown(made(method="BNAdapt"))
    assert not shown(made(passes=5))
    assert not shown(made(source={"epochs": "1"}))
    assert not shown(made(source={"seed": "0"}))
    assert not shown(made("Continual ImageNet-C"))
    assert not shown(made(precision="bf16-mixed"))
    kept = {"class": "PeriodicReset", "keep_memory": True}
    once, twice = (kept | {"every": every} for every in (1, 2))
    assert not shown(made(resets=[once]))
    assert shown(made(override="Episodic", resets=[once]))
    assert not shown(made(override="Episodic", resets=[twice]))
    assert not shown(made(override="Episodic", resets=[once | {"keep_memory": False}]))
    assert not shown(made(override="Episodic", resets=[{"class": "PeriodicReset", "every": 1}]))
    assert not shown(made(override="Episodic", resets=[once, once]))
    assert not shown(made(override="Episodic"))
    assert not shown(made(method="TENT-Episodic", resets=[once]))
    old = made(override="Episodic", resets=["PeriodicReset(every=1)"])
    assert not shown(old)
    assert "as an earlier version did" in str(aetta.remark([old]))
    assert aetta.remark([made()]) is aetta.remark([made("Continual glyphs")]) is None
    assert not shown(made(override="Mine"))
    listens = {"class": "AccuracyReset", "estimator": "AETTA", "window": 5}
    rule = {"margin": 0.02, "floor": 0.2, "keep_memory": True}
    assert aetta.resets("AETTA") == [listens | rule]
    unfinished = made()
    (unfinished.folder / "summary.json").unlink()
    assert (
        aetta.difference([unfinished], aetta.CIFAR10) == f"{unfinished.folder}: it is not finished"
    )


def test_published_averages_are_over_the_same_methods() -> None:
    row = {"TENT": [1.0, 0.1], "SAR": [3.0, 0.2], "Avg": [2.0, 0.1]}
    assert aetta.row(row, ["TENT"]) == ["1.00 ± 0.10", "-"]
    assert aetta.row(row, ["SAR", "TENT"])[-1] == "2.00 ± 0.10"
    assert aetta.row(row, ["SAR", "TENT", "ETA"])[-2:] == ["-", "-"]


def test_runs_without_a_seed_have_a_table(tmp_path: Path) -> None:
    runs = [run(tmp_path, "Tent", [0.5] * 40, [a] * 40, seed=None) for a in (0.6, 0.7)]
    assert "15.00" in table.error_table(runs)


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
            "setting": name,
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
    tents = [run for run in collect(finished) if (run.setting, run.method) == ("fog", "Tent")]
    errors = np.abs([run.column("AETTA") - run.column("accuracy") for run in tents]).mean(1)
    of_fog = out.partition("gaussian_noise: mean absolute error")[0]
    assert f"{100 * errors.mean():.2f}" in of_fog
    assert [run.stream for run in tents] == ["fog 1", "fog 4"]
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
    flips, accuracy = [p.flips[True] for p in found], [100 * p.accuracy for p in found]
    assert f.coefficients == pytest.approx(np.polyfit(flips, accuracy, 1), rel=1e-6)
    assert f.provenance["method"] == "Tent"
    assert f.provenance["callback"]["stop"] == 3
    assert f.provenance["data"][0] == ["Corrupted", [["fog", 1.0]]]
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
    kept = np.load(point.run.folder / "flips.npz")
    assert kept["steps"].tolist() == [0, 2, 3]
    start, end = kept["classes"][:2, :16]
    rank = np.argsort(np.argsort(kept["confidence"][:16])) + 1
    again = point.recounted(stop=2, held=16).flips
    assert again[False] == pytest.approx(1000 * np.mean(start != end))
    assert again[True] == pytest.approx(1000 * np.sum((start != end) * rank / 16) / 16)


def as_in_the_thesis(folder: Path, number: int, **changes: Any) -> Run:
    """A run as the thesis made it, on a set of ImageNet-V2; `changes` of any of its facts."""
    part = ("matched-frequency", "threshold0.7", "top-images")[number]
    init_args = {"name": changes.pop("name", "imagenet-v2"), "parts": [part]}
    settings = {"held": changes.pop("held", 1000), "stop": 990, "data": None}
    rate = changes.pop("rate", 0.00025)
    facts = {
        "batch_size": 64,
        "method": "RDumb",
        "resets": [{"class": "PeriodicReset", "every": 1000}],
        "weights_from": {"name": "torchvision/resnet50.IMAGENET1K_V1"},
        "optimizer": {
            "class": "SGD",
            "lr": rate,
            "momentum": 0.9,
            "maximize": False,
            "foreach": None,
        },
        "parts": [[[], "-", 10_000]],
        "estimators": {"WeightedFlips": settings},
        **changes,
    }
    one = run(folder, "RDumb", [0.5], [0.5], setting="IN-V2", seed=0, stream_id=part, **facts)
    data = {"class_path": "holdfast.datamodules.ImageSet", "init_args": init_args}
    (one.folder / "config.yaml").write_text(yaml.safe_dump({"data": data}))
    one.source = run(folder, "Source", [0.5], [0.6], setting="IN-V2", seed=0, stream_id=part)
    measured = {
        "images": 10,
        "AC": 0.5,
        "accuracy": 0.6,
        "collected_accuracy": 0.6,
        "collected_images": 10_000,
    }
    (one.source.folder / "summary.json").write_text(json.dumps(measured))
    return one


@pytest.mark.parametrize(
    ("changes", "confidence", "flips"),
    [
        ({}, 5.58, 4.70),
        ({"rate": 0.001}, 5.58, None),
        ({"held": 500}, 5.58, None),
        ({"method": "Tent", "rate": 0.0005}, 5.58, None),
        ({"resets": [{"class": "PeriodicReset", "every": 500}]}, 5.58, None),
        ({"optimizer": "SGD ( lr: 0.00025 maximize: False momentum: 0.9 )"}, 5.58, None),
        ({"batch_size": 32}, None, None),
        ({"name": "imagenet-c"}, None, None),
        ({"parts": [[[], "-", 50_000]]}, None, 4.70),  # not all images were collected
        ({"weights_from": {"name": "torchvision/resnet50.IMAGENET1K_V2"}}, None, None),
    ],
)
def test_published_errors_only_in_the_published_setting(
    tmp_path: Path, changes: dict[str, Any], confidence: float | None, flips: float | None
) -> None:
    runs = [as_in_the_thesis(tmp_path, k, **({**changes} if k == 1 else {})) for k in range(3)]
    by_setting = {"IN-V2": runs}
    published = thesis.published_errors
    assert published("T3.1", "AC", by_setting).get("IN-V2") == confidence
    assert published("T3.1", "WF", by_setting, {"held": 1000, "data": None}).get("IN-V2") == flips
    assert published("T3.1", "AC", {"IN-V2": runs[:2]}) == {}
    assert published("T3.2", "RN18", by_setting) == {}
    assert bool(thesis.remark(runs)) == isinstance(changes.get("optimizer"), str)
    measured = [Point(run, {True: 100.0}) for run in runs]
    known = {"resnet50": FlipFunction.load("resnet50"), "same": fitted(), "other": fitted(level=6)}
    for name, f in known.items():
        column = datasets.flip_column(measured, {0: f}, "T3.1", "WF")
        assert bool(column.published) == (name != "other" and flips is not None)


def test_ccc_is_a_data_set_of_27_streams(tmp_path: Path) -> None:
    """All of them, with the first 25,000 images each."""
    runs = []
    for n, (difficulty, speed, seed) in enumerate(sorted(thesis.CCC_STREAMS)):
        one = run(tmp_path, "RDumb", [0.5], [0.5], setting="CCC", seed=0, stream_id=str(n))
        walk = {"difficulty": difficulty, "speed": speed, "seed": seed}
        stream = {"class_path": "holdfast.datamodules.CCC", "init_args": walk}
        init_args = {"stream": stream, "pool": 25_000, "top": 0, "entropy": 0}
        data = {"class_path": "holdfast.datamodules.Omitting", "init_args": init_args}
        (one.folder / "config.yaml").write_text(yaml.safe_dump({"data": data}))
        runs.append(one)
    assert thesis.complete("CCC", runs)
    assert not thesis.complete("CCC", runs[1:])
    init_args["top"] = 1
    (one.folder / "config.yaml").write_text(yaml.safe_dump({"data": data}))
    assert not thesis.complete("CCC", [*runs[:-1], Run.load(one.folder)])


def test_weights_are_known_by_the_names_of_their_files() -> None:
    name = "torchvision/resnet50:/some/where/ANT.pth"
    assert thesis.weights_name({"weights_from": {"name": name}}) == thesis.BACKBONES["RN50+ANT"]
    suite = load("flips-imagenet-architectures")["overrides"]["{backbone}"]
    for override, backbone in suite["each"]["backbone"].items():
        column = thesis.COLUMNS.get(override, override)
        assert thesis.weights_name({"weights_from": {"name": backbone}}) == thesis.BACKBONES[column]


def fitted(level: int = 5) -> FlipFunction:
    """A function that was fitted to the thesis' streams, the last one's level being this."""
    levels = [(c, k) for c in thesis.HOLDOUT for k in (1, 2, 3, 4, 5)]
    levels[-1] = (levels[-1][0], level)
    data = [["Clean", []], *(["ImageSet", [[f"extra/{c}", float(k)]]] for c, k in levels)]
    return FlipFunction((0.0, 60.0), True, 1, {"data": data})


def test_table_of_errors() -> None:
    errors = {"a": {0: 0.01, 1: 0.03}, "b": {0: 0.05, 1: 0.01}}
    lines = datasets.table({"X": datasets.Column(errors, {"b": 7.0})}).splitlines()
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


def table_rows(text: str) -> list[list[str]]:
    """The texts of each line of a printed table."""
    return [re.split(" {2,}", line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def oddly_named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite whose names have hyphens, commas and numbers that mean nothing."""
    folder = tmp_path_factory.mktemp("names")
    listed = [
        {"class_path": "SoftmaxScore"},
        {"class_path": "WeightedFlips", "init_args": {"f": None, "held": 16, "stop": 2}},
        {
            "class_path": "DatasetEstimates",
            "init_args": {"validation": HELD, "images": 32, "validation_images": 50},
        },
    ]
    streams = {
        name: {
            "class_path": "Corrupted",
            "init_args": {
                **{"source": "Digits", "corruptions": ["fog"], "severities": [level], "each": 48},
                **{"batch_size": 16, "num_workers": 0},
            },
        }
        for name, level in (("fog, 3", 1), ("fog 4", 4), ("a-1, b", 5))
    }
    streams["a-1, b"]["setting"] = "fog, 3"
    resets = {"class_path": "PeriodicReset", "init_args": {"every": 1}}
    digits = {"backbone": "digits"}
    suite = {
        "out": str(folder / "runs"),
        "seeds": [0],
        "common": {"progress": False, "trainer": {"accelerator": "cpu", "callbacks": listed}},
        "streams": streams,
        "methods": {
            "Source": {"class_path": "Source", "init_args": digits},
            "BNAdapt-alpha": {"class_path": "Tent", "init_args": {**digits, "optimizer": SGD}},
        },
        "overrides": {"": {}, "at-once": {"trainer": {"callbacks": [*listed, resets]}}},
    }
    (folder / "suite.yaml").write_text(yaml.safe_dump(suite))
    assert main(["suite", str(folder / "suite.yaml")]) == 0
    return folder


def test_names_are_never_taken_apart(oddly_named: Path, capsys: pytest.CaptureFixture) -> None:
    runs = oddly_named / "runs"
    assert main(["report", str(runs), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["runs"]
    one = next(r for r in found if r["method"] == "BNAdapt-alpha-at-once" and r["seed"] == 0)
    assert one["stream"] == "a-1, b"
    names = {"method": "BNAdapt-alpha", "override": "at-once", "stream": "a-1, b", "seed": 0}
    assert one["names"] == {**names, "setting": "fog, 3"}

    assert main(["estimators", "table", str(runs)]) == 0
    out = capsys.readouterr().out
    titles = [line.partition(": ")[0] for line in out.splitlines() if ", seeds [0]" in line]
    assert titles == ["fog, 3", "fog, 3", "fog 4", "fog 4"]
    rows = table_rows(out)
    assert [r for r in rows if r[0] == "recovery"] == [
        ["recovery", "Source", "BNAdapt-alpha", "Avg"]
    ] * 2
    gains = next(r for r in rows if r[0] == "at-once")
    own = [r for r in collect(runs) if (r.setting, r.method) == ("fog, 3", "BNAdapt-alpha")]
    means = {
        override: np.mean([run.accuracy for run in same])
        for override, same in grouped(own, lambda run: run.override).items()
    }
    assert len(own) == 4
    assert gains[1:3] == ["0.00", f"{100 * (means['at-once'] - means['']):.2f}"]
    assert gains[2] != "0.00"


def test_settings_are_the_rows_of_data_sets(
    oddly_named: Path, capsys: pytest.CaptureFixture
) -> None:
    runs = oddly_named / "runs"
    assert main(["estimators", "datasets", str(runs), "--method", "BNAdapt-alpha"]) == 0
    rows = table_rows(capsys.readouterr().out)
    assert [row[0] for row in rows[3:5]] == ["fog, 3", "fog 4"]
    sources = {point.run.stream: point.source for point in points([runs], method="BNAdapt-alpha")}
    error = {s: abs(own["AC_T"] - own["collected_accuracy"]) for s, own in sources.items()}
    assert rows[3][1] == f"{50 * (error['fog, 3'] + error['a-1, b']):.2f}"
    assert rows[4][1] == f"{100 * error['fog 4']:.2f}"


def test_folders_of_older_suites_still_read(
    oddly_named: Path, capsys: pytest.CaptureFixture
) -> None:
    """Their cells have no setting, until their suite is run again."""
    cell = oddly_named / "runs" / "a-1, b-seed0" / "BNAdapt-alpha" / "cell.json"
    names = {"method": "BNAdapt-alpha", "stream": "a-1, b", "seed": 0, "override": ""}
    content = json.loads(cell.read_text())
    cell.write_text(json.dumps(content | {"names": names}))
    old = Run.load(cell.parent)
    assert (old.variant, old.stream, old.seed) == (("BNAdapt-alpha", ""), "a-1, b", 0)
    assert old.setting == "a-1, b"
    assert main(["suite", str(oddly_named / "suite.yaml")]) == 0
    assert json.loads(cell.read_text()) == content
    assert Run.load(cell.parent).setting == "fog, 3"
