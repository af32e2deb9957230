"""The figures of `holdfast paper flips/...` on embeddings, clusters and flips, of known measurements."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up import put

from holdfast.benchmarks.papers.experiment import experiments
from holdfast.benchmarks.papers.flips import embeddings, inside, scatter
from holdfast.benchmarks.papers.flips.omission import ENTROPIES, LEFT, gains, sizes
from holdfast.benchmarks.papers.table import Table
from holdfast.benchmarks.results.run_statistics import (
    above_zero,
    rank_correlated,
    share_of_runs,
)
from holdfast.benchmarks.results.runs import Run, set_beside
from holdfast.benchmarks.suites.cell import Cell
from holdfast.run_folder import EMBEDDINGS

ALL = experiments()


def states(name: str, table: Table) -> dict[str, str]:
    """The verdict on each claim, by its id."""
    found = ALL[f"flips/{name}"].verdicts({"table": table.as_json()})
    return {verdict.claim.id: verdict.state for verdict in found}


STEPS = (0, 4, 8, 12)


def run_of(folder: Path, stream: str, columns: dict[str, list[float]], **facts: Any) -> Run:
    """A run of 13 steps with these measurements at steps 0, 4, 8 and 12, and no others."""
    names = {"method": "Tent", "override": "", "stream": stream, "setting": "IN-C", "seed": 1}
    names |= {key: facts.pop(key) for key in ("method", "seed") if key in facts}
    rows: list[dict[str, Any]] = [{"corruptions": stream.replace(" ", "@")} for _ in range(13)]
    for name, values in columns.items():
        for step, value in zip(STEPS, values, strict=True):
            rows[step][name] = value
    accuracy, results = [facts.pop("accuracy", 0.5)] * len(rows), facts.pop("results", {})
    put(folder, names, {}, accuracy, exactly=True, columns=rows, facts=facts, results=results)
    return Run.load(folder)


def clusters(accuracy: list[float], silhouette: list[Any], shift: list[float]) -> dict[str, Any]:
    names = ("accuracy", "silhouette", "shift")
    return {
        f"EmbeddingClusters_{name}": values
        for name, values in zip(names, (accuracy, silhouette, shift), strict=True)
    }


def five(folder: Path) -> list[Run]:
    """Accuracy is best at step 4, and falls the more the farther the clusters go away."""
    return [
        run_of(
            folder / str(n),
            f"fog {3 + 2 * (n % 2)}",
            clusters(
                [0.3, 0.4 + 0.01 * n, 0.35, 0.3 - 0.02 * n],
                [0.1, 0.15 + 0.01 * n, 0.2, 0.3],
                [5.0, 4.5, 6.0, 7.0 + n],
            ),
            seed=n,
        )
        for n in range(5)
    ]


def test_phases_end_where_accuracy_is_best(tmp_path: Path) -> None:
    found = inside.phases(five(tmp_path))
    key = "fog 3, seed 2"
    for phase, measure, change in (
        *(("phase 1", "accuracy", 12), ("phase 2", "accuracy", -16), ("phase 1", "shift", -0.5)),
        *(("phase 2", "shift", 4.5), ("phase 2", "silhouette", 13)),
    ):
        assert found.values(phase, measure, "IN-C")[key] == pytest.approx(change)
    judged = states("Fig3.4", found)
    assert judged["nearly-always"] == "undecided"
    assert [*judged.values()].count("holds") == 5
    assert "The silhouette rises in 100 % of 10 phases." in found.notes
    assert "shift with accuracy in phase 2: -1.00 [-1.00, -1.00], 5 runs." in found.notes[-1]


def test_a_phase_that_is_not_there_is_left_out(tmp_path: Path) -> None:
    """Of a run that only falls, or whose end could not be measured."""
    falls = clusters([0.4, 0.3, 0.2, 0.1], [0.1, 0.1, 0.2, 0.2], [5.0, 6.0, 7.0, 8.0])
    broken = clusters([0.3, 0.4, 0.2, 0.0], [0.1, 0.2, 0.3, None], [5.0, 6.0, 7.0, 8.0])
    found = inside.phases(
        [run_of(tmp_path / "a", "fog 3", falls), run_of(tmp_path / "b", "snow 3", broken)]
    )
    assert set(found.values("phase 1", "accuracy", "IN-C")) == {"snow 3, seed 1"}
    assert found.values("phase 2", "accuracy", "IN-C") == pytest.approx(
        {"fog 3, seed 1": -30, "snow 3, seed 1": -20}
    )


def test_curves_by_severity(tmp_path: Path) -> None:
    found = inside.along(five(tmp_path))
    assert found.xs == [0, 4, 8, 12]
    assert found.curves("shift") == ["severity 3", "severity 5"]
    assert set(states("FigB.6", found).values()) <= {"holds", "undecided"}


def test_flips_follow_silhouette_and_accuracy(tmp_path: Path) -> None:
    runs = []
    for n in range(6):
        columns = clusters([0.3] * 4, [0.1 + 0.01 * n, 0, 0, 0], [5.0] * 4)
        stream = f"fog {n}"
        flips = {"WeightedFlips_unweighted": 500.0 - 10 * n}
        runs.append(run_of(tmp_path / f"{n}", stream, columns, method="RDumb", results=flips))
        runs.append(run_of(tmp_path / f"s{n}", stream, {}, method="Source", accuracy=0.1 * n))
    set_beside(runs, "source", "Source")
    found = inside.at_the_start(runs)
    assert found.values("", inside.FLIPS, "IN-C")["fog 2, seed 1"] == 480
    assert found.values("", inside.ACCURACY, "IN-C")["fog 2, seed 1"] == pytest.approx(20)
    assert set(states("Fig3.5", found).values()) == {"holds"}
    assert scatter.pairs(found, [], tmp_path / "picture.png").stat().st_size > 5_000


def omitted(folder: Path, stream: str, seed: int, gain: float, left: int) -> Run:
    accuracy = [0.4, 0.4 + gain / 2, 0.4 + gain, 0.4 + gain]
    facts: dict[str, float | None] = {"pool": 200, "left": left, "entropy_left": 3.0}
    facts |= {"entropy_omitted": None if left == 200 else 1.0}
    run = run_of(folder, stream, {"HoldOut_accuracy": accuracy}, seed=seed, omitting=facts)
    name, _, level = stream.partition(" ")
    run.factors = {"top" if name == "top" else "level": float(level)}
    return run


def test_gains_without_what_is_easy(tmp_path: Path) -> None:
    runs = [
        omitted(tmp_path / f"{stream}{seed}", stream, seed, gain + seed / 1000, left)
        for seed in (1, 2, 3)
        for stream, gain, left in (
            *(("top 10", 0.08, 20), ("top 0", 0.12, 200), ("top 1", 0.11, 110)),
            ("top 50", 0.01, 4),
        )
    ]
    found = gains(runs, "top", "top-k")
    assert found.curves() == ["top-k = 0", "top-k = 1", "top-k = 10", "top-k = 50"]
    assert found.mean("", "top-k = 1", 12) == pytest.approx(11.2)
    assert found.mean("", "top-k = 1", 4) == pytest.approx(5.6)
    assert set(states("Fig3.2", found).values()) == {"holds"}
    left = sizes(runs, "top", "k")
    assert left.xs == [0, 1, 10, 50]
    assert left.mean("", LEFT, 1) == pytest.approx(55)
    out, whole = list(ENTROPIES)[1:]
    assert 0 not in left.cells["", out]
    assert left.mean("", whole, 1) == pytest.approx(0.55 * 3 + 0.45 * 1)
    certain = [omitted(tmp_path / "e", "entropy 0.5", 1, 0.1, 100), runs[1]]
    notes = gains(certain, "level", "entropy above", sizes_too=True).notes
    assert notes[0] == "entropy above 0, seed 1: 100 % of the images left, of entropy 3.00."
    assert notes[1] == "entropy above 0.5, seed 1: 50 % of the images left, of entropy 3.00."


def test_the_embedding_is_drawn_with_its_class_means(tmp_path: Path) -> None:
    random, means = np.random.default_rng(0), 9 * np.eye(4, 8)
    labels = np.repeat(np.arange(4), 15)
    features = means[labels] + random.normal(size=(60, 8))
    points, stars = embeddings.embedded(features, means)
    nearest = np.linalg.norm(points[:, None] - stars, axis=-1).argmin(1)
    assert (nearest == labels).mean() > 0.9
    folder = tmp_path / "run"
    (run,) = [
        run_of(folder, "fog 3", clusters([0.3, 0.5, 0.2, 0.1], [0.1] * 4, [5.0, 4.0, 6.0, 7.0]))
    ]
    kept = {"steps": np.array([0, 4, 12]), "features": np.stack([features] * 3)}
    np.savez(folder / EMBEDDINGS, labels=labels, means=means, **kept)
    table = inside.ends([run])
    assert "early (best accuracy) 4, late" in table.notes[0]
    cell = Cell({"method": "Tent"}, folder, {}, {})
    assert embeddings.picture(table, [cell], tmp_path / "picture.png").stat().st_size > 5_000
    assert isinstance(table, Table)


def test_rank_correlations_have_intervals() -> None:
    numbers = {str(n): float(n) for n in range(30)}
    noisy = {key: value + 9 * np.sin(7 * value) for key, value in numbers.items()}
    found = rank_correlated(numbers, noisy)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert 0.2 < found.low < found.mean < found.high < 1
    assert rank_correlated(numbers, dict.fromkeys(numbers, 1.0)) is None
    assert rank_correlated({"1": 1.0}, {"1": 2.0}) is None
    whole = rank_correlated(numbers, numbers)
    assert whole is not None
    assert whole.mean == pytest.approx(1)


def test_shares_have_intervals() -> None:
    found = share_of_runs({str(n): [n - 1.5] for n in range(10)})
    assert found is not None
    assert found.mean == pytest.approx(0.8)
    assert found[1:] == pytest.approx((0.444, 0.975, 10), abs=1e-3)
    assert share_of_runs({str(n): [n - 1.5] * 5 for n in range(10)}) == pytest.approx(found)
    assert share_of_runs({}) is None
    assert above_zero({"a": 1.0, "b": 3.0}) is not None
