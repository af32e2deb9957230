"""Figures of `holdfast paper rdumb/...`: walks, images, sizes of weights, steps to a peak."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up import put

from holdfast.benchmarks.cli import main
from holdfast.benchmarks.papers.experiment import Experiment, declaration, experiments, named
from holdfast.benchmarks.papers.picture import corrupted
from holdfast.benchmarks.papers.pipeline import Plan, train_missing
from holdfast.benchmarks.papers.rdumb import peaks, survival, variation, walk_images, weights
from holdfast.benchmarks.papers.table import Table
from holdfast.benchmarks.papers.verdicts import PREMISE
from holdfast.benchmarks.results.runs import Run
from holdfast.benchmarks.suites.cell import Cell
from holdfast.datamodules import Calibration
from holdfast.datamodules.ccc import EASY
from holdfast.methods import load_backbone
from holdfast.methods.parts.norm import batch_norms

ALL = experiments()


def run_of(folder: Path, rows: list[dict[str, Any]], stream: str = "s", setting: str = "") -> Run:
    """A finished run with these rows."""
    names = {"method": "ETA", "override": "", "stream": stream, "seed": 1}
    accuracy = [float(row["accuracy"]) for row in rows]
    put(folder, names | {"setting": setting or stream}, {}, accuracy, columns=rows)
    return Run.load(folder)


def test_walks_are_told_from_the_record(tmp_path: Path) -> None:
    """Fog gives way to snow, and that to frost; severities cross while accuracy stays."""
    first = ["fog@2", "fog@2+snow@1", "fog@1+snow@2", "snow@3"]
    second = ["snow@4", "snow@3+frost@1", "snow@1+frost@2", "frost@2"]
    rows = [{"corruptions": c, "accuracy": 0.3} for c in (*first, *second, "frost@2+fog@1")]
    run = run_of(tmp_path / "run", [row for row in rows for _ in range(2)])
    found = walk_images.walks(walk_images.steps(run))
    assert [[*walk[0].severities, *walk[-1].severities] for walk in found] == [
        ["fog", "snow"],
        ["snow", "frost"],
    ]
    assert [len(walk) for walk in found] == [4, 4]
    assert found[1][0].severities == {"snow": 4}
    table = walk_images.table([run])
    leaving, entering = walk_images.LEAVING, walk_images.ENTERING
    assert table.mean(*leaving, 0) == 3
    assert table.mean(*leaving, 100) == table.mean(*entering, 0) == 0
    assert table.mean(*entering, 100) == 2.5
    assert table.mean(*walk_images.ACCURACY, 50) == pytest.approx(30)


def test_steps_to_the_highest_accuracy(tmp_path: Path) -> None:
    """It rises for a fifth of the steps and falls slowly after that."""
    accuracy = [0.1 + 0.004 * min(n, 80) - 0.0005 * max(n - 80, 0) for n in range(400)]
    rows = {n: [{"corruptions": f"fog@{n}", "accuracy": a} for a in accuracy] for n in (1, 2)}
    runs = [run_of(tmp_path / str(n), own, f"fog {n}", "fog") for n, own in rows.items()]
    table = peaks.table(runs)
    assert table.xs == [20 * n for n in range(1, 21)]
    assert [*table.cells] == [("fog", "severity 1"), ("fog", "severity 2")]
    assert re.search("^fog: ETA.* 100, 100 steps", table.notes[0])
    assert table.mean("fog", "severity 1", 100) == pytest.approx(100)
    assert peaks.near_peak(table) == 200
    for find in (peaks.gained, peaks.kept):
        (part,) = find(table)
        assert part.found is not None
        assert part.found.mean > 0
        assert part.found.n == 2  # runs


def test_weights_grow_after_the_collapse(tmp_path: Path) -> None:
    """Two layers of a stage are one; what was measured at some steps counts from there on."""
    rows: list[dict[str, Any]] = []
    for n in range(40):
        measured = {
            f"{weights.NORM}net.layer1.bn{k}.weight": 1 + max(n - 20, 0) / 10 for k in (1, 2)
        }
        low = {"corruptions": "fog@3", "accuracy": 0.4 if n < 16 else 0.1}
        rows.append(low | (measured if n % 4 == 0 else {}))
    run = run_of(tmp_path / "eta", rows)
    run.source = run_of(tmp_path / "source", [{**row, "accuracy": 0.3} for row in rows])
    table = weights.table([run])
    assert table.xs == [*range(0, 40, 4)]
    assert [*table.cells] == [("accuracy", "ETA"), ("accuracy", "Source"), ("weights", "layer1")]
    assert table.mean("weights", "layer1", 0) == 100
    assert table.mean("weights", "layer1", 36) == pytest.approx(260)
    assert weights.collapse(table) == 16
    (part,) = weights.later(table)
    assert part.found is not None
    assert part.found.mean == pytest.approx(160)


def test_survival_is_the_share_of_runs_above_the_source_model(tmp_path: Path) -> None:
    """Three of four runs fall below it, at 20, 40 and 60; a dip of ten batches is no collapse."""
    runs = []
    for n, fall in enumerate((20, 40, 60, 100)):
        accuracy = [0.5 if step < fall else 0.0 for step in range(100)]
        accuracy[5:15] = [0.2] * 10 if fall == 100 else accuracy[5:15]
        rows = [{"accuracy": a, "images": 10 * (s + 1)} for s, a in enumerate(accuracy)]
        run = run_of(tmp_path / str(n), rows, f"s{n}", "CCC-Easy")
        level = [{**row, "accuracy": 0.3} for row in rows]
        run.source = run_of(tmp_path / f"source{n}", level, f"s{n}", "CCC-Easy")
        runs.append(run)
    table = survival.table(runs)
    ended = table.by_run(survival.TO_THE_END, runs[0].label)
    assert [*ended.values()] == [0, 0, 0, 100]
    own = survival.survival(table, runs[0].label)
    assert own.probabilities == pytest.approx([0.75, 0.5, 0.25, 0.25])
    assert own.quantiles[:3] == pytest.approx([0.3, 0.5, 0.7], abs=0.05)  # thousands of images
    assert own.quantiles[3] == 1
    assert survival.picture(table, [], tmp_path / "p.png").stat().st_size > 5_000


def test_the_difficulty_varies_more_where_its_deviation_exceeds_every_other() -> None:
    table = Table()
    for panel, run, swing in (("a", "1", 9), ("a", "2", 8), ("b", "1", 5), ("b", "2", 6)):
        for x, value in ((5, 40 - swing), (10, 40 + swing)):
            table.add(panel, "Source", x, run, value)
    (part,) = variation.more(table, "a", "b")
    assert part.found is not None
    assert part.found.mean == pytest.approx(2.5)


def test_without_a_collapse_nothing_is_said_of_growth_after_it() -> None:
    """Fault 8 of the audit: the premise of the claim is that ETA ends below the source model."""
    own = ALL["rdumb/Fig2.6c"]
    verdict = own.verdicts(own.committed)[1]
    assert (verdict.claim.id, verdict.state) == ("grow-after-collapse", PREMISE)


def test_images_under_two_corruptions() -> None:
    stream = {"source": "Digits", "table": "cifar"}
    pairs = [(("fog", i), ("contrast", j)) for i, j in ((0.0, 0.0), (3.0, 0.0), (3.0, 5.0))]
    images = corrupted(stream, pairs)  # type: ignore[arg-type]
    assert images.shape == (3, 32, 32, 3)
    assert images.dtype == np.uint8
    assert images[2].std() < images[1].std()
    assert (images[0] != images[1]).any()


def test_pictures_from_a_calibration(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    i, j = np.mgrid[:21, :21]
    falling = np.broadcast_to(80 * np.exp(-(i + j) / 12), (len(EASY), len(EASY), 21, 21))
    path = tmp_path / "falling.npz"
    Calibration(EASY, falling, {}).save(path)
    picture = tmp_path / "deep" / "walks.png"
    words = ["calibrate", "--paths", str(path)]
    assert main([*words, "--targets", "40", "20", "--picture", str(picture)]) == 0
    assert f"figure: {picture}" in capsys.readouterr().out
    assert picture.stat().st_size > 10_000
    for more, sentence in (
        (["--picture", "walks.txt"], ".png, .svg, .pdf"),
        (["--picture", "w.png", "--pair", "fog", "fog"], "two different corruptions"),
        (["--picture", "w.png", "--pair", "fog", "rain"], "The calibration lacks rain"),
    ):
        assert main([*words, *more]) == 2
        assert sentence in capsys.readouterr().err


def test_the_walks_of_figure_2_2_and_its_picture(tmp_path: Path) -> None:
    """From the embedded calibration, whatever it is: three walks, each near its own target."""
    own = ALL["rdumb/Fig2.2"]
    cells = own.cells("embedded")
    table = own.table("embedded", cells)
    assert table.curves() == ["CCC-Easy", "CCC-Medium", "CCC-Hard"]
    for row in table.curves():
        low, mean, high = (
            table.mean("", row, f"{word} accuracy") for word in ("least", "mean", "highest")
        )
        assert low is not None and high is not None and mean is not None  # noqa: PT018
        assert low <= mean <= high
    drawn(own, table, cells, tmp_path)
    own = ALL["rdumb/FigA.3"]
    drawn(own, Table(), own.cells("embedded", out=str(tmp_path)), tmp_path)


def drawn(own: Experiment, table: Table, cells: list[Cell], folder: Path) -> None:
    picture = named(own.picture, own.paper)(table, cells, folder / f"{own.file}.png")
    assert picture.stat().st_size > 10_000


def test_source_models_that_are_missing_are_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, and only those that are needed; here one without batch normalisation."""
    monkeypatch.chdir(tmp_path)
    options = ("digits", "--norm", "group", "--width", "8", "--steps", "4")
    trains = {"runs/source/own.safetensors": options, "runs/source/other.safetensors": options}
    content = {"shows": "", "suites": {}, "runs": {"accuracy": {}}, "trains": trains}
    config = {"model": {"init_args": {"backbone": "runs/source/own.safetensors"}}}
    cell = Cell({"method": "ETA"}, tmp_path / "run", config, {})
    plan = Plan(declaration("rdumb/x", content), "embedded", [cell])
    train_missing(plan)
    (file,) = Path("runs/source").iterdir()
    assert file.name == "own.safetensors"
    before = file.stat().st_mtime_ns
    train_missing(plan)
    assert file.stat().st_mtime_ns == before
    backbone = load_backbone(str(file))
    assert not [*batch_norms(backbone)]
    assert backbone.provenance["norm"] == "group"  # type: ignore[index]
