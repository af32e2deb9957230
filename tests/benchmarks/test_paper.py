"""Tables and figures of the papers: golden tables of made-up runs, committed pages, and the command."""

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from common import DATA, model
from made_up import put

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.papers import EXPERIMENTS, Experiment
from holdfast.benchmarks.papers.accuracy import accuracy, rates
from holdfast.benchmarks.papers.citeme.numbers import RUNS
from holdfast.benchmarks.papers.engine import command
from holdfast.benchmarks.papers.engine.claims import above
from holdfast.benchmarks.papers.engine.experiment import PAPERS, front_matter, notes
from holdfast.benchmarks.papers.engine.page import claims_page, experiment_page, front_page, section
from holdfast.benchmarks.papers.engine.sources import Files, Suite, runs_of
from holdfast.benchmarks.papers.engine.table import Table, header, tidy
from holdfast.benchmarks.suites import grid
from holdfast.benchmarks.suites.cell import Cell

GOLDEN = {
    f"{file.stem}/{name}": content
    for file in sorted((Path(__file__).parents[1] / "golden" / "papers").glob("*.json"))
    for name, content in json.loads(file.read_text()).items()
}
COLLAPSING = ("Tent", "CPL", "RPL", "SLR", "CoTTA")
LARGE = ("flips/T3.2", "flips/TB.2", "flips/TB.4")  # suites of which one seed is enough


def table_of_made_up_runs(experiment: Experiment, folder: Path) -> Table:
    """The table of made-up runs: methods, overrides and settings differ, and seeds a little."""
    source, seeds = experiment.source, [43] if experiment.name in LARGE else [43, 44]
    seeds = [*map(int, source.only.get("seed", seeds))] if isinstance(source, Suite) else seeds
    cells = source.cells("embedded", out=str(folder), seeds=seeds)
    methods = sorted({str(cell.names["method"]) for cell in cells})
    overrides = list(dict.fromkeys(cell.names["override"] for cell in cells))
    for cell in (cell for cell in cells if not cell.folder.exists()):
        names = cell.names
        level = 0.2 + 0.03 * methods.index(names["method"])
        level += 0.02 * overrides.index(names["override"]) + 0.001 * names["seed"]
        end = [0.0 if names["method"] in COLLAPSING else level] * 15
        resets = (10,) * (names["method"] == "RDumb")
        accuracies = [level] * 5 + end
        config = {} if names["method"] == "Source" else cell.config
        put(cell.folder, names, config, accuracies, resets=resets)
    return experiment(runs_of(cells))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for made-up runs, which experiments share as they share suites."""
    return tmp_path_factory.mktemp("shared")


@pytest.mark.parametrize("name", GOLDEN)
def test_tables_of_made_up_runs_are_as_they_were(name, shared):
    """Every mean, and the verdict on each claim, as before the tables became functions."""
    experiment = EXPERIMENTS[name]
    source = experiment.source
    assert isinstance(source, Suite)
    kind = re.sub(r"\W+", "-", str((source.suites["embedded"], source.only)))
    table = table_of_made_up_runs(experiment, shared / kind[:100])
    means: dict[str, dict[str, Any]] = {}
    for (panel, curve), cells in table.cells.items():
        of_curve = {header(x): table.mean(panel, curve, x) for x in cells}
        means.setdefault(panel, {})[curve] = pytest.approx(of_curve, rel=1e-5, nan_ok=True)
    results = {"scale": "embedded", "table": json.loads(json.dumps(table.as_json()))}
    states = {verdict.claim.id: verdict.state for verdict in experiment.verdicts(results)}
    assert {"means": means, "states": states, "notes": len(table.notes)} == GOLDEN[name]


def test_the_runs_that_end_below_the_source_model_are_told_from_the_others(tmp_path):
    """Of the made-up ones all but TENT's, as their accuracies rise with the names of their methods."""
    table = table_of_made_up_runs(EXPERIMENTS["aetta/Fig4"], tmp_path)
    failed, stood = (table.values("", "GDE", x) for x in ("runs that fail", "runs that do not"))
    assert [*stood] == ["TENT, seed 0", "TENT, seed 1", "TENT, seed 2"]
    assert len(failed) == 15


