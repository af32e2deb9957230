"""Tables and figures of the papers: what each function makes of known runs, verdicts, and the command."""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import DATA, model
from made_up import put

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.papers import published
from holdfast.benchmarks.papers.aetta import t1, theorems
from holdfast.benchmarks.papers.artefact import Artefact, artefacts
from holdfast.benchmarks.papers.claims import overview
from holdfast.benchmarks.papers.curves import steps_since
from holdfast.benchmarks.papers.flips import mixture
from holdfast.benchmarks.papers.page import page, results
from holdfast.benchmarks.papers.paper import show
from holdfast.benchmarks.papers.picture import draw
from holdfast.benchmarks.papers.places import PLACES, placed, strings
from holdfast.benchmarks.papers.rdumb import fig2_6, holdout, ta_1, toy
from holdfast.benchmarks.papers.table import Claim, Table, accuracies, judge, with_average
from holdfast.benchmarks.results.runs import Run
from holdfast.benchmarks.results.statistics import Difference
from holdfast.benchmarks.suites import suite
from holdfast.benchmarks.suites.grid import CONFIGS

ALL = artefacts()
OF_RUNS = [name for name, a in ALL.items() if a.runs and "embedded" in a.suites]


def verdict(*found: Difference | None) -> str:
    return judge(Claim("it is so", lambda table: found), Table([], {})).state


def test_verdicts_follow_from_intervals() -> None:
    above, below = Difference(2, 1, 3, 9), Difference(-2, -3, -1, 9)
    around, single = Difference(1, -1, 3, 9), Difference(5, None, None, 1)
    assert verdict(above, above) == "holds"
    assert verdict(above, below, single) == "does not hold"
    assert verdict(above, around) == verdict(above, single) == verdict(above, None) == "undecided"
    assert verdict() == "undecided"


def test_differences_are_of_equal_runs() -> None:
    cells = {"a": {"c": {"1": 3.0, "2": 5.0, "3": 9.0}}, "b": {"c": {"1": 1.0, "2": 4.0}}}
    table = Table(["c"], cells)
    gain = table.gain("a", "b")
    assert gain is not None
    assert (gain.mean, gain.n) == (1.5, 2)
    assert table.gain("a", "nobody") is None
    fall = table.more("a", "b", by=1)
    assert fall is not None
    assert fall.mean == 0.5
    assert Table(["c"], cells, exact=True).gain("a", "b") == (1.5, 1.5, 1.5, 2)


def made(artefact: Artefact, folder: Path) -> list[Any]:
    """Its cells with made-up runs: methods, overrides and settings differ, and seeds a little."""
    cells = artefact.cells("embedded", out=str(folder), seeds=[43, 44])
    methods = sorted({str(cell.names["method"]) for cell in cells})
    overrides = list(dict.fromkeys(cell.names["override"] for cell in cells))
    for cell in cells:
        names = cell.names
        level = (
            0.2 + 0.03 * methods.index(names["method"]) + 0.02 * overrides.index(names["override"])
        )
        level += 0.001 * names["seed"]
        collapses = names["method"] in ("Tent", "CPL", "RPL", "SLR", "CoTTA")
        accuracy = [level] * 10 + [0.0 if collapses else level] * 30
        config = {} if names["method"] == "Source" else cell.config
        put(cell.folder, names, config, accuracy, resets=(20,) * (names["method"] == "RDumb"))
    return cells


@pytest.mark.parametrize("name", OF_RUNS)
def test_every_artefact_on_made_up_runs(name: str, tmp_path: Path) -> None:
    artefact = ALL[name]
    cells = made(artefact, tmp_path / "runs")
    table = artefact.table("embedded", cells)
    assert table.rows
    assert all(set(cells) <= set(table.columns) for cells in table.rows.values())
    for claim in artefact.claims:
        assert judge(claim, table).because != "runs are missing", claim.text
    if artefact.published and artefact.paper == "rdumb":  # the rows are named as the paper's are
        assert set(table.rows) <= set(published.printed("rdumb", artefact.published))
    kept = json.loads(
        json.dumps(results(artefact, "embedded", table, missing=[], differences=["x"]))
    )
    text = page(artefact, kept, "markdown")
    assert text == page(artefact, kept, "markdown")
    assert f"holdfast paper {name}" in text
    assert ("Verdict:" in text) == bool(artefact.claims)
    assert draw(table, tmp_path / "picture.png").stat().st_size > 5_000


