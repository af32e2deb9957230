"""Analyses of single papers on runs and simulations whose answers are known, and their pictures."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_up import put
from scipy.stats import CensoredData, logrank

from holdfast.benchmarks.papers import EXPERIMENTS
from holdfast.benchmarks.papers.aetta import tables as aetta
from holdfast.benchmarks.papers.engine.picture import draw
from holdfast.benchmarks.papers.engine.table import Table
from holdfast.benchmarks.papers.field import tables as field
from holdfast.benchmarks.papers.flips import figures as flips
from holdfast.benchmarks.papers.monitoring import forecast
from holdfast.benchmarks.papers.monitoring import tables as monitoring
from holdfast.benchmarks.papers.rdumb import figures, tables, walks
from holdfast.benchmarks.results.run_statistics import log_hazard_ratio
from holdfast.benchmarks.results.runs import Run, collect
from holdfast.callbacks import RiskMonitor


def run_of(folder: Path, rows: list[dict[str, Any]], stream: str = "s", method: str = "ETA") -> Run:
    """A finished run with these rows."""
    names = {"method": method, "override": "", "stream": stream, "setting": "CCC-Easy", "seed": 1}
    put(folder, names, {}, [float(row["accuracy"]) for row in rows], columns=rows)
    return Run.load(folder)


def test_walks_are_read_from_the_record(tmp_path):
    """Fog gives way to snow, and that to frost; severities cross while accuracy stays."""
    first = [{"fog": 2}, {"fog": 2, "snow": 1}, {"fog": 1, "snow": 2}, {"snow": 3}]
    second = [{"snow": 4}, {"snow": 3, "frost": 1}, {"snow": 1, "frost": 2}, {"frost": 2}]
    rows = [
        {"corruptions": [[name, float(level)] for name, level in pairs.items()], "accuracy": 0.3}
        for pairs in (*first, *second, {"frost": 2, "fog": 1})
        for _ in range(2)
    ]
    run = run_of(tmp_path / "run", rows)
    found = walks.complete_walks(walks.steps_of(run))
    ends = [[*walk[0].severities, *walk[-1].severities] for walk in found]
    assert ends == [["fog", "snow"], ["snow", "frost"]]
    assert [len(walk) for walk in found] == [4, 4]
    assert found[1][0].severities == {"snow": 4}
    table = walks.along_walks([run])
    levels = [table.mean("severity", curve, 0) for curve in ("leaving", "entering")]
    assert levels == [3, 0]
    assert table.mean("severity", "entering", 100) == 2.5
    assert table.mean("accuracy", "Source", 50) == pytest.approx(30)


def test_survival_is_the_share_of_runs_above_the_source_model(tmp_path):
    """Three of four runs fall below it, at 20, 40 and 60; a dip of ten batches is no collapse."""
    runs = []
    for n, fall in enumerate((20, 40, 60, 100)):
        accuracy = [0.5 if step < fall else 0.0 for step in range(100)]
        accuracy[5:15] = [0.2] * 10 if fall == 100 else accuracy[5:15]
        rows = [{"accuracy": a, "images": 10 * (s + 1)} for s, a in enumerate(accuracy)]
        runs.append(run_of(tmp_path / str(n), rows, f"s{n}"))
        level = [{**row, "accuracy": 0.3} for row in rows]
        runs[-1].source = run_of(tmp_path / f"source{n}", level, f"s{n}")
    table = tables.survival(runs)
    assert [*table.by_run(tables.TO_THE_END, "ETA").values()] == [0, 0, 0, 100]
    assert tables.lifetimes(table, "ETA", table.xs[0])[0] == (pytest.approx(0.3, abs=0.1), True)
    (part,) = tables.outlasts("RDumb", ["ETA", "Tent"])(table)
    assert part.number is None  # there are no runs of RDumb
    own = tables.kaplan_meier(table, "ETA")
    assert own.probabilities == pytest.approx([0.75, 0.5, 0.25, 0.25])
    assert own.quantiles[:3] == pytest.approx([0.3, 0.5, 0.7], abs=0.05)  # thousands of images
    path = tables.draw_survival(table, [], tmp_path / "picture.png")
    assert path.stat().st_size > 5_000


def test_log_hazard_ratio_is_that_of_the_log_rank_test():
    """Against scipy's statistic of one stratum; twice the same stratum halves the variance."""
    ours = [(256.0, False), (256.0, False), (200.0, True), (150.0, True), (256.0, False)]
    theirs = [(90.0, True), (150.0, True), (110.0, True), (256.0, False), (120.0, True)]
    censored = [
        CensoredData([t for t, fell in group if fell], right=[t for t, fell in group if not fell])
        for group in (theirs, ours)
    ]
    ratio = log_hazard_ratio([(ours, theirs)])
    error = (ratio.mean - ratio.low) / 1.959964
    assert ratio.mean / error == pytest.approx(logrank(*censored).statistic)
    double = log_hazard_ratio([(ours, theirs)] * 2)
    assert double.mean == pytest.approx(ratio.mean)
    assert double.mean - double.low == pytest.approx((ratio.mean - ratio.low) / 2**0.5)
    assert log_hazard_ratio([([(1.0, False)], [(2.0, False)])]) is None


