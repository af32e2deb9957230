"""Tables and figures of the papers: what each function makes of known runs, and the command."""

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import DATA, model
from made_up import put
from processes import started, until

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.papers import published, store, tables
from holdfast.benchmarks.papers.aetta import theorems
from holdfast.benchmarks.papers.claims import overview
from holdfast.benchmarks.papers.experiment import (
    HERE,
    PAPERS,
    Experiment,
    declaration,
    experiments,
    notes,
)
from holdfast.benchmarks.papers.flips import mixture
from holdfast.benchmarks.papers.page import page
from holdfast.benchmarks.papers.paper import DOCS, listing, make, parser
from holdfast.benchmarks.papers.picture import draw
from holdfast.benchmarks.papers.pipeline import Plan, check, chosen, plan, tabulate
from holdfast.benchmarks.papers.places import strings
from holdfast.benchmarks.papers.rdumb import rates, toy
from holdfast.benchmarks.papers.table import (
    ALL_BUT_WORST,
    AVERAGE,
    WORST,
    Table,
    summaries,
    written,
)
from holdfast.benchmarks.papers.verdicts import NO_RUNS, STATES
from holdfast.benchmarks.results.runs import Run
from holdfast.benchmarks.suites.cell import Cell
from holdfast.benchmarks.suites.grid import SUITES

ALL = experiments()
OF_RUNS = [name for name, own in ALL.items() if own.input == "runs" and "embedded" in own.suites]


COLLAPSING = ("Tent", "CPL", "RPL", "SLR", "CoTTA")


