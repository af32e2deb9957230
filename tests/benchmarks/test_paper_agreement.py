"""The claims about ensembles are judged by their numbers: made-up models whose lines are known."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from holdfast.benchmarks.cli import main
from holdfast.benchmarks.papers import EXPERIMENTS
from holdfast.benchmarks.papers.agreement import tables as agreement
from holdfast.benchmarks.papers.agreement.tables import (
    HEAD,
    ORDER,
    SUBSET,
    Ensemble,
    evidence,
    nearest,
)
from holdfast.benchmarks.papers.engine.page import section
from holdfast.benchmarks.papers.engine.table import Table, tidy
from holdfast.benchmarks.papers.engine.verdicts import FAILS, HOLDS, PREMISE, state
from holdfast.benchmarks.results.predictions import Predictions, write_predictions

LINEAR, OFF = ("gaussian_noise", "glass_blur", "fog"), ("contrast",)


def write(folder: Path, source: str, seed: int, likeness: float) -> None:
    """Eight models whose mistakes out of distribution are the same for a share `likeness` of samples.

    Their ProjNorm follows their mistakes by ranks, and not by a line.
    """
    random, count = np.random.default_rng([seed, int(100 * likeness)]), 1000
    labels = random.integers(5, size=count)
    common = random.random((3, count))
    for number, ability in enumerate(np.linspace(-0.6, 1.2, 8)):
        sets = {}
        for shift, loss in (("validation", 0.0), *((s, 0.8) for s in (*LINEAR, *OFF))):
            own = random.random((3, count))
            alike = common[2] < (likeness if loss else 0.1)
            luck, other = (np.where(alike, common[k], own[k]) for k in (0, 1))
            wrong = luck > norm.cdf(ability - loss)
            classes = np.where(wrong, (labels + 1 + (4 * other).astype(int)) % 5, labels)
            scores = {f"{k}{end}": luck for k in ("confidence", "entropy") for end in ("", "_T")}
            far = float(np.exp(20 * wrong.mean())) if loss else None
            sets[shift] = Predictions(np.arange(count), classes, labels, scores, far)
        write_predictions(folder / "probe" / f"seed{seed}" / source / f"{number}.npz", sets)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made-up") / "glyphs"
    for seed in (0, 1, 2):
        for ensemble, likeness in ((HEAD, 0.1), (ORDER, 0.8), (SUBSET, 0.8)):
            write(path, ensemble.source, seed, likeness)
    return path


@pytest.fixture(scope="module")
def table(folder: Path) -> Table:
    lines = agreement.lines([folder], [HEAD, ORDER, SUBSET], [HEAD], ("fog",))
    return Table.read(json.loads(json.dumps({"table": lines.as_json()})))


def test_a_claim_about_lines_holds_or_fails(table, folder):
    assert [*map(state, nearest("error", HEAD, ORDER, SUBSET)(table))] == [HOLDS, HOLDS]
    assert [*map(state, nearest("error", ORDER, HEAD)(table))] == [FAILS]
    assert {*map(state, agreement.accuracy_line(HEAD)(table))} == {HOLDS}
    errors = [
        100 * np.abs(result.estimates["ALine-S"] - result.truth).mean()
        for _, result in evidence([folder], [ORDER])
        if result.models.stream == "fog"
    ]
    found = table.mean(str(ORDER), "fog", "ALine-S error")
    assert found == pytest.approx(np.mean(errors), abs=1e-3)
    assert list(table.points) == [f"{HEAD}\nfog, seed 0"]


def test_a_shift_without_an_accuracy_line_decides_nothing(table):
    rows = [*table.rows]
    for row in rows:
        if (row[0], row[1], row[2]) == (str(ORDER), "fog", agreement.ACCURACY_R2):
            row[-1] = 0.3
        elif (row[1], row[2]) == ("fog", "ALine-S error"):
            row[-1] = 500.0
    without = tidy(rows)
    assert "fog" not in agreement.on_lines(without, HEAD, ORDER)
    (part,) = nearest("error", HEAD, ORDER)(without)
    assert abs(part.number.mean) < 100
    experiment = EXPERIMENTS["agreement/Fig2"]
    verdicts = experiment.verdicts({**experiment.committed["embedded"]})
    by_id = {verdict.claim.id: verdict for verdict in verdicts}
    assert (by_id["c2-gain"].state, by_id["c3-slopes"].state) == (PREMISE, HOLDS)
    (part,) = by_id["c2-gain"].parts
    assert part.number.mean == pytest.approx(0.45, abs=0.01)


def test_models_of_several_names_are_one_ensemble(folder):
    both = Ensemble("glyphs", ("probe", "probe"), "head-1")
    assert str(both) == "glyphs, probe + probe: head-1"
    _, result = next(evidence([folder, folder / "elsewhere"], [both]))
    assert len(result.models.names) == 16
    assert [*evidence([folder / "elsewhere"], [both])] == []


def test_estimators_and_projnorm_are_compared(folder):
    """Errors stand apart where agreement is on no line; ProjNorm follows mistakes by ranks alone."""
    table = EXPERIMENTS["agreement/T1"]([folder])
    found = [(result.models.stream, result.r2) for _, result in evidence([folder], [HEAD])]
    r2 = pd.DataFrame(found, columns=["shift", "r2"]).groupby("shift", sort=False)["r2"].mean()
    good = r2.index[r2 > 0.95]
    assert table.curves("MAPE") == [f"{HEAD}, {shift}" for shift in good]
    assert len(table.curves("MAPE")) + len(table.curves("MAPE, no line")) == 4
    table = EXPERIMENTS["agreement/T3"]([folder])
    assert table.xs == [*LINEAR, *OFF]
    assert table.mean("Spearman", "ProjNorm", "fog") == pytest.approx(-100, abs=1e-6)
    assert (table.mean("R²", "ProjNorm", "fog") or 99) < 95 < table.mean("R²", "ALine-D", "fog")


def test_the_command_judges_what_is_there(folder, tmp_path, capsys):
    assert main(["paper", "agreement/Fig1", "--runs", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "- holds: C1: ALine-S" in shown
    claim = "C1, all trained on one tenth of the data: the slopes of both lines are nearest to each other"
    assert f"- not judged: {claim} with random heads" in shown
    kept = json.loads((folder / "results" / "Fig1.json").read_text())
    assert len(kept["table"]["points"]) == 2 * 3
    text = section(EXPERIMENTS["agreement/Fig1"], kept, "Fig1.png")
    assert (folder / "results" / "Fig1.md").read_text() == f"{text}\n"
    assert main(["paper", "agreement/Fig1", "--runs", str(tmp_path)]) == 2
    assert "no finished runs" in capsys.readouterr().err