def test_the_toy_is_stable_or_collapses():
    """With few points; the covariance is the text's, not that of eq. A.4."""
    clean, corrupted, _ = figures.data(4000, 25.0, seed=0)
    noise = np.cov((corrupted - clean @ figures.rotation(-np.pi / 9).T).T)
    turn = figures.rotation(-np.pi / 4) @ figures.rotation(-np.pi / 6).T
    np.testing.assert_allclose(noise, turn @ np.diag([0.25, 25]) @ turn.T, atol=1.5)
    found = figures.dynamics(400, 4000, 3)
    fall = {
        name: (found.mean("accuracy", name, 0) or 0) - (found.mean("accuracy", name, 4000) or 0)
        for name in figures.CONDITIONS
    }
    assert fall["condition 2"] > 10
    assert max(abs(fall["condition 1"]), abs(fall["eq. A.4"])) < 5


def test_disagreement_is_the_error_where_the_theorems_hold():
    """And is not, where a class is over-confident: to a tenth of a point over many images."""
    found = aetta.sampled(100_000, seed=0)
    assert found["disagreement"] == pytest.approx(found["error"], abs=0.004)
    found = aetta.sampled(100_000, seed=0, b=4.0)
    assert found["theorem"] == pytest.approx(found["error"], abs=0.008)
    assert found["disagreement"] < found["error"] - 0.04


def test_points_at_rest_are_ordinary_expectation_maximisation():
    """Whose likelihood never falls; points that move come together."""
    points, _, means = flips.mixture(3, 50, 4.0, np.random.default_rng(0))
    rest = [*flips.maximised(points, means + 2, 30, rate=0.0)]
    likelihoods = [
        np.log(np.exp(-0.5 * ((points[:, None] - centroids) ** 2).sum(-1)).sum(1)).sum()
        for _, centroids in rest
    ]
    assert np.all(np.diff(likelihoods) > -1e-9)
    assert all(np.array_equal(still, points) for still, _ in rest)
    *_, (moved, centroids) = flips.maximised(points, means, 200, rate=0.1)
    assert np.linalg.norm(moved[:, None] - centroids, axis=-1).min(1).max() < 0.1


@pytest.mark.parametrize("name", ["sudden drop", "collapse"])
def test_simulated_alarms_are_the_monitors(name):
    """From the same answers, at the same image."""
    own = monitoring.STREAMS[name]
    found = monitoring.first_alarms(own, 1, np.random.default_rng(3))
    random = np.random.default_rng(3)
    seen = monitoring.answers(own, monitoring.labels_of(own, random), random)
    fitted = monitoring.reference(own, seen, random)
    rest = torch.from_numpy((1 - seen.confidence) / (monitoring.CLASSES - 1))
    probs = rest[:, None].repeat(1, monitoring.CLASSES)
    predicted = torch.from_numpy(seen.classes)
    probs[torch.arange(len(rest)), predicted] = torch.from_numpy(seen.confidence)
    for watched, alarm in found.items():
        proxy, rule = watched.split(", ")
        monitor = RiskMonitor(reference=fitted, proxy=proxy, rule=rule)
        raised = [monitor.after_step(batch) for batch in probs.log().split(monitoring.BATCH)]
        at = monitoring.BATCH * (raised.index(True) + 1) if any(raised) else -1
        assert alarm[0] == at