def test_committed_results_have_the_seeds_of_todays_suites():
    """All but those of trials, which have the seeds of the hold-out."""
    for experiment in EXPERIMENTS.values():
        source = experiment.source
        if type(source) is not Suite or source.trials or "embedded" not in experiment.committed:
            continue
        rows = experiment.committed["embedded"]["table"]["rows"]
        found = {seed for *_, run, _ in rows for seed in re.findall(r"seed (\d+)", str(run))}
        if found:
            seeds = {str(cell.names["seed"]) for cell in source.cells("embedded")}
            assert seeds <= found, experiment.name


def test_committed_results_and_pages_agree():
    """Every committed page is what its committed numbers make, and so is that of all claims."""
    docs, committed = command.DOCS, [e for e in EXPERIMENTS.values() if e.committed]
    assert (docs / "claims.md").read_text() == claims_page(EXPERIMENTS.values())
    for paper in {experiment.paper for experiment in committed}:
        assert (docs / f"{paper}.md").read_text() == front_page(paper, EXPERIMENTS.values())
        assert front_matter(paper).startswith("# ")
    for experiment in committed:
        folder = docs / experiment.paper
        assert (folder / f"{experiment.file}.md").read_text() == experiment_page(experiment)
        for scale, results in experiment.committed.items():
            assert (folder / experiment.file_name(scale, ".png")).exists()
            assert experiment.path(scale).read_text() == command.text_of(results)
            table = Table.read(results)
            assert json.loads(json.dumps(table.as_json())) == results["table"]
    files = {e.path(scale) for e in EXPERIMENTS.values() for scale in e.committed}
    assert {*PAPERS.glob("*/results/**/*.json")} == files
    pictures = {p.relative_to(docs) for p in docs.glob("*/**/*.png")}
    assert len(pictures) == len(files)
    pages = {path.relative_to(docs).with_suffix("").as_posix() for path in docs.glob("*/*.md")}
    assert pages == {experiment.name for experiment in committed}


def test_every_suite_published_table_and_note_is_there():
    """Experiments share runs, so that a folder stands for one configuration."""
    configs: dict[Path, dict[str, Any]] = {}
    for experiment in EXPERIMENTS.values():
        source = experiment.source
        assert experiment.title, experiment.name
        if isinstance(source, Suite):
            for scale, names in source.suites.items():
                known = [cell for name in names for cell in cells_of(name, scale)]
                assert any(source.matches(cell.names) for cell in known), (experiment.name, scale)
                assert all(configs.setdefault(c.folder, c.config) == c.config for c in known)
    for paper in {experiment.paper for experiment in EXPERIMENTS.values()}:
        files = {
            experiment.file for experiment in EXPERIMENTS.values() if experiment.paper == paper
        }
        assert {name.removesuffix(" photos") for name in notes(paper)} <= files


def test_complete_results_are_not_replaced_by_some_that_lack_runs():
    experiment = EXPERIMENTS["rdumb/T2.4"]
    results = {**experiment.committed["embedded"], "missing": ["a, seed 1, b"]}
    with pytest.raises(HoldfastError, match="would replace complete results"):
        command.keep(experiment, results, Path("T2.4.png"))


def test_folders_which_do_not_say_what_they_lack_are_not_kept(tmp_path, capsys):
    words = ["paper", "rdumb/T2.4", "--runs", str(tmp_path), "--keep"]
    assert main(words) == 2
    assert "so --keep cannot join them" in capsys.readouterr().err


