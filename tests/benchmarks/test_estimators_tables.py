"""Tables, warnings and fits: known answers on made-up records, and real runs through the commands."""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import model
from made_up import put
from small_suites import corrupted_digits, write_suite

from holdfast.benchmarks.cli import main
from holdfast.benchmarks.results.collapse import Interval, intervals, trailing_mean
from holdfast.benchmarks.results.estimate_quality import alarm_quality
from holdfast.benchmarks.results.estimators import judged_alarms, warnings_table
from holdfast.benchmarks.results.flip_points import find_points
from holdfast.benchmarks.results.runs import Run, collect, grouped, with_results
from holdfast.benchmarks.run.run_cli import RunCLI
from holdfast.benchmarks.suites.grid import SUITES, cells, load, scales
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


def run(
    folder: Path, method: str, estimate: list[float], accuracy: list[float], **facts: Any
) -> Run:
    """A finished run with these estimates by GDE and nothing else that is watched."""
    own = folder / f"{len(list(folder.iterdir()))}"
    names = {"method": method, "override": "", "stream": "s", "setting": "s", "seed": 1}
    names |= {key: facts.pop(key) for key in names.keys() & facts.keys()}
    estimates = [
        {"GDE": e, "GDE_error": abs(a - e)} for a, e in zip(accuracy, estimate, strict=True)
    ]
    put(own, names, {}, accuracy, exactly=True, columns=estimates, facts=facts)
    return Run.load(own)


def test_warnings_compare_with_the_source_model(tmp_path: Path) -> None:
    source = run(tmp_path, "Source", [0.4] * 40, [0.5] * 40)
    tent = run(tmp_path, "Tent", [0.6] * 20 + [0.0] * 20, [0.8] * 10 + [0.0] * 30)
    assert judged_alarms(with_results([tent])).empty
    found = judged_alarms(with_results([source, tent]), window=4).set_index("alarm")
    assert found["delays"]["below source"] == [100]
    assert found["delays"]["drop"] == [90]  # one batch earlier: 0 is below the floor at once
    assert found["false_alarms"]["below source"] == 0
    assert "+100 images" in warnings_table(found.reset_index())["median delay"].tolist()


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


# ---- the suites, the commands -------------------------------------------------------


class OnlyParsed(RunCLI):
    """The arguments of `holdfast test`, checked; the data need not be there."""

    def instantiate_classes(self) -> None: ...


SHARED = {
    "embedded",
    "rdumb/base",
    "rdumb/ten-methods",
    "rdumb/ccc-streams",
    "rdumb/holdout-streams",
}
SHARED |= {"flips/corruptions", "field/streams"}
NAMES = {path.relative_to(SUITES).with_suffix("").as_posix() for path in SUITES.rglob("*.yaml")}


@pytest.mark.parametrize(
    ("name", "scale"), [(n, s) for n in sorted(NAMES - SHARED) for s in scales(n) or [None]]
)
def test_suites_are_well_formed(name: str, scale: str | None) -> None:
    """All names differ, and `holdfast test` takes the arguments of the first run and of the last."""
    grid = list(cells(load(name, scale)))
    assert len({cell.folder for cell in grid}) == len(grid) > 0
    for cell in (grid[0], grid[-1]):
        config = OnlyParsed({**cell.config, "out": str(cell.folder)}).config
        assert config.seed_everything == cell.names["seed"]


HELD = {
    "class_path": "holdfast.datamodules.Digits",
    "init_args": {"split": "calibration"},
}
SGD = {"class_path": "torch.optim.SGD", "init_args": {"lr": 1.0, "momentum": 0.9}}


def short(corruption: str, **init_args: Any) -> dict[str, Any]:
    return corrupted_digits(corruption, batch_size=16, **init_args)


def finish(
    folder: Path, callbacks: list[Any], streams: dict[str, Any], tent: str = "Tent", **keys: Any
) -> None:
    """Run a suite of Source, and of Tent under this name, on these streams."""
    methods = {"Source": model("Source"), tent: model("Tent", optimizer=SGD)}
    common = {"progress": False, "trainer": {"callbacks": callbacks}}
    suite = write_suite(folder, methods, streams, common=common, seeds=[0], **keys)
    assert main(["suite", str(suite)]) == 0


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
        f"{name} {level}": {"setting": name, **short(name, severities=[level], each=64)}
        for name in ("fog", "gaussian_noise")
        for level in (1, 4)
    }
    finish(folder, listed, streams, out=str(folder))
    return folder


def test_errors_of_estimates_of_any_runs(finished: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["paper", "aetta/T2", "--runs", str(finished)]) == 0
    out = capsys.readouterr().out
    tents = [run for run in collect(finished) if (run.setting, run.method) == ("fog", "Tent")]
    errors = np.abs([run.column("AETTA") - run.column("accuracy") for run in tents]).mean(1)
    row = next(line for line in out.splitlines() if line.startswith("fog: AETTA"))
    assert f"{100 * errors.mean():.2f}" in row
    assert [run.stream for run in tents] == ["fog 1", "fog 4"]
    assert "  published" not in out
    assert (finished / "results" / "T2.png").stat().st_size > 5_000


def test_warnings_command(finished: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["estimators", "warnings", str(finished), "--window", "2"]) == 0
    out = capsys.readouterr().out
    assert "below source" in out
    assert "AETTA" in out
    assert "WeightedFlips" not in out
    with pytest.raises(SystemExit):
        main(["estimators", "warnings", str(finished), "--window", "0"])
    assert "at least 1" in capsys.readouterr().err