def test_collapses_are_foretold_by_the_start(tmp_path):
    """Of two that collapse, one whose predictions concentrate in the first 5 % (2 of 40 batches)."""
    ends = {"Source": 0.3, "BNAdapt": 0.4, "RDumb": 0.5, "Tent": 0.0, "ETA": 0.0}
    for seed in (1, 2):
        for method, end in ends.items():
            entropy = 1.0 if method == "Tent" else 2.0 + seed
            columns = [
                {
                    f"{forecast.STATISTICS}_entropy": entropy,
                    f"{forecast.STATISTICS}_confidence": 0.5,
                }
            ]
            names = {"method": method, "override": "", "stream": "s", "setting": "s", "seed": seed}
            accuracy = [ends["BNAdapt"] if method != "Source" else end] * 2 + [end] * 38
            put(tmp_path / str(seed) / method, names, {}, accuracy, columns=columns * 40)
    table = EXPERIMENTS["monitoring/forecast"](collect(tmp_path))
    for signal, foretold in (("concentration of predictions", 50), ("confidence", 0)):
        for x, share in ((forecast.FORETOLD, foretold), (forecast.WRONGLY, 0)):
            assert table.values("", signal, x) == {f"s, seed {seed}": share for seed in (1, 2)}
    assert table.notes == [
        "4 of 8 runs collapse; in the first 5 % of the stream 0 of them are above BNAdapt."
    ]


def test_worst_seed_and_collapse_of_a_method(tmp_path):
    """A method that does not move the model is marked."""
    for seed, end in ((1, 0.5), (2, 0.0)):
        methods = {"Source": [0.3] * 80, "Tent": [0.5] * 40 + [end] * 40}
        methods |= {"BNAdapt": [0.45] * 80, "ETA+ASR": [0.4] + [0.45] * 79}
        for method, accuracy in methods.items():
            names = {"method": method, "override": "", "setting": "s", "seed": seed}
            names["stream"] = "CCC-Easy, i.i.d."
            put(tmp_path / str(seed) / method, names, {}, accuracy)
    runs = collect(tmp_path)
    for run in runs:
        run.factors = {"labels": "i.i.d."}
    found = field.all_methods(runs)
    of_tent = {x: found.mean("i.i.d.", "Tent", x) for x in found.xs_of("i.i.d.", "Tent")}
    assert of_tent["CCC-Easy"] == pytest.approx(37.5)
    assert (of_tent[field.WORST], of_tent[field.COLLAPSED]) == (pytest.approx(25), 50)
    assert 400 < (of_tent[field.WHEN] or 0) <= 410 + 10 * 20
    costs = json.loads(field.STEP_COSTS.read_text())["methods"]
    assert of_tent[field.COST] == costs["Tent"]["sources"]
    assert found.mean("i.i.d.", "Tent", field.STILL) == 0
    assert found.mean("i.i.d.", "ETA+ASR", field.STILL) == 100 * 79 / 80
    (mark,) = found.notes
    assert mark.startswith("ETA+ASR, i.i.d.: not applicable here")


# A picture of each kind: curves, dots, lines through points, walks, and those of single figures.
WALKS = ["rdumb/Fig2.2", "rdumb/FigA.3"]
DRAWN = [*WALKS, "rdumb/FigA.5", "rdumb/T2.1", "agreement/Fig3"]
DRAWN += ["rdumb/long", "flips/Fig3.4", "flips/Fig3.6", "field/glyphs", "field/recovery"]


@pytest.mark.parametrize("name", DRAWN)
def test_committed_results_are_drawn(name, tmp_path):
    own, path = EXPERIMENTS[name], tmp_path / "picture.png"
    table = Table.read(own.committed["embedded"])
    cells = own.source.cells("embedded")
    (own.picture(table, cells, path) if own.picture else draw(table, path))
    assert path.stat().st_size > 5_000
