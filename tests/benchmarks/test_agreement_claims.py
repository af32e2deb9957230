"""The claims about ensembles are judged by their numbers: made-up models whose lines are known."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from holdfast.benchmarks.cli import main
from holdfast.benchmarks.papers.agreement import estimator_errors, line_claims, lines
from holdfast.benchmarks.papers.agreement.evidence import Ensemble, evidence
from holdfast.benchmarks.papers.experiment import experiments
from holdfast.benchmarks.papers.page import page
from holdfast.benchmarks.papers.primitives import Part
from holdfast.benchmarks.papers.table import Table
from holdfast.benchmarks.papers.verdicts import FAILS, HOLDS, UNDECIDED, UNJUDGED, state
from holdfast.benchmarks.results.predictions import Predictions, save

ALL = experiments()
LINEAR, OFF = ("gaussian_noise", "glass_blur", "fog"), ("contrast",)
HEAD, ORDER, SUBSET = (["glyphs", ["probe"], own] for own in ("head-1", "order-1", "subset-0.1"))
NAMES = [str(Ensemble.read(own)) for own in (HEAD, ORDER, SUBSET)]


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
    for seed in (0, 1, 2):
        for ensemble, likeness in zip((HEAD, ORDER, SUBSET), (0.1, 0.8, 0.8), strict=True):
            write(path / "glyphs", ensemble[2], seed, likeness)
    return path


@pytest.fixture(scope="module")
def table(folder: Path) -> Table:
    found = lines.table([folder / "glyphs"], [HEAD, ORDER, SUBSET], {"fog": [HEAD]})
    return Table.read(json.loads(json.dumps(found.as_json())))


def judged(parts: list[Part]) -> list[str]:
    return [state(part) for part in parts]


def test_a_claim_holds_fails_or_is_undecided(table: Table) -> None:
    head, order, subset = NAMES
    assert judged(line_claims.nearest(table, "error", head, [order, subset])) == [HOLDS, HOLDS]
    assert judged(line_claims.nearest(table, "error", order, [head])) == [FAILS]
    assert judged(line_claims.nearest(table, "error", order, [subset])) == [UNDECIDED]
    assert judged(line_claims.nearest(table, "error", "nobody", [head])) == [UNJUDGED]
    (one,), (other,) = (
        line_claims.nearest(table, "error", *p) for p in ((head, [order]), (order, [head]))
    )
    assert one.found is not None
    assert other.found is not None
    assert one.found.mean == pytest.approx(-other.found.mean)
    assert one.found.n == 3  # seeds


def test_numbers_are_means_over_shifts_and_seeds(folder: Path, table: Table) -> None:
    found = evidence([folder / "glyphs"], [Ensemble.read(ORDER)])[Ensemble.read(ORDER)]
    order = NAMES[1]
    assert order == "glyphs, probe: order-1"
    results = [s.result for shift in LINEAR for s in found[shift].values()]
    expected = np.mean([abs(r.agreement_line.slope - r.accuracy_line.slope) for r in results])
    shifts = [*LINEAR]
    own = line_claims.over(table, order, shifts, "slope gap")
    assert np.mean(list(own.values())) == pytest.approx(expected, abs=1e-4)
    assert len(table.values(order, "fog", "agreement slope")) == 3
    errors = [np.abs(s.result.estimates["ALine-S"] - s.truth).mean() for s in found["fog"].values()]
    assert table.mean(order, "fog", "ALine-S error") == pytest.approx(
        100 * np.mean(errors), abs=1e-3
    )
    seen = found["fog"][0]
    assert seen.inside == pytest.approx(seen.result.excess)
    assert list(table.points) == [f"{NAMES[0]}\nfog, seed 0"]


def test_a_shift_without_an_accuracy_line_decides_nothing(table: Table) -> None:
    """Fault 1 of the audit: fog made the verdicts of C2 and C3 where accuracy is on no line."""
    head, order, _ = NAMES
    assert "fog" in line_claims.linear(table, [head, order])
    rows = [
        row._replace(value=0.3)
        if (row.panel, row.curve, row.x) == (order, "fog", line_claims.ACCURACY_R2)
        else row._replace(value=500.0)
        if (row.curve, row.x) == ("fog", "ALine-S error")
        else row
        for row in table.rows
    ]
    without = Table(rows)
    assert "fog" not in line_claims.linear(without, [head, order])
    (part,) = line_claims.nearest(without, "error", head, [order])
    assert part.found is not None
    assert abs(part.found.mean) < 100
    own = ALL["agreement/Fig2"]
    found = {v.claim.id: v for v in own.verdicts(own.committed)}
    assert found["c2-gain"].state == UNDECIDED
    gains = [part.found.mean for part in found["c2-gain"].parts if part.found]
    assert gains == pytest.approx([-0.48, -0.70], abs=0.01)  # the audit's own recomputation
    assert found["c3-slopes"].state == HOLDS


def test_models_of_several_names_are_one_ensemble(folder: Path) -> None:
    both = Ensemble("glyphs", ("probe", "probe"), "head-1")
    found = evidence([folder / "glyphs", folder / "elsewhere"], [both])
    assert str(both) == "glyphs, probe + probe: head-1"
    assert len(found[both]["fog"][0].models.names) == 16
    assert evidence([folder / "elsewhere"], [both]) == {}


def test_errors_stand_apart_where_agreement_is_no_line(folder: Path) -> None:
    table = estimator_errors.table([folder / "glyphs"], [HEAD])
    found = evidence([folder / "glyphs"], [Ensemble.read(HEAD)])[Ensemble.read(HEAD)]
    good = [s for s, own in found.items() if np.mean([x.result.r2 for x in own.values()]) > 0.95]
    assert table.curves("MAPE") == [f"{NAMES[0]}, {shift}" for shift in good]
    assert len(table.curves("MAPE")) + len(table.curves("MAPE, no line")) == 4
    on_the_line = "MAPE" if "fog" in good else "MAPE, no line"
    for column in ("ALine-S", "agreement"):
        errors = [
            np.abs(s.result.estimates[column] - s.truth) / s.truth for s in found["fog"].values()
        ]
        own = table.mean(on_the_line, f"{NAMES[0]}, fog", column)
        assert own == pytest.approx(100 * np.mean(errors), abs=1e-2)
    (part,) = line_claims.best_errs_less(table, on_the_line, ["ALine-S"], ["agreement"])
    assert part.found is not None
    assert part.found.n == 3


def test_projnorm_is_compared_by_correlations(folder: Path) -> None:
    table = estimator_errors.correlations([folder / "glyphs"], HEAD)
    assert table.xs == [*LINEAR, *OFF]
    assert table.mean("Spearman", "ProjNorm", "fog") == pytest.approx(-100, abs=1e-6)
    linear = table.mean("R²", "ProjNorm", "fog")
    assert linear is not None
    assert linear < 95 < (table.mean("R²", "ALine-D", "fog") or 0)
    (verdict,) = ALL["agreement/T3"].verdicts({"table": table.as_json()})
    assert verdict.state == HOLDS


def test_the_command_judges_what_is_there(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["paper", "agreement/Fig1", "--runs", str(folder / "glyphs")]) == 0
    shown = capsys.readouterr().out
    assert "- holds: C1: ALine-S" in shown
    claim = "C1, all trained on one tenth of the data: the slopes of both lines are nearest to each other"
    assert f"- not judged: {claim} with random heads" in shown
    kept = json.loads((folder / "glyphs" / "results" / "Fig1.json").read_text())
    assert len(kept["table"]["points"]) == 2 * 3
    own = folder / "glyphs" / "results"
    assert (own / "Fig1.png").stat().st_size > 10_000
    assert (own / "Fig1.md").read_text() == page(
        ALL["agreement/Fig1"], kept, "markdown", "Fig1.png"
    )
    assert main(["paper", "agreement/Fig1", "--runs", str(tmp_path)]) == 2
    assert "no finished runs" in capsys.readouterr().err
