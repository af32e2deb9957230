"""`holdfast estimators`: known answers on made-up records, and real runs through the commands."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from common import model
from made_up import put
from small_suites import corrupted_digits, write_suite

from holdfast.benchmarks.cli import main
from holdfast.benchmarks.results.estimators import alarm_quality, judged_alarms, warnings_table
from holdfast.benchmarks.results.flip_points import points_of
from holdfast.benchmarks.results.model_agreement import Models, estimate
from holdfast.benchmarks.results.runs import Run, collect, with_results
from holdfast.callbacks.functional.flips import FlipFunction
from holdfast.run_folder import OUTPUTS

IMAGES = 10 * np.arange(1, 101)


@pytest.mark.parametrize(
    ("alarm", "delays", "false_alarms"),
    [
        ([(45, 60)], [50], 0),  # late by five batches
        ([(30, 60)], [-100], 0),  # began shortly before, and lasts
        ([(0, 99)], [], 1),  # always on
        ([(10, 20), (70, 75)], [300], 1),
        ([(10, 20), (85, 90)], [], 2),  # a false alarm, and one after it has recovered
        ([(40, 41), (50, 51)], [0], 0),  # the first one counts, the second is not false
    ],
)
def test_alarms(alarm, delays, false_alarms):
    """Collapsed from batch 40 to 80; the dip of 5 batches at the start is too short to count."""
    collapsed, alarms = np.zeros(100, dtype=bool), np.zeros(100, dtype=bool)
    collapsed[40:81] = collapsed[:5] = True
    for first, last in alarm:
        alarms[first : last + 1] = True
    found = alarm_quality(collapsed, alarms, IMAGES)
    assert (found.collapses, found.delays, found.false_alarms) == (1, delays, false_alarms)


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


def test_warnings_compare_with_the_source_model(tmp_path):
    source = run(tmp_path, "Source", [0.4] * 40, [0.5] * 40)
    tent = run(tmp_path, "Tent", [0.6] * 20 + [0.0] * 20, [0.8] * 10 + [0.0] * 30)
    assert judged_alarms(with_results([tent])).empty
    found = judged_alarms(with_results([source, tent])).set_index("alarm")
    assert found["delays"]["below source"] == [110]
    assert found["delays"]["drop"] == [40]  # 0 is below the floor at once
    assert found["false_alarms"]["below source"] == 0
    assert "+110 images" in warnings_table(found.reset_index())["median delay"].tolist()


def test_the_source_model_is_the_one_of_the_same_weights(tmp_path):
    """Of two networks on one stream, each run is set beside its own; without one, nothing is said."""
    low, high = (
        run(tmp_path, "Source", [a] * 64, [a] * 64, weights=f"{a}", override=f"{a}")
        for a in (0.2, 0.8)
    )
    tents = [
        run(tmp_path, "Tent", [0.5] * 64, [0.5] * 64, weights=w) for w in ("0.2", "0.8", "0.5")
    ]
    with_results([high, *tents, low])
    assert [tent.source for tent in tents] == [low, high, None]
    assert [tent.collapsed for tent in tents] == [False, True, None]


def test_models_on_a_line_are_estimated_exactly():
    """Errors of independent models: agreement inside and outside lie on a line through the accuracy."""
    random, count, models = np.random.default_rng(0), 200_000, 4
    labels = random.integers(2, size=count)
    accuracy = np.linspace(0.55, 0.8, models)
    inside = np.array([np.where(random.random(count) < a, labels, 1 - labels) for a in accuracy])
    answer = estimate(Models("s", 0, list("abcd"), inside, labels, inside, labels))
    assert answer.r2 == pytest.approx(1)
    for name in ("ALine-S", "ALine-D"):  # the same data inside and outside: slope 1, bias 0
        np.testing.assert_allclose(answer.estimates[name], answer.truth, atol=1e-6)
    pairs = accuracy[:, None] * accuracy + (1 - accuracy[:, None]) * (1 - accuracy)
    expected = (pairs.sum(1) - pairs.diagonal()) / (models - 1)
    np.testing.assert_allclose(answer.estimates["agreement"], expected, atol=5e-3)
    assert answer.excess == pytest.approx((expected - accuracy).mean(), abs=5e-3)


# ---- the commands, on real runs ----------------------------------------------------------------------

DIGITS = {"class_path": "holdfast.datamodules.Digits", "init_args": {"split": "calibration"}}
HELD = {"validation": DIGITS, "images": 24, "validation_images": 30}
FLIPS = {"f": None, "held": 24, "at_once": 8, "stop": 3, "also": [2]}
SGD = {"class_path": "torch.optim.SGD", "init_args": {"lr": 1.0, "momentum": 0.9}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Source and Tent, watched by everything, on three streams of digits."""
    folder = tmp_path_factory.mktemp("suite")
    listed = [
        {"class_path": "AETTA", "init_args": {"passes": 2}},
        {"class_path": "WeightedFlips", "init_args": FLIPS},
        {"class_path": "DatasetEstimates", "init_args": {**HELD, "adapting": True}},
    ]
    streams = {
        f"{name} {level}": {
            "setting": name,
            **corrupted_digits(name, batch_size=8, severities=[level], each=24),
        }
        for name, level in (("fog", 1), ("fog", 4), ("gaussian_noise", 4))
    }
    methods = {"Source": model("Source"), "Tent": model("Tent", optimizer=SGD)}
    common = {"progress": False, "trainer": {"callbacks": listed}}
    suite = write_suite(folder, methods, streams, common=common, seeds=[0], out=str(folder))
    assert main(["suite", str(suite)]) == 0
    return folder