def test_the_main_table_has_means_over_runs(tmp_path: Path) -> None:
    artefact = ALL["rdumb/T2.1"]
    cells = made(artefact, tmp_path)
    table = artefact.table("embedded", cells)
    assert table.columns == ["CIN-C", "CCC-Easy", "CCC-Medium", "CCC-Hard", "Average"]
    assert list(table.rows)[:2] == ["Source", "BNAdapt"]
    methods = sorted(table.rows)
    expected = 20 + 3 * methods.index("RDumb") + 4.35
    assert table.mean("RDumb", "CCC-Easy") == pytest.approx(expected)
    assert table.mean("RDumb", "Average") == pytest.approx(expected)
    assert len(table.rows["RDumb"]["CCC-Easy"]) == 6  # three speeds, two seeds
    states = {claim.text: judge(claim, table).state for claim in artefact.claims}
    assert (
        states["Tent, RPL, SLR, CPL and CoTTA are below the source model on all of CCC"] == "holds"
    )
    assert states["ETA is below the source model on CCC-Medium and CCC-Hard"] == "holds"
    assert states["EATA and RDumb are above the source model everywhere"] == "does not hold"


def test_errors_and_gains_are_means_over_corruptions(tmp_path: Path) -> None:
    """AETTA's tables: half of the batches is fog, where the made-up errors are 0.1 and 0.2."""
    artefact = ALL["aetta/T2"]
    table = artefact.table("embedded", made(artefact, tmp_path / "errors"))
    assert table.mean("Continual glyphs: AETTA", "TENT") == pytest.approx(10)
    assert table.mean("Continual glyphs: GDE", "Avg") == pytest.approx(20)
    (claim,) = artefact.claims
    assert judge(claim, table).because.startswith("the least difference is +10.00")
    assert table.mean("AETTA's gain", "Avg") == pytest.approx(10)
    artefact = ALL["aetta/T3"]
    table = artefact.table("embedded", made(artefact, tmp_path / "gains"))
    assert list(table.rows)[:2] == ["Episodic", "MRS"]
    assert table.mean("MRS", "TENT") == pytest.approx(2 * 2.0)  # the second override, 0.02 each
    assert published.printed("aetta", "T2")["Continual CIFAR10-C: AETTA"]["TENT"]


def test_the_average_gain_is_the_abstracts() -> None:
    """19.8 points over both published tables."""
    rows = published.printed("aetta", "T1") | published.printed("aetta", "T2")
    values = {
        row: {"Avg": {"": c["Avg"][0] if isinstance(c["Avg"], list) else c["Avg"]}}
        for row, c in rows.items()
    }
    assert t1.gains(values, ["Avg"])["Avg"][""] == pytest.approx(19.8, abs=0.005)


def test_any_passes_and_exponent_from_one_log(tmp_path: Path) -> None:
    """Made-up runs with a disagreement of 0.2 (0.3 with 5 passes), a balance of 0.8, and accuracy a."""
    artefact = ALL["aetta/Fig5"]
    cells = made(artefact, tmp_path)
    table = artefact.table("embedded", cells)
    assert [row for row in table.rows if row.startswith("N")] == ["N = 5", "N = 10", "N = 15"]
    (run,) = (
        Run.load(c.folder) for c in cells if (c.names["method"], c.names["seed"]) == ("TENT", 43)
    )
    for row, disagreement, alpha in (
        ("N = 5", 0.3, 3),
        ("alpha = 0", 0.2, 0),
        ("alpha = 3", 0.2, 3),
    ):
        error = disagreement / 0.8**alpha
        smooth, errors = disagreement, []
        for accuracy in run.column("accuracy"):
            smooth = 0.6 * smooth + 0.4 * error
            errors.append(abs(1 - smooth - accuracy))
        fog = np.arange(len(errors)) % 20 < 10
        expected = 50 * (np.mean(np.array(errors)[fog]) + np.mean(np.array(errors)[~fog]))
        assert table.rows[row]["TENT"]["seed 43"] == pytest.approx(expected, rel=1e-5)
    assert table.rows["N = 10"] == table.rows["N = 15"] == table.rows["alpha = 3"]