@cache
def cells_of(suite: str, scale: str) -> list[Cell]:
    """The cells of a suite at a scale."""
    return [*grid.cells(grid.read_suite(suite, scale if grid.scales(suite) else None))]


def test_full_scale_suites_make_every_printed_row(tmp_path):
    """The rows and columns of Table 2.1, from one stream of each setting; and CCC's 27 long runs."""
    experiment = EXPERIMENTS["rdumb/T2.1"]
    cells = {
        (c.names["method"], c.names["setting"]): c
        for c in experiment.source.cells("full", out=str(tmp_path))
    }
    for cell in cells.values():
        put(cell.folder, cell.names, cell.config, [0.5] * 8, exactly=True)
    table = experiment(runs_of([*cells.values()]))
    for key, numbers in experiment.published.items():
        assert set(numbers) == {*table.xs, "Average"}
        assert key in table.cells
    long = EXPERIMENTS["rdumb/runs27"].source.cells("full")
    assert len({(c.names["stream"], c.names["seed"]) for c in long}) == 27
    assert {c.config["data"]["init_args"]["images"] for c in long} == {7_500_000}


MEANS = ("Average", "Worst case", "Average (worst excluded)")  # rows that are no data set


def printed(experiment: Experiment) -> Table:
    """The paper's own cells as one run."""
    if isinstance(experiment.source, Files):  # as of the runs that CiteME's claims are about
        return Table(experiment([]).frame.assign(panel=RUNS), exact=True, full=True)
    rows = [
        (panel, curve, float(x) if x.replace(".", "").isdigit() else x, "printed", number)
        for (panel, curve), cells in experiment.published.items()
        for x, value in cells.items()
        if curve not in MEANS and (number := np.ravel(value)[0]) is not None
    ]
    return tidy(rows, exact=True, full=True)


# What is printed of these is a correlation, a share, or a figure's note, and not the cells of the table.
UNSEEN = {
    *("flips/B.9 few-flips", "flips/FigB.4 less-certain", "citeme/Fig5 few-steps"),
    *(f"flips/Fig3.4 {claim.id}" for claim in EXPERIMENTS["flips/Fig3.4"].claims),
}
# Papers say these in words, or draw them, without a number that can be a cell of the table.
WORDS_ONLY = {
    *(f"rdumb/{name}" for name in ("runs27", "cifar10", "survival", "long", "Fig2.1", "Fig2.2")),
    *(f"rdumb/Fig{name}" for name in ("2.3", "2.5a", "2.5b", "2.6", "2.6c", "A.3")),
    *("rdumb/FigA.5", "rdumb/FigA.5c"),
    *(f"flips/Fig{name}" for name in ("3.1", "3.5", "3.6", "3.7", "B.1", "B.2", "B.5", "B.6")),
    *(f"aetta/{name}" for name in ("Fig2", "Fig3", "Fig4", "Fig5", "Fig6", "Thm3")),
    *(f"agreement/{name}" for name in ("Fig1", "Fig2", "Fig3", "T1", "T3")),
}


def test_the_printed_numbers_refute_no_claim_of_a_paper():
    """By the direction and the size of the means; those of ours may fail."""
    unseen: set[str] = set()
    words_only: set[str] = set()
    for experiment in EXPERIMENTS.values():
        name = experiment.name
        if not experiment.published and not isinstance(experiment.source, Files):
            words_only |= {name for c in experiment.claims if c.group in ("paper", "threshold")}
            continue
        table = printed(experiment)
        for claim in (claim for claim in experiment.claims if claim.group != "ours"):
            means = [part for part in claim.parts(table) if part.number is not None]
            for part in means:
                assert part.least <= part.number.mean <= part.most, (name, claim.id, part)
            if not means and claim.group != "others":
                unseen.add(f"{name} {claim.id}")
    assert unseen == UNSEEN
    assert words_only == WORDS_ONLY


