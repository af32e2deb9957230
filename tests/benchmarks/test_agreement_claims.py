"""The claims about ensembles are judged by their numbers: made-up models whose lines are known."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from holdfast.benchmarks.cli import main
from holdfast.benchmarks.estimators import claims
from holdfast.benchmarks.papers.agreement.claims import (
    CLAIMS,
    FAILS,
    HOLDS,
    LINEAR,
    MAIN,
    OFF,
    UNDECIDED,
    Claim,
    Term,
    error,
    judge,
    less,
    slope_gap,
)
from holdfast.benchmarks.papers.agreement.evidence import Ensemble, Evidence, evidence, number
from holdfast.benchmarks.results.predictions import Predictions, save


def write(folder: Path, name: str, source: str, seed: int, likeness: float) -> None:
    """Eight models whose mistakes out of distribution are the same for a share `likeness` of samples."""
    random, count = np.random.default_rng([seed, int(100 * likeness)]), 2000
    labels = random.integers(5, size=count)
    common = random.random((3, count))
    for number_, ability in enumerate(np.linspace(-0.6, 1.2, 8)):
        sets = {}
        for shift, loss in (("validation", 0.0), *((s, 0.8) for s in (*LINEAR, *OFF))):
            own = random.random((3, count))
            alike = common[2] < (likeness if loss else 0.1)
            luck, other = (np.where(alike, common[k], own[k]) for k in (0, 1))
            wrong = luck > norm.cdf(ability - loss)
            classes = np.where(wrong, (labels + 1 + (4 * other).astype(int)) % 5, labels)
            scores = {f"{k}{end}": luck for k in ("confidence", "entropy") for end in ("", "_T")}
            sets[shift] = Predictions(np.arange(count), classes, labels, scores)
        save(folder / name / f"seed{seed}" / source / f"{number_}.npz", sets)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made-up")
    for seed in (0, 1):
        for source, likeness in zip(MAIN, (0.1, 0.8, 0.8), strict=True):
            write(path, "probe", source, seed, likeness)
    return path


@pytest.fixture(scope="module")
def found(folder: Path) -> Evidence:
    return evidence([folder])


def test_a_claim_holds_fails_or_is_undecided(found: Evidence) -> None:
    true = Claim("C", "", less(error, "probe", *MAIN))
    false = Claim("C", "", less(error, "probe", "order-1", "head-1"))
    same = Claim("C", "", less(error, "probe", "order-1", "subset-0.1"))
    missing = Claim("C", "", less(error, "scratch", *MAIN))
    verdicts = [judge(claim, found) for claim in (true, false, same, missing)]
    assert [v.state for v in verdicts] == [HOLDS, FAILS, UNDECIDED, UNDECIDED]
    assert verdicts[0].numbers[0].seeds == 2
    assert verdicts[0].numbers[0].mean == pytest.approx(-verdicts[1].numbers[0].mean)
    too_much = true._replace(least=0.9)
    assert judge(too_much, found).state == FAILS


def test_numbers_are_means_over_shifts_and_seeds(found: Evidence) -> None:
    by_shift = found[Ensemble("probe", "order-1")]
    expected = np.mean(
        [
            abs(s.result.agreement_line.slope - s.result.accuracy_line.slope)
            for shift in LINEAR
            for s in by_shift[shift].values()
        ]
    )
    claim = Claim("C", "", [[Term(1, slope_gap, "probe", "order-1")]])
    (own,) = judge(claim, found).numbers
    assert own.mean == pytest.approx(expected, rel=1e-6)
    assert own.low < own.mean < own.high


def test_nothing_is_said_of_models_near_chance(found: Evidence) -> None:
    claim = Claim("C", "", less(error, "probe", *MAIN))
    poor = {
        ensemble: {
            shift: {seed: seen._replace(best=0.2) for seed, seen in by_seed.items()}
            for shift, by_seed in by_shift.items()
        }
        for ensemble, by_shift in found.items()
    }
    assert judge(claim, poor)[2:] == (UNDECIDED, [])
    assert Ensemble("probe", "bases") not in found  # there is one base only


def test_interval_is_over_seeds_too() -> None:
    drawn = np.stack([np.full(400, 1.0), np.full(400, 3.0)])
    assert number(np.array([1.0, 3.0]), drawn)[:3] == (2.0, 1.0, 3.0)


def test_claims_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "claims.json"
    assert main(["estimators", "claims", str(folder), "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    kept = json.loads(out.read_text())
    assert len(kept["claims"]) == len(CLAIMS) == shown.count("\n") - 1
    states = {claim["text"]: claim["state"] for claim in kept["claims"]}
    assert states["probes: ALine-S's error is nearest with random heads"] == HOLDS
    assert states["so is their agreement"] != ""
    assert {row["ensemble"] for row in kept["ensembles"]} >= {f"probe {s}" for s in MAIN}
    assert main(["estimators", "claims", str(tmp_path)]) == 2
    assert "has no ensembles" in capsys.readouterr().err


def test_the_committed_page_is_made_of_the_committed_numbers() -> None:
    root = Path(claims.__file__).parents[2]
    content = json.loads((root / "benchmarks/papers/agreement/results/claims.json").read_text())
    text = (root / "docs/papers/agreement/claims.md").read_text(encoding="utf-8")
    assert text == claims.page(content)
    assert [claim["text"] for claim in content["claims"]] == [claim.text for claim in CLAIMS]