def test_calibration_by_bins_of_confidence(tmp_path: Path) -> None:
    artefact = ALL["aetta/Fig3"]
    table = artefact.table("embedded", made(artefact, tmp_path))
    assert table.columns == ["25", "75"]
    found = [table.mean(f"TENT: {curve}", "25") for curve in ("CPC", "accuracy", "RCPC")]
    assert found == pytest.approx([60, 50, 50])
    assert table.mean("RoTTA: accuracy", "75") == pytest.approx(100 / 3)
    assert "TENT: calibration error of CPC and RCPC 45.0, 12.5 points" in table.notes
    assert judge(artefact.claims[0], table).state == "holds"


def test_resets_are_counted_along_the_stream(tmp_path: Path) -> None:
    artefact = ALL["aetta/Fig6"]
    cells = made(artefact, tmp_path)
    assert {cell.names["method"] for cell in cells} == {"TENT"}
    table = artefact.table("embedded", cells)
    assert [row for row in table.rows if row.startswith("resets")] == [
        "resets: DistShift",
        "resets: AETTA",
    ]
    assert artefact.picture is not None
    assert artefact.picture(table, cells, tmp_path / "picture.png").stat().st_size > 5_000


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """A mean of fewer runs says so, and has no average."""
    cells = {"a": {"c": {"1": 1.0, "2": 2.0}, "d": {"1": 1.0}}, "b": {"c": {"1": 5.0}}}
    table = with_average(Table(["c", "d"], cells))
    assert table.mean("b", "Average") is None
    kept = results(ALL["rdumb/T2.1"], "embedded", table, missing=["c, seed 2, b"])
    text = page(ALL["rdumb/T2.1"], kept)
    assert "5.00 (n=1)" in text
    assert "Runs that are missing (1): c, seed 2, b." in text
    assert accuracies([]).rows == {}


def test_walks_of_the_embedded_calibration() -> None:
    artefact = ALL["rdumb/TA.1"]
    table = ta_1.table("embedded", artefact.cells("embedded"))
    assert list(table.rows) == ["CCC-Easy", "CCC-Medium", "CCC-Hard"]
    lengths = [table.mean(row, "mean") for row in table.rows]
    assert lengths == sorted(lengths, key=float)
    assert judge(artefact.claims[0], table).state == "holds"


def test_the_toy_is_stable_or_collapses() -> None:
    """With few points; the covariance is the text's, not that of eq. A.4."""
    clean, corrupted, labels = toy.data(4000, 25.0, seed=0)
    assert clean.shape == corrupted.shape == (4000, 2)
    assert labels.mean() == 0.5
    noise = np.cov((corrupted - clean @ toy.rotation(-np.pi / 9).T).T)
    turn = toy.rotation(-np.pi / 4) @ toy.rotation(-np.pi / 6).T
    np.testing.assert_allclose(noise, turn @ np.diag([0.25, 25]) @ turn.T, atol=1.5)
    found = fig2_6.dynamics(400, 4000)
    assert found.columns[0] == "0"
    fall = {}
    for name in fig2_6.CONDITIONS:
        ends = [found.mean(f"accuracy: {name}", c) for c in ("0", found.columns[-1])]
        fall[name] = (ends[0] or 0) - (ends[1] or 0)
    assert fall["condition 2"] > 10
    assert abs(fall["condition 1"]) < 5
    assert abs(fall["eq. A.4"]) < 5


def test_disagreement_is_the_error_where_the_theorems_hold() -> None:
    """And is not, where a class is over-confident: to a tenth of a point over many images."""
    found = theorems.calibrated(200_000, 10, seed=0)
    assert found.disagreement == pytest.approx(found.error, abs=0.004)
    for b in (1.5, 4.0):
        found = theorems.overconfident(200_000, 10, seed=0, a=0.2, b=b)
        assert found.theorem == pytest.approx(found.error, abs=0.008)
        assert found.disagreement < found.error - 0.04


