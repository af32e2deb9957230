"""`holdfast tune`: trials on other data, the choice by each rule, and a suite that uses it."""

import yaml
from common import model
from small_suites import small_stream, write_suite

from holdfast.benchmarks.cli import main
from holdfast.benchmarks.results.runs import collect
from holdfast.benchmarks.suites import grid, trials
from holdfast.imagenet import EXTRA

FAST, SLOW = 30.0, 0.001  # Tent's and ETA's learning rates; the first makes them collapse


def test_two_methods_with_two_rates(tmp_path, capsys):
    """Labels choose the rate that does not collapse; the next command runs what a shard leaves."""
    methods = {name: model(name) for name in ("Source", "Tent", "ETA")}
    streams = {"ccc": small_stream(images=64)}
    tune = {"rates": [SLOW, FAST], "seeds": [5]}
    path = write_suite(tmp_path, methods, streams, seeds=[1], tune=tune)
    out = tmp_path / "tuned"
    words = ["tune", str(path), "--steps", "12", "--out", str(out), "--oracle"]
    assert main([*words, "--shard", "0/2"]) == 0
    assert "2 runs are unfinished" in capsys.readouterr().out
    ran = {run.folder: run.provenance["started"] for run in collect(out)}
    assert len(ran) == 2, "half of two methods with two rates"

    assert main(words) == 0
    found = {run.folder: run.provenance["started"] for run in collect(out)}
    assert found.items() >= ran.items(), "the finished trials were not repeated"
    held = [run for run in collect(out) if run.stream == "hold-out"]
    assert {run.seed for run in held} == {5}
    assert {c for run in held for row in run.rows for c, _ in row["corruptions"]} <= set(EXTRA)
    table = capsys.readouterr().out
    assert "lr 0.001" in next(line for line in table.splitlines() if line.startswith("| Tent"))

    tuned = yaml.safe_load((out / "tuned.yaml").read_text())["digits"]
    assert {name: own["optimizer"]["init_args"]["lr"] for name, own in tuned.items()} == {
        "Tent": SLOW,
        "ETA": SLOW,
    }
    lines = (out / "tuned.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 2
    assert lines[0].endswith("accuracy,SourceAgreement")
    suite = grid.read_suite(path) | {"tuned": str(out / "tuned.yaml")}
    chosen = {cell.names["method"]: cell.config["model"]["init_args"] for cell in grid.cells(suite)}
    assert chosen["Tent"] == {"backbone": "digits", **tuned["Tent"]}
    assert chosen["Source"] == {"backbone": "digits"}
    for points, rate in (("2", SLOW), ("99", FAST)):
        assert main([*words, "--within", points]) == 0
        largest = yaml.safe_load((out / "tuned.yaml").read_text())["digits"]
        assert largest["Tent"]["optimizer"]["init_args"]["lr"] == rate


def test_the_budget_is_the_same_for_all():
    """A second argument takes two of the trials; the stream is longer than the longest interval."""
    suite = grid.read_suite("rdumb/tuning")
    first = trials.rates(suite, 8)
    number = {own.method: sum(t.key == own.key for t in first) for own in first}
    second = {t.method: len(trials.seconds(t)) for t in first}
    assert {number[m] + second[m] for m in number} == {8}
    assert [t.values["every"] for t in trials.seconds(first[-1])] == [50, 200]
    each = trials.on_holdout(suite)["streams"]["hold-out"]["init_args"]["each"]
    assert 15 * each / 64 == 300 > 200
    assert trials.nearby(0.006, 4) == [0.001, 0.002, 0.006, 0.01]