def test_quality_and_warnings(finished, capsys):
    assert main(["estimators", "quality", str(finished)]) == 0
    lines = [re.split("  +", line) for line in capsys.readouterr().out.splitlines()]
    (row,) = (line for line in lines if line[:3] == ["fog", "Tent", "AETTA"])
    runs = [run for run in collect(finished) if (run.setting, run.method) == ("fog", "Tent")]
    errors = [np.abs(run.column("AETTA") - run.column("accuracy")).mean() for run in runs]
    assert (row[3], row[6]) == ("2", f"{100 * np.mean(errors):.1f}")
    assert main(["estimators", "warnings", str(finished)]) == 0
    lines = [re.split("  +", line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0][:4] == ["method", "estimator", "alarm", "collapses"]
    assert [line[:3] for line in lines[1:]] == [
        ["Tent", "AETTA", rule] for rule in ("below source", "drop")
    ]


def test_fit_command(finished, tmp_path):
    file = tmp_path / "f.json"
    assert main(["estimators", "fit", str(finished), "--out", str(file)]) == 0
    f = FlipFunction.load(file)
    found = points_of(collect(finished))
    assert len(found) == 3
    flips, accuracy = [p.flips[True] for p in found], [100 * p.accuracy for p in found]
    assert f.coefficients == pytest.approx(np.polyfit(flips, accuracy, 2), rel=1e-6)
    assert f.provenance["method"] == "Tent"
    assert f.provenance["callback"]["stop"] == 3
    assert f.provenance["data"][0] == ["Corrupted", [["fog", 1.0]]]
    assert f.parameters == found[0].run.summary["WeightedFlips_parameters"] > 10_000
    assert main(["estimators", "fit", str(finished), "--method", "x*", "--out", str(file)]) == 2


def test_flips_of_other_stops_and_fewer_images(finished):
    """As counted by the definition from what the run kept."""
    point = points_of(collect(finished))[0]
    assert point.recounted().flips == pytest.approx(point.flips)
    kept = np.load(point.run.folder / "flips.npz")
    assert kept["steps"].tolist() == [0, 2, 3]
    start, end = kept["classes"][:2, :16]
    rank = np.argsort(np.argsort(kept["confidence"][:16])) + 1
    again = point.recounted(stop=2, held=16).flips
    assert again[False] == pytest.approx(1000 * np.mean(start != end))
    assert again[True] == pytest.approx(1000 * np.sum((start != end) * rank / 16) / 16)


def test_agree_command(finished, capsys):
    """Of two models there is no line, so each is estimated by their agreement alone."""
    assert main(["estimators", "agree", str(finished)]) == 0
    assert "fog 4" in capsys.readouterr().out
    both = [str(finished / "fog 4-seed0" / name) for name in ("Source", "Tent")]
    assert main(["estimators", "agree", *both]) == 0
    head, *rows = [re.split("  +", line) for line in capsys.readouterr().out.splitlines()[1:4]]
    outputs = [np.load(Path(folder) / OUTPUTS) for folder in both]
    agreement = np.mean(outputs[0]["classes"] == outputs[1]["classes"])
    assert "ALine-S" not in head
    for folder, arrays, texts in zip(both, outputs, rows, strict=True):
        row = dict(zip(head, texts, strict=True))
        accuracy = np.mean(arrays["classes"] == arrays["labels"])
        assert (row["stream"], row["seed"], row["model"]) == ("fog 4", "0", folder)
        assert row["accuracy"] == f"{100 * accuracy:.2f}"
        assert row["agreement"] == f"{100 * agreement:.2f}"
    others = [str(finished / name / "Source") for name in ("fog 1-seed0", "fog 4-seed0")]
    assert main(["estimators", "agree", *others]) == 2
    assert OUTPUTS in capsys.readouterr().err


def test_names_are_never_taken_apart(tmp_path, capsys):
    """Names may have hyphens, commas and numbers that mean nothing."""
    names = {"method": "BNAdapt-alpha", "override": "at-once", "stream": "a-1, b", "seed": 0}
    put(tmp_path / "run", {**names, "setting": "fog, 3"}, {}, [0.5] * 8)
    assert main(["report", str(tmp_path), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["runs"]
    assert found["method"] == "BNAdapt-alpha-at-once"
    assert found["names"] == {**names, "setting": "fog, 3"}
    cell = tmp_path / "run" / "cell.json"
    cell.write_text(json.dumps({"names": names}))  # as older suites wrote it
    assert Run.load(cell.parent).setting == "a-1, b"