def test_points_at_rest_are_ordinary_expectation_maximisation() -> None:
    """Whose likelihood never falls; points that move come together."""
    points, labels, means = mixture.mixture(3, 50, 4.0, np.random.default_rng(0))
    rest = [*mixture.maximised(points, labels, means + 2, 30, rate=0.0)]
    energies = [
        np.log(np.exp(-0.5 * ((points[:, None] - s.centroids) ** 2).sum(-1)).sum(1)).sum()
        for s in rest
    ]
    assert np.all(np.diff(energies) > -1e-9)
    assert all(np.array_equal(s.points, points) for s in rest)
    *_, last = mixture.maximised(points, labels, means, 200, rate=0.1)
    nearest = np.linalg.norm(last.points[:, None] - last.centroids, axis=-1).min(1)
    assert nearest.max() < 0.1
    assert (
        rest[0].accuracy
        == (np.linalg.norm(points[:, None] - (means + 2), axis=-1).argmin(1) == labels).mean()
    )


def test_steps_since_an_event() -> None:
    assert steps_since(["a", "a", "b", "b", "b", "a"]).tolist() == [1, 2, 1, 2, 3, 1]


def test_every_suite_is_there_and_every_published_table() -> None:
    """Artefacts share runs, so that a folder stands for one configuration."""
    configs: dict[Path, dict[str, Any]] = {}
    for artefact in ALL.values():
        for scale in artefact.scales:
            cells = artefact.cells(scale)
            assert bool(cells) == bool(artefact.suites[scale] and not artefact.of_ensembles)
            assert len({cell.folder for cell in cells}) == len(cells)
            for cell in cells:
                assert configs.setdefault(cell.folder, cell.config) == cell.config, artefact.name
        if artefact.published:
            assert published.printed(artefact.paper, artefact.published)
    used = {n for a in ALL.values() for names in a.suites.values() for n in names if "rdumb" in n}
    shared = {"glyphs", "imagenet", "ccc-streams", "ccc-streams-glyphs", "ccc-streams-one-glyphs"}
    shared |= {"holdout-streams", "holdout-streams-glyphs"}
    there = {f"rdumb/{path.stem}" for path in (CONFIGS / "rdumb").glob("*.yaml")}
    assert there - {f"rdumb/{name}" for name in shared} == used


def test_the_full_scale_is_the_papers() -> None:
    """27 runs of 7.5 million images."""
    cells = ALL["rdumb/runs27"].cells("full")
    streams = {(c.names["stream"], c.names["seed"]) for c in cells}
    assert len(streams) == 27
    assert {c.config["data"]["init_args"]["images"] for c in cells} == {7_500_000}


def test_published_numbers_stand_beside_equal_runs_only() -> None:
    artefact = ALL["rdumb/T2.4"]
    table = Table(["125"], {"RDumb": {"125": {"1": 40.0, "2": 41.0}}})
    same = results(artefact, "full", table, differences=[], missing=[])
    assert "  published  42.10" in page(artefact, same)
    other = page(
        artefact, results(artefact, "full", table, differences=["lr: 1, not 2"], missing=[])
    )
    assert "  published" not in other
    assert "These runs are not the paper's:\n\n- lr: 1, not 2\n" in other
    assert "46.70" in other  # still printed, by itself


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for place in PLACES:
        parser.add_argument(f"--{place.option}")
    suite.add_options(parser)
    args = parser.parse_args(words)
    return argparse.Namespace(**vars(args), scale="embedded", show=False, keep=False)


def test_what_the_full_scale_needs_is_asked_for(tmp_path: Path) -> None:
    cells = ALL["rdumb/T2.4"].cells("full")
    with pytest.raises(HoldfastError, match="--imagenet PATH"):
        placed(cells, options())
    (cell, *_) = placed(cells, options("--imagenet", str(tmp_path)))
    assert cell.config["data"]["init_args"]["source"]["init_args"]["root"] == str(tmp_path)
    artefact = ALL["rdumb/T2.2"]
    with pytest.raises(HoldfastError, match=r"glyphs-width8\.safetensors is not there"):
        placed(artefact.cells("embedded"), options())
    needed = {t for cell in artefact.cells("embedded") for t in strings(cell.config)}
    files = {text for text in needed if text.endswith(".safetensors")}
    assert files == set(artefact.trains)  # so that the command trains what is missing