def test_fit_and_datasets_commands(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    file = tmp_path / "f.json"
    words = [str(finished), "--degree", "1", "--out", str(file)]
    assert main(["estimators", "fit", *words]) == 0
    f = FlipFunction.load(file)
    found = find_points([finished])
    assert len(found) == 4
    flips, accuracy = [p.flips[True] for p in found], [100 * p.accuracy for p in found]
    assert f.coefficients == pytest.approx(np.polyfit(flips, accuracy, 1), rel=1e-6)
    assert f.provenance["method"] == "Tent"
    assert f.provenance["callback"]["stop"] == 3
    assert f.provenance["data"][0] == ["Corrupted", [["fog", 1.0]]]
    assert f.parameters == found[0].parameters > 10_000
    assert main(["estimators", "fit", str(finished), "--streams", "x*", "--out", str(file)]) == 2
    capsys.readouterr()
    words = ["paper", "flips/TB.3", "--runs", str(finished)]
    assert main([*words, "--f", str(file)]) == 0
    row = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("fog"))
    wrong = [100 * abs(f(p.flips[True]) - p.accuracy) for p in found if p.run.setting == "fog"]
    assert f"{np.mean(wrong):.2f}" in row
    assert main([*words, "--fit-on", "fog*"]) == 2
    assert "no finished runs" in capsys.readouterr().err
    assert main(["paper", "aetta/T2", "--runs", str(finished), "--f", str(file)]) == 2
    assert "--f" in capsys.readouterr().err


def test_flips_of_other_stops_and_fewer_images(finished: Path) -> None:
    """As counted by the definition from what the run kept."""
    point = find_points([finished])[0]
    assert point.recounted().flips == pytest.approx(point.flips)
    kept = np.load(point.run.folder / "flips.npz")
    assert kept["steps"].tolist() == [0, 2, 3]
    start, end = kept["classes"][:2, :16]
    rank = np.argsort(np.argsort(kept["confidence"][:16])) + 1
    again = point.recounted(stop=2, held=16).flips
    assert again[False] == pytest.approx(1000 * np.mean(start != end))
    assert again[True] == pytest.approx(1000 * np.sum((start != end) * rank / 16) / 16)


@pytest.mark.parametrize("command", ["warnings", "agree"])
def test_a_folder_without_runs_is_refused_in_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["estimators", command, str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "runs" in line or "run of" in line


def test_flips_are_of_the_adapting_run_only(finished: Path) -> None:
    summary = json.loads((finished / "fog 4-seed0" / "Source" / "summary.json").read_text())
    assert summary["WeightedFlips_unweighted"] == 0
    assert {"AC", "COTT_T", "temperature", "AETTA_error"} <= summary.keys()
    adapting = json.loads((finished / "fog 4-seed0" / "Tent" / "summary.json").read_text())
    assert "AC" not in adapting


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
        name: short("fog", severities=[level], each=48)
        for name, level in (("fog, 3", 1), ("fog 4", 4), ("a-1, b", 5))
    }
    streams["a-1, b"]["setting"] = "fog, 3"
    resets = {"class_path": "PeriodicReset", "init_args": {"every": 1}}
    overrides = {"": {}, "at-once": {"trainer": {"callbacks": [*listed, resets]}}}
    finish(folder, listed, streams, "BNAdapt-alpha", overrides=overrides)
    return folder


def test_names_are_never_taken_apart(oddly_named: Path, capsys: pytest.CaptureFixture) -> None:
    runs = oddly_named / "runs"
    assert main(["report", str(runs), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["runs"]
    one = next(r for r in found if r["method"] == "BNAdapt-alpha-at-once" and r["seed"] == 0)
    assert one["stream"] == "a-1, b"
    names = {"method": "BNAdapt-alpha", "override": "at-once", "stream": "a-1, b", "seed": 0}
    assert one["names"] == {**names, "setting": "fog, 3"}

    assert main(["paper", "aetta/T3", "--runs", str(runs)]) == 0
    out = capsys.readouterr().out
    rows = [re.split(" {2,}", line) for line in out.splitlines()]
    assert ["", "Source", "BNAdapt-alpha", "Avg"] in rows
    gains = next(r for r in rows if r[0] == "at-once")
    own = [r for r in collect(runs) if r.method == "BNAdapt-alpha"]
    means = {
        override: np.mean([run.accuracy for run in same])
        for override, same in grouped(own, lambda run: run.override).items()
    }
    assert len(own) == 6
    assert float(gains[1]) == 0
    assert float(gains[2]) == pytest.approx(100 * (means["at-once"] - means[""]), abs=30)
    assert float(gains[2]) != 0


def test_settings_are_the_rows_of_data_sets(
    oddly_named: Path, capsys: pytest.CaptureFixture
) -> None:
    runs = oddly_named / "runs"
    file = oddly_named / "f.json"
    assert (
        main(
            [
                "estimators",
                "fit",
                str(runs),
                "--method",
                "BNAdapt-alpha",
                "--degree",
                "1",
                "--out",
                str(file),
            ]
        )
        == 0
    )
    capsys.readouterr()
    words = ["paper", "flips/T3.1", "--runs", str(runs), "--f", str(file)]
    assert main(words) == 0
    rows = [re.split(" {2,}", line) for line in capsys.readouterr().out.splitlines()]
    sources = {
        point.run.stream: point.source for point in find_points([runs], method="BNAdapt-alpha")
    }
    error = {s: abs(own["AC_T"] - own["collected_accuracy"]) for s, own in sources.items()}
    (first,) = (row for row in rows if row[0] == "fog, 3")
    (second,) = (row for row in rows if row[0] == "fog 4")
    assert first[1].startswith(f"{50 * (error['fog, 3'] + error['a-1, b']):.2f}")
    assert second[1].startswith(f"{100 * error['fog 4']:.2f}")


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