def made(own: Experiment, folder: Path, batches: int = 40) -> Plan:
    """Its cells with made-up runs: methods, overrides and settings differ, and seeds a little."""
    cells = own.cells("embedded", out=str(folder), seeds=[43, 44])
    methods = sorted({str(cell.names["method"]) for cell in cells})
    overrides = list(dict.fromkeys(cell.names["override"] for cell in cells))
    for cell in (cell for cell in cells if not cell.folder.exists()):
        names = cell.names
        level = 0.2 + 0.03 * methods.index(names["method"])
        level += 0.02 * overrides.index(names["override"]) + 0.001 * names["seed"]
        end = [0.0 if names["method"] in COLLAPSING else level] * (3 * batches // 4)
        accuracy = [level] * (batches // 4) + end
        watches = names["method"] != "Source" or own.paper == "monitoring"
        config = cell.config if watches else {}
        put(
            cell.folder,
            names,
            config,
            accuracy,
            resets=(batches // 2,) * (names["method"] == "RDumb"),
        )
    return Plan(own, "embedded", cells)


def table_of(name: str, folder: Path) -> Table:
    """An experiment's table of made-up runs."""
    return ALL[name].table(chosen(made(ALL[name], folder)))


def states(own: Experiment, table: Table) -> dict[str, str]:
    """The verdict on each claim for a table, by the claim's id."""
    found = own.verdicts({"table": table.as_json()})
    return {verdict.claim.id: verdict.state for verdict in found}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for made-up runs, which experiments share as they share suites."""
    return tmp_path_factory.mktemp("shared")


DRAWN: set[Any] = set()  # kinds of pictures


@pytest.mark.parametrize("name", OF_RUNS)
def test_every_experiment_on_made_up_runs(name: str, shared: Path, tmp_path: Path) -> None:
    own = ALL[name]
    folder = shared / "-".join(own.suites["embedded"]).replace("/", "-")
    results = tabulate(made(own, folder, 40 if own.paper == "monitoring" else 20))
    results = json.loads(store.text_of(results))
    table = Table.read(results["table"])
    assert table.rows
    for verdict in own.verdicts(results):
        assert verdict.state in STATES
        assert verdict.because != NO_RUNS, verdict.claim.says
    if own.published and own.paper == "rdumb" and table.panels == [""]:  # rows are named as printed
        printed = {c for _, c in published.printed("rdumb", own.published)}
        assert set(table.curves()) - {"SLR-SGD"} <= printed  # the paper's SLR has Adam
    text = page(own, results, "markdown")
    assert f"holdfast paper {name}" in text
    assert all(claim.says in text for claim in own.claims)
    if (kind := (table.along, bool(table.points), min(len(table.panels), 2))) not in DRAWN:
        DRAWN.add(kind)
        assert draw(table, tmp_path / "picture.png").stat().st_size > 5_000


def test_the_main_table_has_means_over_runs(tmp_path: Path) -> None:
    own = ALL["rdumb/T2.1"]
    table = table_of(own.name, tmp_path)
    assert table.xs == ["CIN-C", "CCC-Easy", "CCC-Medium", "CCC-Hard"]
    assert table.curves()[:2] == ["Source", "BNAdapt"]
    expected = 20 + 3 * sorted(table.curves()).index("RDumb") + 4.35
    assert table.mean("", "RDumb", "CCC-Easy") == pytest.approx(expected)
    averages = {key[1]: value for key, _, value in summaries(table)}
    assert averages["RDumb"] == pytest.approx(expected)
    assert len(table.values("", "RDumb", "CCC-Easy")) == 2  # seeds
    found = states(own, table)
    assert found["collapse"] == found["eta-collapse"] == "holds"
    assert found["above-source"] == "does not hold"


def test_errors_and_gains_are_means_over_corruptions(tmp_path: Path) -> None:
    """AETTA's tables: half of the batches is fog, where the made-up errors are 0.1 and 0.2."""
    table = table_of("aetta/T2", tmp_path / "errors")
    assert table.mean("Continual glyphs", "AETTA", "TENT") == pytest.approx(10)
    assert table.mean("Continual glyphs", "GDE", "Avg") == pytest.approx(20)
    (verdict,) = ALL["aetta/T2"].verdicts({"table": table.as_json()})
    assert "+10.00" in verdict.because
    assert table.mean("", "AETTA's gain", "Avg") == pytest.approx(10)
    table = table_of("aetta/T3", tmp_path / "gains")
    assert table.curves()[:2] == ["Episodic", "MRS"]
    assert table.mean("", "MRS", "TENT") == pytest.approx(2 * 2.0)  # the second override, 0.02 each
    assert published.printed("aetta", "T2")["Continual CIFAR10-C", "AETTA"]["TENT"]


def test_the_average_gain_is_the_abstracts() -> None:
    """19.8 points over both published tables."""
    table = Table()
    for name in ("T1", "T2"):
        for (panel, curve), cells in published.printed("aetta", name).items():
            value = cells["Avg"]
            table.add(panel, curve, "Avg", "", value[0] if isinstance(value, list) else value)
    assert tables.gains(table, "AETTA", "Avg")[""] == pytest.approx(19.8, abs=0.005)


def test_any_passes_and_exponent_from_one_log(tmp_path: Path) -> None:
    """Made-up runs with a disagreement of 0.2 (0.3 with 5 passes), a balance of 0.8, and accuracy a."""
    own = made(ALL["aetta/Fig5"], tmp_path)
    table = own.own.table(chosen(own))
    assert table.curves()[:3] == ["N = 5", "N = 10", "N = 15"]
    (run,) = (
        Run.load(c.folder)
        for c in own.cells
        if (c.names["method"], c.names["seed"]) == ("TENT", 43)
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
        assert table.values("", row, "TENT")["seed 43"] == pytest.approx(expected, rel=1e-5)
    cells = table.cells
    assert cells["", "N = 10"] == cells["", "N = 15"] == cells["", "alpha = 3"]


def test_calibration_by_bins_of_confidence(tmp_path: Path) -> None:
    table = table_of("aetta/Fig3", tmp_path)
    assert table.xs == [25, 75]
    found = [table.mean("TENT", curve, 25) for curve in ("CPC", "accuracy", "RCPC")]
    assert found == pytest.approx([60, 50, 50])
    assert table.mean("RoTTA", "accuracy", 75) == pytest.approx(100 / 3)
    assert any("TENT" in note and "45.0, 12.5 points" in note for note in table.notes)
    assert states(ALL["aetta/Fig3"], table)["robust-nearer"] == "holds"


def test_resets_are_counted_along_the_stream(tmp_path: Path) -> None:
    own = made(ALL["aetta/Fig6"], tmp_path)
    assert {cell.names["method"] for cell in own.cells} == {"TENT"}
    table = own.own.table(chosen(own))
    assert table.curves("resets") == ["DistShift", "AETTA"]
    from holdfast.benchmarks.papers.aetta.resets_along import picture

    assert picture(table, own.cells, tmp_path / "picture.png").stat().st_size > 5_000


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """A mean of fewer runs says so, and has no average."""
    table = Table(summary="columns")
    for curve, x, run in (("a", "c", "1"), ("a", "c", "2"), ("a", "d", "1"), ("b", "c", "1")):
        table.add("", curve, x, run, 5.0)
    assert [(key, x) for key, x, _ in summaries(table)] == [(("", "a"), "Average")]
    results = {"scale": "embedded", "table": table.as_json(), "missing": ["c, seed 2, b"]}
    text = page(ALL["rdumb/T2.1"], results)
    assert "5.00 (n=1)" in text
    assert "Missing runs (1): c, seed 2, b." in text
    assert tables.accuracy([]).rows == []


def test_walks_of_the_embedded_calibration() -> None:
    own = ALL["rdumb/TA.1"]
    table = own.table("embedded", own.cells("embedded"))
    assert table.curves() == ["CCC-Easy", "CCC-Medium", "CCC-Hard"]
    lengths = [table.mean("", curve, "mean") for curve in table.curves()]
    assert lengths == sorted(lengths, key=float)
    assert table.rows == Table.read(own.committed["table"]).rows
    assert states(own, table) == {"harder-longer": "holds"}


def test_the_toy_is_stable_or_collapses() -> None:
    """With few points; the covariance is the text's, not that of eq. A.4."""
    clean, corrupted, labels = toy.data(4000, 25.0, seed=0)
    assert clean.shape == corrupted.shape == (4000, 2)
    assert labels.mean() == 0.5
    noise = np.cov((corrupted - clean @ toy.rotation(-np.pi / 9).T).T)
    turn = toy.rotation(-np.pi / 4) @ toy.rotation(-np.pi / 6).T
    np.testing.assert_allclose(noise, turn @ np.diag([0.25, 25]) @ turn.T, atol=1.5)
    found = toy.dynamics(400, 4000)
    assert found.xs[0] == 0
    fall = {}
    for name in toy.CONDITIONS:
        ends = [found.mean("accuracy", name, x) for x in (0, found.xs[-1])]
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


def test_nearer_to_the_error_is_judged_by_distances() -> None:
    """Fault 10 of the audit: an estimate that overshoots may be farther from the error."""
    table = Table()
    for x, aetta in (("calibrated", 9.0), ("near", 51.0), ("far", 70.0)):
        for run in ("seed 0", "seed 1"):
            for curve, value in (("error", 50.0), ("disagreement", 45.0), ("aetta", aetta)):
                table.add("", curve, x, run, value + 0.01 * (run == "seed 1"))
    near, far = theorems.nearer(table)
    assert (near.name, far.name) == ("near", "far")
    assert near.found is not None
    assert far.found is not None
    assert (near.found.mean, far.found.mean) == pytest.approx((4, -15))


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
    assert tables.steps_since(["a", "a", "b", "b", "b", "a"]).tolist() == [1, 2, 1, 2, 3, 1]


def test_every_suite_is_there_and_every_published_table() -> None:
    """Experiments share runs, so that a folder stands for one configuration."""
    seen: set[str] = set()
    configs: dict[Path, dict[str, Any]] = {}
    for own in ALL.values():
        for scale in own.scales:
            if (key := str((own.suites[scale], own.only, own.input))) in seen:
                continue
            seen.add(key)
            cells = own.cells(scale)
            assert bool(cells) == bool(own.suites[scale] and own.input in ("runs", "computed"))
            assert len({cell.folder for cell in cells}) == len(cells)
            for cell in cells:
                assert configs.setdefault(cell.folder, cell.config) == cell.config, own.name
        if own.published:
            assert published.printed(own.paper, own.published)
    used = {n for own in ALL.values() for names in own.suites.values() for n in names}
    shared = {"base", "ten-methods", "ccc-streams", "holdout-streams"}
    there = {f"rdumb/{path.stem}" for path in (SUITES / "rdumb").glob("*.yaml")}
    assert there - {f"rdumb/{name}" for name in shared} == {n for n in used if "rdumb" in n}


def test_every_note_is_of_an_experiment() -> None:
    """And has no claim's id in it twice: ids are unique within an experiment by their mapping."""
    for paper in PAPERS:
        known = {own.file for own in ALL.values() if own.paper == paper}
        assert notes(paper).keys() <= known
    assert notes("rdumb")["T2.1"]["embedded"].startswith("A stream of CCC")


def test_the_full_scale_is_the_papers() -> None:
    """27 runs of 7.5 million images."""
    cells = ALL["rdumb/runs27"].cells("full")
    streams = {(c.names["stream"], c.names["seed"]) for c in cells}
    assert len(streams) == 27
    assert {c.config["data"]["init_args"]["images"] for c in cells} == {7_500_000}


def test_published_numbers_stand_beside_equal_runs_only() -> None:
    own = ALL["rdumb/T2.4"]
    table = Table()
    for run, value in (("1", 40.0), ("2", 41.0)):
        table.add("", "RDumb", 125, run, value)
    results: dict[str, Any] = {"scale": "full", "table": table.as_json(), "missing": []}
    assert "  published  42.10" in page(own, {**results, "differences": []})
    other = page(own, {**results, "differences": ["lr: 1, not 2"]})
    assert "  published" not in other
    assert "These runs are not the paper's:\n\n- lr: 1, not 2\n" in other
    assert "46.70" in other  # still printed, by itself


def options(*words: str) -> argparse.Namespace:
    return parser().parse_args(["rdumb/T2.4", *words])


def test_all_data_that_are_missing_are_asked_for_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # where nothing listens
    plans = [plan(ALL[name], options("--scale", "full")) for name in ("rdumb/T2.1", "flips/Fig3.4")]
    with pytest.raises(HoldfastError) as error:
        check(plans)
    lines = str(error.value).splitlines()
    asked = ("--imagenet PATH", "--imagenet-3dcc PATH", "--calibration PATH", "--imagenet-c PATH")
    assert all(any(option in line for line in lines) for option in asked)
    assert any("torchvision/resnet50" in line for line in lines)
    assert len(lines) == len(set(lines))
    found = plan(ALL["rdumb/T2.4"], options("--scale", "full", "--imagenet", str(tmp_path)))
    source = found.cells[0].config["data"]["init_args"]["source"]
    assert source["init_args"]["root"] == str(tmp_path)
    assert found.lacking == []


def test_source_models_that_the_command_trains_are_not_missing() -> None:
    own = ALL["rdumb/T2.2"]
    assert plan(own, options()).lacking == []
    needed = {t for cell in own.cells("embedded") for t in strings(cell.config)}
    assert {text for text in needed if text.endswith(".safetensors")} == set(own.trains)


def test_the_list(capsys: pytest.CaptureFixture) -> None:
    assert main(["paper", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"name", "paper", "shows", "scales", "done", "verdict"} <= found[0].keys()
    for width in (80, 200):
        lines = listing(list(ALL.values()), width).splitlines()
        assert max(map(len, lines)) <= width
        assert {line.split()[0] for line in lines if "/" in line[:20]} >= {e["name"] for e in found}
    assert main(["paper", "rdumb/T9"]) == 2
    assert "'rdumb/T9'" in capsys.readouterr().err
    assert main(["paper", "agreement/Fig1", "--scale", "full"]) == 2
    assert "embedded" in capsys.readouterr().err


def test_committed_results_are_shown_and_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["paper", "rdumb/T2.4", "--show"]) == 0
    shown = capsys.readouterr().out
    mean = Table.read(ALL["rdumb/T2.4"].committed["table"]).mean("", "RDumb", 50)
    assert f"{mean:.2f} ±" in shown
    assert "undecided: the shortest interval" in shown
    assert main(["paper", "rdumb/T2.4", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["results"] == ALL["rdumb/T2.4"].committed
    assert [claim["id"] for claim in found["claims"]] == [*("shortest-worst", "optimum", "plateau")]
    assert main(["paper", "rdumb/T2.4", "--show", "--scale", "full"]) == 2
    assert "--runs" in capsys.readouterr().err
    page_file = tmp_path / "page.html"
    assert main(["paper", "rdumb/T2.4", "--show", "--html", str(page_file)]) == 0
    assert "the shortest interval" in page_file.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_reading_committed_results_needs_no_torch() -> None:
    """Nor lightning nor matplotlib, which take seconds to import."""
    words = (
        "import sys; from holdfast.benchmarks.cli import main; "
        "assert main(['paper', 'rdumb', '--show']) == 0; "
    )
    words += "assert main(['paper', '--json']) == 0; heavy = {'torch', 'lightning', 'matplotlib'}"
    code = f"{words}; sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert found.returncode == 0, found.stderr[-500:]


def small(folder: Path) -> Experiment:
    """A small real suite with two methods."""
    (folder / "small.yaml").write_text(
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
    claims = {"gains": {"says": "BN gains", "above": {"curve": "BNAdapt", "than": "Source"}}}
    content = {"shows": "two methods", "suites": {"embedded": ["small.yaml"]}, "claims": claims}
    return declaration("rdumb/small", {**content, "runs": {"accuracy": {}}})


def test_a_small_experiment_from_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """A real suite of two methods; the second command runs nothing anew, nor does --runs."""
    monkeypatch.chdir(tmp_path)
    own = small(tmp_path)
    status, ((_, results, picture),) = make([own], options("--out", str(tmp_path / "runs")))
    assert status == 0
    assert "4 runs.\n" in capsys.readouterr().out
    text = page(own, results)
    assert "BN gains" in text
    assert "Missing runs" not in text
    folder = tmp_path / "runs" / "results"
    kept = json.loads((folder / "small.json").read_text())
    assert {row[1] for row in kept["table"]["rows"]} == {"Source", "BNAdapt"}
    facts = kept["provenance"]
    assert len(facts["weights"]) == 1
    assert {"version", "commit", "date", "threads", "processor"} <= facts.keys()
    assert picture.stat().st_size > 5_000
    assert (folder / "small.md").read_text() == page(own, kept, "markdown", "small.png")
    records = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("record.jsonl")}
    assert len(records) == 4
    assert make([own], options("--out", str(tmp_path / "runs")))[0] == 0
    assert " runs." not in capsys.readouterr().out
    status, ((_, again, _),) = make([own], options("--runs", str(tmp_path / "runs")))
    assert sorted(map(list, again["table"]["rows"])) == sorted(kept["table"]["rows"])
    assert records == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("record.jsonl")}


def test_the_embedded_methods_have_the_best_rates_of_the_hold_out() -> None:
    """On the long streams and on CIN-C; EATA takes ETA's, and the rate times its weight is the paper's."""
    table = Table()
    for x, value in {1: 49.0, 2: 50.0, 3: 48.4}.items():
        table.add("", "Tent", x, "s", value)
    assert rates.rates(table, "Tent") == (2, 2)
    table.rows[-1] = table.rows[-1]._replace(value=48.5)
    assert rates.rates(Table(table.rows), "Tent") == (2, 3)
    committed = Table.read(ALL["rdumb/holdout"].committed["table"])
    for cell in ALL["rdumb/T2.1"].cells("embedded"):
        method = str(cell.names["method"])
        if method not in ("Source", "BNAdapt"):
            own = cell.config["model"]["init_args"]
            rate = own["optimizer"]["init_args"]["lr"]
            assert rate == rates.rates(committed, "ETA" if method == "EATA" else method)[0]
            assert method != "EATA" or own["beta"] * rate == 2000 * 2.5e-4


def test_committed_results_and_pages_agree() -> None:
    """Every committed page is what its committed numbers make, and so is that of all claims."""
    assert (DOCS / "claims.md").read_text() == overview(ALL.values())
    for own in ALL.values():
        text = DOCS / own.paper / f"{own.file}.md"
        assert text.exists() == bool(own.committed)
        if own.committed:
            assert own.path.read_text() == store.text_of(own.committed)
            assert text.read_text() == page(own, own.committed, "markdown", f"{own.file}.png")
    files = {path.relative_to(HERE) for path in HERE.glob("*/results/*.json")}
    assert files == {own.path.relative_to(HERE) for own in ALL.values() if own.committed}


def test_averages_stand_beside_averages_of_the_same_rows() -> None:
    """Fault 5 of the audit: ours over all data sets, the printed one over some."""
    own = ALL["flips/T3.2"]
    means = ("Average", "Worst case", "Average (worst excluded)")
    rows = [curve for _, curve in published.printed("flips", "T3.2") if curve not in means]
    for extra in ([], ["another data set"]):
        table = Table(summary="rows")
        for curve in [*rows, *extra]:
            table.add("", curve, "RN50", "s", 5.0)
        content = {"scale": "full", "table": table.as_json(), "differences": [], "missing": []}
        lines = page(own, content).splitlines()
        average = next(n for n, line in enumerate(lines) if line.startswith("Average"))
        assert lines[average + 1].startswith("  published") == (not extra)
        assert sum(line.startswith("  published") for line in lines) >= len(rows)


def test_what_the_embedded_runs_cannot_decide_is_judged_at_full_scale() -> None:
    own = ALL["flips/T3.1"]
    found = {
        scale: verdict.state
        for scale in ("embedded", "full")
        for verdict in own.verdicts({**own.committed, "scale": scale})
        if verdict.claim.id == "less-than-cot"
    }
    assert found == {"embedded": "not judged", "full": "holds"}


MEANS = (AVERAGE, WORST, ALL_BUT_WORST)
APART = ("flips/Fig3.4",)  # prints shares and correlations, which match no row
FULL = [name for name in OF_RUNS if "full" in ALL[name].suites]


@pytest.fixture(scope="module")
def full_runs(shared: Path) -> Callable[[Experiment], list[Run]]:
    """The made-up runs of an experiment's suites, made and read once."""
    known: dict[str, list[Run]] = {}

    def runs(own: Experiment) -> list[Run]:
        key = str((own.suites["full"], own.only))
        if key not in known:
            known[key] = chosen(asked(own, shared / "full"))
        return known[key]

    return runs


def asked(own: Experiment, folder: Path) -> Plan:
    """Runs of exactly what the full-scale suites ask for: of each setting some streams, two seeds."""
    alike: dict[tuple[str, ...], list[Cell]] = {}
    for cell in own.cells("full", out=str(folder)):
        key = tuple(str(cell.names[k]) for k in ("method", "override", "setting", "seed"))
        alike.setdefault(key, []).append(cell)
    seeds: dict[tuple[str, ...], int] = {}
    cells = []
    for key, same in alike.items():
        seeds[key[:3]] = seeds.get(key[:3], 0) + 1
        cells += same[:: 1 + len(same) // 6 * (len(same) > 8)] if seeds[key[:3]] <= 2 else []
    for cell in cells:
        if not cell.folder.exists():
            level = 0.3 + 0.01 * (sum(map(ord, str(cell.folder))) % 7)
            resets = (12,) * (cell.names["method"] == "RDumb" or cell.names["override"] != "")
            accuracy = [level] * 8 + [0.0 if cell.names["method"] in COLLAPSING else level] * 32
            put(cell.folder, cell.names, cell.config, accuracy, resets=resets, exactly=True)
    return Plan(own, "full", cells)


@pytest.mark.parametrize("name", FULL)
def test_full_scale_suites_ask_for_all_that_a_table_needs(
    name: str, full_runs: Callable[[Experiment], list[Run]]
) -> None:
    """All printed rows and columns, no gap in a panel, and numbers for every claim."""
    own = ALL[name]
    table = own.table(full_runs(own), **own.full)
    for panel in table.panels:
        wanted = {x for curve in table.curves(panel) for x in table.of(panel, curve)}
        for curve in table.curves(panel):
            assert set(table.of(panel, curve)) == wanted, (panel, curve)
    there = {key: {*map(written, cells)} for key, cells in table.cells.items()}
    for key, x, _ in summaries(table):
        there.setdefault(key, set()).add(written(x))
    printed = published.printed(own.paper, own.published) if own.published else {}
    for key, cells in printed.items() if name not in APART else ():
        assert table.along or set(cells) <= there.get(key, set()), key
        assert key in there, key
    if printed and table.summary == "rows":  # whose average is over the printed rows
        assert set(table.cells) == {key for key in printed if key[1] not in MEANS}
    for verdict in own.verdicts({"scale": "full", "table": table.as_json()}):
        assert verdict.parts, verdict.claim.id
        assert all(part.found is not None for part in verdict.parts), verdict


@pytest.mark.parametrize("name", ["aetta/Fig2", "aetta/Fig3", "aetta/Fig5", "aetta/Why"])
def test_aettas_figures_at_full_scale_are_of_cifar100_alone(name: str) -> None:
    assert {c.names["setting"] for c in ALL[name].cells("full")} == {"Continual CIFAR100-C"}


def longer_than(rows: int, folder: Path) -> Iterator[Path]:
    """The records there with more rows."""
    for path in sorted(folder.rglob("record.jsonl")):
        if path.read_bytes().count(b"\n") > rows:
            yield path


@pytest.mark.slow
def test_a_signal_names_a_command_that_continues(tmp_path: Path) -> None:
    """SIGTERM, then the same command with Ctrl-C: the first run goes on where it was stopped."""
    record, begun = None, b""
    for number in (signal.SIGTERM, signal.SIGINT):
        words = ("paper", "rdumb/FigA.5c", "--out", tmp_path / "runs")
        with started(*words, folder=tmp_path, session=True) as process:
            record = until(
                lambda: next(longer_than(begun.count(b"\n") + 2, tmp_path), None),  # noqa: B023
                alive=lambda: process.poll() is None,
            )
            os.killpg(process.pid, number)
            output = process.told(200)
        assert (process.returncode, "--resume" in output) == (130, False), output
        assert output.splitlines()[-1].startswith("holdfast paper:")
        assert "rerun the same command" in output
        assert record.read_bytes().startswith(begun)
        begun = record.read_bytes()
