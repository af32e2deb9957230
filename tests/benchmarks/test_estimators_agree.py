"""Agreement of several models: of trained ones through the command, and of made-up predictions."""

import json
from pathlib import Path

import numpy as np
import pytest

from holdfast.benchmarks.cli import main
from holdfast.benchmarks.results.model_agreement import Models, estimate
from holdfast.benchmarks.suites.variants import expanded
from holdfast.run_folder import OUTPUTS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models trained for longer and longer, on two streams of digits."""
    path = tmp_path_factory.mktemp("models")
    for seed, steps in enumerate((8, 14, 24)):
        words = ["digits", "--steps", str(steps), "--seed", str(seed)]
        out = path / f"m{seed}.safetensors"
        assert main(["train-source", *words, "--width", "8", "--out", str(out)]) == 0
    (path / "suite.yaml").write_text(f"""
out: {path}/runs
seeds: [0]
common:
  progress: false
  trainer:
    accelerator: cpu
    callbacks:
    - class_path: DatasetEstimates
      init_args: {{validation: {{class_path: Digits, init_args: {{split: calibration}}}}}}
methods: {{Source: source}}
streams:
  "fog {{level}}":
    each: {{level: [1, 4]}}
    class_path: Corrupted
    init_args: {{source: Digits, corruptions: [fog], severities: ["{{level}}"], each: 256, num_workers: 0}}
overrides:
  m0: {{model: {{init_args: {{backbone: {path}/m0.safetensors}}}}}}
  m1: {{model: {{init_args: {{backbone: {path}/m1.safetensors}}}}}}
  m2: {{model: {{init_args: {{backbone: {path}/m2.safetensors}}}}}}
""")
    assert main(["suite", str(path / "suite.yaml")]) == 0
    return path / "runs"


def test_agree_command(folder: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["estimators", "agree", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "fog 1 " in shown
    assert "fog 4 " in shown
    one = folder / "fog 4-seed0"
    assert main(["estimators", "agree", "--json", *map(str, sorted(one.iterdir()))]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    outputs = [np.load(path / "outputs.npz") for path in sorted(one.iterdir())]
    a, b, c = (o["classes"] for o in outputs)
    expected = [np.mean(a == b) + np.mean(a == c), np.mean(b == a) + np.mean(b == c)]
    assert found["agreement"][:2] == pytest.approx([e / 2 for e in expected])
    for path, accuracy, own in zip(found["models"], found["accuracy"], outputs, strict=True):
        summary = json.loads((Path(path) / "summary.json").read_text())
        assert accuracy == pytest.approx(summary["collected_accuracy"])
        assert accuracy == pytest.approx(np.mean(own["classes"] == own["labels"]))
    assert main(["estimators", "agree", str(one)]) == 0
    assert "Source-m1" in capsys.readouterr().out


def test_runs_that_do_not_fit_are_refused(folder: Path, capsys: pytest.CaptureFixture) -> None:
    runs = [folder / f"fog {level}-seed0" / "Source-m0" for level in (1, 4)]
    assert main(["estimators", "agree", *map(str, runs)]) == 2
    assert OUTPUTS in capsys.readouterr().err


def test_models_on_a_line_are_estimated_exactly() -> None:
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


def test_two_models_only_agree() -> None:
    labels = np.arange(60) % 3
    classes = np.stack([labels, (labels + (np.arange(60) < 30)) % 3])
    answer = estimate(Models("s", 0, ["a", "b"], classes, labels, classes, labels))
    assert list(answer.estimates) == ["agreement"]
    assert answer.estimates["agreement"].tolist() == [0.5, 0.5]


def test_streams_written_once() -> None:
    streams = {
        "{a} {b}": {"each": {"a": ["x", "y"], "b": [1, 2]}, "init_args": {"p": ["{a}/{b}", "{b}"]}},
        "plain": {"class_path": "CCC"},
        "named": "cin-c",
    }
    found = {variant.name: variant.config for variant in expanded(streams)}
    assert list(found) == ["x 1", "x 2", "y 1", "y 2", "plain", "named"]
    assert found["y 2"] == {"init_args": {"p": ["y/2", 2]}}
    assert found["plain"] == {"class_path": "CCC"}