def test_every_claim_of_a_paper_has_its_words_or_cells():
    """And one with a size that is that of the paper's data has a sentence without it."""
    for experiment in EXPERIMENTS.values():
        for claim in experiment.claims:
            name = f"{experiment.name} {claim.id}"
            assert (claim.group != "ours") == bool(claim.quote), name
            if claim.same_as:
                other, _, id = claim.same_as.partition(" ")
                assert not EXPERIMENTS[other].claim_of(id).same_as
            if "embedded" in experiment.committed:
                parts = claim.parts(Table.read(experiment.committed["embedded"]))
                assert any(part.direction for part in parts) == bool(claim.direction), name


def test_a_section_names_what_is_missing_and_what_differs():
    experiment = EXPERIMENTS["rdumb/T2.4"]
    table = tidy([("", "RDumb", 125, "1", 40.0), ("", "RDumb", 125, "2", 41.0)]).as_json()
    results = {"scale": "full", "table": table, "missing": ["a, seed 2, b"]}
    differing = ["lr: 1", "a: 2", "b: 3", "source: x"]
    found = section(experiment, {**results, "differences": differing})
    assert "| RDumb | 40.50 ± 0.71 | - | - |" in found
    assert "| RDumb (published) | 42.1 | 44.4 | 46 | 46.7 |" in found
    assert "Missing runs (1): a, seed 2, b." in found
    numbers, verdicts, largest, further = map(
        found.index, ("| RDumb |", "claims:", "- source: x\n- lr: 1\n- a: 2\n", "- b: 3\n")
    )
    assert numbers < verdicts < largest < further
    assert found.count("<details") == 2  # the claims, and the further differences


def test_the_embedded_methods_have_the_rates_of_the_hold_out():
    """One rate per method in a study: RDumb's has the best (and interval), the field's the largest."""
    numbers = {1: 49.0, 2: 50.0, 3: 48.4, 4: 48.5}
    few = tidy([("", "Tent", x, "s", value) for x, value in numbers.items()])
    assert rates(Table(few.frame[:3]), "Tent") == (2, 2)
    assert rates(few, "Tent") == (2, 4)
    committed = Table.read(EXPERIMENTS["rdumb/holdout"].committed["embedded"])
    networks = Table.read(EXPERIMENTS["rdumb/network-rates"].committed["embedded"])
    intervals = [curve for curve in committed.curves() if curve.startswith("RDumb, every")]
    means = {(c, x): committed.mean("", c, x) for c in intervals for x in committed.xs}
    pair = max((p for p, mean in means.items() if mean is not None), key=means.__getitem__)
    studied = [
        EXPERIMENTS[f"rdumb/{name}"] for name in ("T2.1", "T2.2", "T2.3", "T2.4", "T2.5", "Fig2.4")
    ]
    for cell in (cell for experiment in studied for cell in experiment.source.cells("embedded")):
        method, own = str(cell.names["method"]), cell.config["model"]["init_args"]
        if method not in ("Source", "BNAdapt"):
            rate = own["optimizer"]["init_args"]["lr"]
            network = Path(own["backbone"]).stem.removeprefix("glyphs").removeprefix("-")
            if method == "RDumb" and not network:
                assert rate == pair[1]
                # Except where it is the interval that varies.
                assert "every" in cell.factors or f"RDumb, every {own['every']}" == pair[0]
            else:
                table = networks if network else committed
                assert rate == rates(table, "ETA" if method == "EATA" else method, network)[0]
            assert method != "EATA" or own["beta"] * rate == 2000 * 2.5e-4
    newer = Table.read(EXPERIMENTS["field/rates"].committed["embedded"])
    for cell in EXPERIMENTS["field/glyphs"].source.cells("embedded"):
        method = str(cell.names["method"]).removeprefix("I-").removesuffix("+ASR")
        if "optimizer" in (own := cell.config["model"]["init_args"]):
            table = newer if method in newer.curves() else committed
            rate = own["optimizer"]["init_args"]["lr"]
            tried = {"SLR": "SLR-SGD", "RDumb": "RDumb, every 100"}.get(method, method)
            assert rate == rates(table, tried)[1], method
            assert method != "EATA" or own["beta"] * rate == 2000 * 2.5e-4


