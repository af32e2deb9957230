"""The claims about ensembles are judged by their numbers: made-up models whose lines are known."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from holdfast.benchmarks.cli import main
from holdfast.benchmarks.papers.agreement import fig1, t1, t3
from holdfast.benchmarks.papers.agreement.evidence import Ensemble, Evidence, evidence
from holdfast.benchmarks.papers.agreement.setting import LINEAR, OFF, PROBES, lines_table
from holdfast.benchmarks.papers.agreement.terms import (
    Statement,
    claims,
    each,
    error,
    interval,
    less,
    measured,
    slope_gap,
)
from holdfast.benchmarks.papers.page import page
from holdfast.benchmarks.papers.table import FAILS, HOLDS, UNDECIDED, Table, judge
from holdfast.benchmarks.results.predictions import Predictions, save

HEAD, ORDER, SUBSET = PROBES


def write(folder: Path, source: str, seed: int, likeness: float) -> None:
    """Eight models whose mistakes out of distribution are the same for a share `likeness` of samples.

    Their ProjNorm follows their mistakes by ranks, and not by a line.
    """
    random, count = np.random.default_rng([seed, int(100 * likeness)]), 2000
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
        save(folder / "probe" / f"seed{seed}" / source / f"{number}.npz", sets)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made-up")
    for seed in (0, 1):
        for ensemble, likeness in zip(PROBES, (0.1, 0.8, 0.8), strict=True):
            write(path / "glyphs", ensemble.source, seed, likeness)
    return path


@pytest.fixture(scope="module")
def found(folder: Path) -> Evidence:
    return evidence([folder / "glyphs"], PROBES)


def judged(found: Evidence, *statements: Statement) -> list[str]:
    """What becomes of statements, by the papers' way to judge."""
    table = Table([], {}, intervals=measured(statements, found))
    kept = json.loads(json.dumps(table.as_json()))
    return [judge(claim, Table(**kept)).state for claim in claims(statements)]


def test_a_claim_holds_fails_or_is_undecided(found: Evidence) -> None:
    missing = Ensemble("glyphs", ("scratch",), "head-1")
    true = Statement("true", less(error, HEAD, [ORDER, SUBSET], LINEAR))
    statements = (
        true,
        Statement("false", less(error, ORDER, [HEAD], LINEAR)),
        Statement("same", less(error, ORDER, [SUBSET], LINEAR)),
        Statement("missing", less(error, missing, [HEAD], LINEAR)),
        true._replace(text="too much", least=90),
    )
    assert judged(found, *statements) == [HOLDS, FAILS, UNDECIDED, UNDECIDED, FAILS]
    own = measured(statements, found)
    (first, _), (other,) = own["true"], own["false"]
    assert first is not None
    assert other is not None
    assert first.mean == pytest.approx(-other.mean)
    assert first.n == 2
    assert own["missing"] == [None]


def test_numbers_are_means_over_shifts_and_seeds(found: Evidence) -> None:
    by_shift = found[ORDER]
    lines = [s.result for shift in LINEAR for s in by_shift[shift].values()]
    expected = np.mean([abs(r.agreement_line.slope - r.accuracy_line.slope) for r in lines])
    ((own,),) = measured([Statement("C", each(slope_gap, [ORDER], LINEAR))], found).values()
    assert own is not None
    assert own.mean == pytest.approx(expected, abs=1e-4)
    assert own.low < own.mean < own.high
    table = lines_table(found)
    row = f"{ORDER}, fog"
    assert row == "glyphs, probe: order-1, fog"
    assert len(table.rows[row]["agreement slope"]) == 2
    truth = [s.result.truth for s in by_shift["fog"].values()]
    estimates = [s.result.estimates["ALine-S"] for s in by_shift["fog"].values()]
    errors = 100 * np.abs(np.array(estimates) - truth).mean()
    assert table.mean(row, "ALine-S error") == pytest.approx(errors, abs=1e-3)


def test_interval_is_over_seeds_too() -> None:
    drawn = np.stack([np.full(400, 1.0), np.full(400, 3.0)])
    assert interval(np.array([1.0, 3.0]), drawn)[:3] == (2.0, 1.0, 3.0)


def test_models_of_several_names_are_one_ensemble(folder: Path) -> None:
    both = Ensemble("glyphs", ("probe", "probe"), "head-1")
    found = evidence([folder / "glyphs", folder / "elsewhere"], [both])
    assert str(both) == "glyphs, probe + probe: head-1"
    assert len(found[both]["fog"][0].models.names) == 16
    assert evidence([folder / "elsewhere"], [both]) == {}


def test_errors_stand_apart_where_agreement_is_no_line(folder: Path, found: Evidence) -> None:
    table = t1.table([folder / "glyphs"])
    rows = [name for name in table.rows if name.startswith("MAPE: glyphs")]
    assert len(rows) == 4
    lines = {
        s: np.mean([x.own.agreement[0, 2] for x in found[HEAD][s].values()]) for s in found[HEAD]
    }
    good = [f"MAPE: {HEAD}, {shift}" for shift, r2 in lines.items() if r2 > 0.95]
    assert rows[: len(good)] == good
    results = [seen.result for seen in found[HEAD]["fog"].values()]
    for column in ("ALine-S", "agreement"):
        errors = [np.abs(r.estimates[column] - r.truth) / r.truth for r in results]
        expected = 100 * np.mean(errors)
        assert table.mean(f"MAPE: {HEAD}, fog", column) == pytest.approx(expected, abs=1e-2)
    percentages = table.intervals["C5: the same in percent of the accuracy (MAPE)"]
    points = table.intervals[t1.STATEMENTS[0].text]
    assert percentages[0] != points[0]


def test_projnorm_is_compared_by_correlations(folder: Path) -> None:
    table = t3.table([folder / "glyphs"])
    assert table.columns == [*LINEAR, *OFF]
    assert table.mean("Spearman: ProjNorm", "fog") == pytest.approx(-100, abs=1e-6)
    linear = table.mean("R²: ProjNorm", "fog")
    assert linear is not None
    assert linear < 95 < (table.mean("R²: ALine-D", "fog") or 0)
    assert judge(t3.ARTEFACT.claims[0], table).state == HOLDS


def test_the_command_judges_what_is_there(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["paper", "agreement/Fig1", "--show", "--out", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "- holds: C1: ALine-S's error is nearest with random heads" in shown
    assert (
        "- undecided: C1, all on a shared tenth: slope is nearest with random heads (runs" in shown
    )
    assert "mechanism check, not a reproduction" in shown
    kept = json.loads((folder / "artefacts" / "Fig1.json").read_text())
    assert len(kept["missing"]) == 7 * 3  # of eight models in place of twenty, and of seed 2
    assert set(kept["table"]["intervals"]) == {claim.text for claim in fig1.ARTEFACT.claims}
    assert len(kept["table"]["points"]) == 2 * 3
    assert (folder / "artefacts" / "Fig1.png").stat().st_size > 10_000
    text = (folder / "artefacts" / "Fig1.md").read_text()
    assert text == page(fig1.ARTEFACT, kept, "markdown", "Fig1.png")
    assert main(["paper", "agreement/Fig1", "--show", "--out", str(tmp_path)]) == 2
    assert "has no finished runs yet" in capsys.readouterr().err