def test_the_list(capsys: pytest.CaptureFixture) -> None:
    assert main(["paper", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"name", "paper", "shows", "scales", "done", "verdict"} <= found[0].keys()
    assert main(["paper"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [entry["name"] for entry in found]
    assert main(["paper", "rdumb/T9"]) == 2
    assert "there is no artefact 'rdumb/T9'" in capsys.readouterr().err
    assert main(["paper", "agreement/Fig1", "--scale", "full"]) == 2
    assert "has no full scale" in capsys.readouterr().err
    assert all(entry["remark"] for entry in found if "embedded" not in entry["scales"])


def test_a_small_artefact_from_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """A real suite of two methods; the second command runs nothing anew."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(
        yaml.safe_dump(
            {
                "out": "runs",
                "common": {"trainer": {"accelerator": "cpu"}, "progress": False},
                "streams": {"digits": {**DATA, "setting": "CCC-Easy"}},
                "methods": {"Source": model("Source"), "BNAdapt": model("BNAdapt")},
                "seeds": [43, 44],
            }
        )
    )
    artefact = Artefact(
        name="rdumb/small",
        shows="two methods",
        suites={"embedded": ("small.yaml",)},
        of_runs=accuracies,
        claims=(Claim("BN gains", lambda t: [t.gain("BNAdapt", "Source")]),),
    )
    assert show(artefact, options("--out", str(tmp_path / "runs"))) == 0
    text = capsys.readouterr().out
    assert ("Verdict:" in text) == bool(artefact.claims)
    assert "Runs that are missing" not in text
    folder = tmp_path / "runs" / "artefacts"
    kept = json.loads((folder / "small.json").read_text())
    assert set(kept["table"]["rows"]) == {"Source", "BNAdapt"}
    assert len(kept["weights"]) == 1
    assert (folder / "small.png").stat().st_size > 5_000
    assert (folder / "small.md").read_text() == page(artefact, kept, "markdown", "small.png")
    records = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("record.jsonl")}
    assert len(records) == 4
    assert show(artefact, options("--out", str(tmp_path / "runs"))) == 0
    assert records == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("record.jsonl")}


def test_the_hold_out_names_the_rates_of_the_embedded_methods() -> None:
    """Those of the files for the glyphs; EATA and RDumb take ETA's."""
    table = Table(["1", "2", "3"], {"Tent": {"1": {"s": 49.0}, "2": {"s": 50.0}, "3": {"s": 48.4}}})
    assert holdout.rates(table, "Tent") == ("2", "2")
    table.rows["Tent"]["3"]["s"] = 48.5
    assert holdout.rates(table, "Tent") == ("2", "3")
    kept = ALL["rdumb/holdout"].kept
    assert kept is not None
    for method in ("Tent", "RPL", "SLR", "CPL", "CoTTA", "ETA", "EATA", "RDumb"):
        file = yaml.safe_load((CONFIGS / "methods" / f"{method.lower()}-glyphs.yaml").read_text())
        rate = file["model"]["init_args"]["optimizer"]["init_args"]["lr"]
        same = "ETA" if method == "EATA" else method
        assert rate == float(holdout.rates(Table(**kept["table"]), same)[1])


def test_kept_results_and_pages_agree() -> None:
    """Every committed page is what its committed numbers make, and so is that of all claims."""
    docs = Path(published.__file__).parents[2] / "docs" / "papers"
    assert (docs / "claims.md").read_text() == overview(ALL.values())
    for artefact in ALL.values():
        text = docs / artefact.paper / f"{artefact.file}.md"
        assert text.exists() == bool(artefact.kept)
        if artefact.kept:
            picture = f"{artefact.file}.png"
            assert text.read_text() == page(artefact, artefact.kept, "markdown", picture)