def test_the_list(capsys):
    assert main(["paper", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"name", "paper", "shows", "scales", "done", "verdict"} <= found[0].keys()
    assert [entry["name"] for entry in found] == list(EXPERIMENTS)
    assert main(["paper"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if "/" in line[:20]] == list(EXPERIMENTS)
    assert max(map(len, lines)) <= 100


def test_committed_results_are_shown_and_nothing_runs(tmp_path):
    """Nor are torch, lightning and matplotlib imported, which take seconds."""
    code = (
        "import sys; from holdfast.benchmarks.cli import main; "
        "assert main(['paper', 'rdumb/T2.4', '--show']) == 0; print('@@@'); "
        "assert main(['paper', 'rdumb/T2.4', '--json']) == 0; print('@@@'); "
        "print({'torch', 'lightning', 'matplotlib'} & set(sys.modules))"
    )
    words = [sys.executable, "-c", code]
    out = subprocess.run(
        words, capture_output=True, text=True, timeout=120, check=True, cwd=tmp_path
    ).stdout
    shown, as_json, heavy = out.split("@@@")
    committed = EXPERIMENTS["rdumb/T2.4"].committed["embedded"]
    assert f"{Table.read(committed).mean('', 'RDumb', 50):.2f} ±" in shown
    assert "undecided: the shortest interval" in shown
    (found,) = json.loads(as_json)
    assert found["results"] == committed
    assert [claim["id"] for claim in found["claims"]] == ["shortest-worst", "optimum", "plateau"]
    assert heavy.strip() == "set()"
    assert not [*tmp_path.iterdir()]


def test_a_small_experiment_from_end_to_end(tmp_path, monkeypatch, capsys):
    """A real suite of two methods; the second command runs nothing anew, nor does --runs."""
    monkeypatch.chdir(tmp_path)
    suite = {
        "out": "runs",
        "common": {"trainer": {"accelerator": "cpu"}, "progress": False},
        "streams": {"digits": {**DATA, "setting": "CCC-Easy"}},
        "methods": {"Source": model("Source"), "BNAdapt": model("BNAdapt")},
        "seeds": [43],
    }
    Path("small.yaml").write_text(yaml.safe_dump(suite))
    source = Suite("small.yaml", scales=["embedded"])
    small = Experiment(accuracy, "rdumb/small", source, "two methods on digits")
    small.claim("gains", "BN gains", above("BNAdapt", "Source"))
    monkeypatch.setitem(EXPERIMENTS, small.name, small)
    words = ["paper", small.name, "--out", str(tmp_path / "runs")]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "rdumb/small: 2 runs.\n" in said
    assert "BN gains" in said
    assert "Missing runs" not in said
    folder = tmp_path / "runs" / "results"
    kept = json.loads((folder / "small.json").read_text())
    assert {row[1] for row in kept["table"]["rows"]} == {"Source", "BNAdapt"}
    facts = kept["provenance"]
    assert len(facts["weights"]) == 1
    assert {"version", "commit", "date", "threads", "processor"} <= facts.keys()
    assert (folder / "small.png").stat().st_size > 5_000
    assert (folder / "small.md").read_text() == section(small, kept, "small.png") + "\n"
    records = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("record.jsonl")}
    assert len(records) == 2
    assert main(words) == 0
    assert "2 runs." not in capsys.readouterr().out
    assert main(["paper", small.name, "--runs", str(tmp_path / "runs")]) == 0
    again = json.loads((folder / "small.json").read_text())
    assert sorted(again["table"]["rows"]) == sorted(kept["table"]["rows"])
    assert records == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("record.jsonl")}
