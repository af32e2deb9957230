"""Tables and figures of the papers: golden tables of made-up runs, committed pages, and the command."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from common import DATA, model
from made_up import put

from holdfast import HoldfastError
from holdfast.agents.citeme_tables import RUNS
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.papers import EXPERIMENTS, Experiment, reproduce
from holdfast.benchmarks.papers.accuracy_tables import accuracy, rates
from holdfast.benchmarks.papers.experiment import HERE, data, notes
from holdfast.benchmarks.papers.page import PAPERS, changes, overview, page, section
from holdfast.benchmarks.papers.paper import parser
from holdfast.benchmarks.papers.table import Table, tidy, written
from holdfast.benchmarks.suites import grid
from holdfast.benchmarks.suites.cell import Cell

GOLDEN = {
    f"{file.stem}/{name}": content
    for file in sorted((Path(__file__).parents[1] / "golden" / "papers").glob("*.json"))
    for name, content in json.loads(file.read_text()).items()
}
COLLAPSING = ("Tent", "CPL", "RPL", "SLR", "CoTTA")
LARGE = ("flips/T3.2", "flips/TB.2", "flips/TB.4")  # suites of which one seed is enough


def made(own: Experiment, folder: Path) -> Table:
    """The table of made-up runs: methods, overrides and settings differ, and seeds a little."""
    seeds = [43] if own.name in LARGE else [43, 44]
    cells = own.cells("embedded", out=str(folder), seeds=seeds)
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
    return Table.of(own(reproduce.runs_of(cells)))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for made-up runs, which experiments share as they share suites."""
    return tmp_path_factory.mktemp("shared")


@pytest.mark.parametrize("name", GOLDEN)
def test_tables_of_made_up_runs_are_as_they_were(name: str, shared: Path) -> None:
    """Every mean, and the verdict on each claim, as before the tables became functions."""
    own = EXPERIMENTS[name]
    kind = re.sub(r"\W+", "-", str((own.suites["embedded"], own.only)))
    table = made(own, shared / kind[:100])
    means: dict[str, dict[str, Any]] = {}
    for (panel, curve), cells in table.cells.items():
        own_means = {written(x): table.mean(panel, curve, x) for x in cells}
        means.setdefault(panel, {})[curve] = pytest.approx(own_means, rel=1e-5, nan_ok=True)
    results = {"scale": "embedded", "table": json.loads(json.dumps(table.as_json()))}
    states = {verdict.claim.id: verdict.state for verdict in own.verdicts(results)}
    assert {"means": means, "states": states, "notes": len(table.notes)} == GOLDEN[name]


def test_committed_results_have_the_seeds_of_todays_suites() -> None:
    """All but those of trials, which have the seeds of the hold-out."""
    for own in (own for own in EXPERIMENTS.values() if own.takes == "runs" and not own.budget):
        runs = {str(run) for *_, run, _ in own.committed.get("table", {"rows": []})["rows"]}
        found = {seed for run in runs for seed in re.findall(r"seed (\d+)", run)}
        if found:
            assert {str(cell.names["seed"]) for cell in own.cells("embedded")} <= found, own.name


def test_committed_results_and_pages_agree() -> None:
    """Every committed page is what its committed numbers make, and so is that of all claims."""
    assert (reproduce.DOCS / "claims.md").read_text() == overview(EXPERIMENTS.values())
    assert (reproduce.DOCS / "changes.md").read_text() == changes(EXPERIMENTS.values())
    assert "|  |" not in changes(EXPERIMENTS.values()), "each change has a reason"
    for paper in PAPERS:
        assert (reproduce.DOCS / f"{paper}.md").read_text() == page(paper, EXPERIMENTS.values())
    for own in EXPERIMENTS.values():
        for scale, results in own.kept.items():
            assert (reproduce.DOCS / own.paper / own.named(scale, ".png")).exists()
            assert own.path(scale).read_text() == reproduce.text_of(results)
            table = Table.read(results["table"])
            assert json.loads(json.dumps(table.as_json())) == results["table"]
    kept = {own.path(scale) for own in EXPERIMENTS.values() for scale in own.kept}
    assert {*HERE.glob("*/results/**/*.json")} == kept
    pictures = {p.relative_to(reproduce.DOCS) for p in reproduce.DOCS.glob("*/**/*.png")}
    assert len(pictures) == len(kept)


def test_every_suite_published_table_and_note_is_there() -> None:
    """Experiments share runs, so that a folder stands for one configuration."""
    configs: dict[Path, dict[str, Any]] = {}
    papers = {own.paper for own in EXPERIMENTS.values()}
    files = {paper: data(f"{paper}/experiments.json") for paper in papers}
    assert {f"{paper}/{file}" for paper in papers for file in files[paper]} == EXPERIMENTS.keys()
    for own in EXPERIMENTS.values():
        for group, sentences in own.sentences.items():
            assert [c.id for c in own.claims if c.group == group] == [*sentences]
        if own.takes in ("runs", "cells"):
            for scale, names in own.suites.items():
                known = [cell for name in names for cell in cells_of(name, scale)]
                assert any(own.matches(cell.names) for cell in known), (own.name, scale)
                assert all(configs.setdefault(c.folder, c.config) == c.config for c in known)
    for paper in papers:
        assert {name.removesuffix(" photos") for name in notes(paper)} <= files[paper].keys()


# Of the first table the curves are the runs' labels; of the second they are methods, and x the override.
@pytest.mark.parametrize(("name", "half"), [("rdumb/long", 12), ("rdumb/T2.4", 30)])
def test_results_are_kept_in_parts(
    name: str, half: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs that another machine has made stay, unless their configuration has changed since."""
    own = EXPERIMENTS[name]
    cells = own.cells("embedded")
    seed = str(cells[0].names["seed"])
    for n, cell in enumerate(cells):
        for part in ("all", "even" if n % 2 == 0 else "odd"):
            folder = tmp_path / part / Path(*cell.folder.parts[-2:])
            put(folder, cell.names, cell.config, [0.01 * n] * 40)

    def with_kept(part: str, kept: dict[str, Any], *more: str) -> dict[str, Any]:
        monkeypatch.setitem(vars(own), "kept", {"embedded": kept})
        options = [own.name, "--runs", "--keep", "--out", str(tmp_path / part), *more]
        return reproduce.tabulate(own, parser().parse_args(options))[0]

    even, every = with_kept("even", {}), with_kept("all", {})
    assert (len(even["runs"]), len(even["missing"]), len(every["runs"])) == (half, half, 2 * half)
    both = with_kept("odd", even)
    assert (both["missing"], both["runs"]) == ([], every["runs"])
    newer = Table.read(with_kept("even", every)["table"])
    assert [*newer.cells] == [*Table.read(every["table"]).cells]
    assert sorted(both["table"].pop("rows")) == sorted(every["table"].pop("rows"))
    assert both["table"] == every["table"]
    assert with_kept("all", even, "--seeds", seed)["runs"].keys() > even["runs"].keys()
    changed = even | {"runs": dict.fromkeys(even["runs"], "of other settings")}
    assert len(with_kept("odd", changed)["missing"]) == half
    every["provenance"] = {"commit": "1ce6876", "threads": "1", "processor": "x"}
    monkeypatch.setitem(vars(own), "kept", {"embedded": every})
    with pytest.raises(HoldfastError, match="would replace complete results"):
        reproduce.keep(own, even, tmp_path / "long.png")


# In survival runs are set beside the source model's; in Fig2.6c curves are also layers; Fig2.1 has notes.
@pytest.mark.parametrize(
    ("name", "absent"),
    [("T2.1", ()), ("survival", ("Source",)), ("Fig2.6c", None), ("Fig2.1", None)],
)
def test_rows_that_belong_to_one_run_each_name_it(
    name: str, absent: Sequence[str] | None, tmp_path: Path
) -> None:
    own = EXPERIMENTS[f"rdumb/{name}"]
    table = made(own, tmp_path).as_json()
    cells = own.cells("embedded", out=str(tmp_path), seeds=[43, 44])
    every = [reproduce.name_of(cell) for cell in cells]
    known = set() if absent is None else {c for c in every if not c.endswith(absent)}
    assert reproduce.named_by(table, cells, every) == known


@cache
def cells_of(suite: str, scale: str) -> list[Cell]:
    """The cells of a suite at a scale."""
    return [*grid.cells(grid.load(suite, scale if grid.scales(suite) else None))]


def test_full_scale_suites_make_every_printed_row(tmp_path: Path) -> None:
    """The rows and columns of Table 2.1, from one stream of each setting; and CCC's 27 long runs."""
    own = EXPERIMENTS["rdumb/T2.1"]
    cells = {
        (c.names["method"], c.names["setting"]): c for c in own.cells("full", out=str(tmp_path))
    }
    for cell in cells.values():
        put(cell.folder, cell.names, cell.config, [0.5] * 8, exactly=True)
    table = Table.of(own(reproduce.runs_of([*cells.values()])))
    for key, numbers in own.published.items():
        assert set(numbers) == {*table.xs, "Average"}
        assert key in table.cells
    long = EXPERIMENTS["rdumb/runs27"].cells("full")
    assert len({(c.names["stream"], c.names["seed"]) for c in long}) == 27
    assert {c.config["data"]["init_args"]["images"] for c in long} == {7_500_000}


MEANS = ("Average", "Worst case", "Average (worst excluded)")  # rows that are no data set


def printed(own: Experiment) -> Table:
    """The paper's own cells as one run."""
    if own.takes == "files":  # CiteME's tables, as of the runs that its claims are about
        frame = own([]).assign(panel=RUNS)
        return Table(frame, exact=True)
    rows = [
        (panel, curve, float(x) if x.replace(".", "").isdigit() else x, "printed", number)
        for (panel, curve), cells in own.published.items()
        for x, value in cells.items()
        if curve not in MEANS and (number := np.ravel(value)[0]) is not None
    ]
    return Table.of(tidy(rows, exact=True))


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


def test_the_printed_numbers_refute_no_claim_of_a_paper() -> None:
    """By the direction and the size of the means; those of ours may fail."""
    unseen: set[str] = set()
    words_only: set[str] = set()
    for own in EXPERIMENTS.values():
        if not own.published and own.takes != "files":
            words_only |= {own.name for c in own.claims if c.group in ("paper", "threshold")}
            continue
        table = printed(own)
        for claim in (claim for claim in own.claims if claim.group != "ours"):
            means = [part for part in claim.check(table, full=True) if part.found is not None]
            for part in means:
                assert part.least <= part.found.mean <= part.most, (own.name, claim.id, part)
            if not means and claim.group != "others":
                unseen.add(f"{own.name} {claim.id}")
    assert unseen == UNSEEN
    assert words_only == WORDS_ONLY


def test_every_claim_of_a_paper_has_its_words_or_cells() -> None:
    for own in EXPERIMENTS.values():
        ids = {claim.id for claim in own.claims}
        theirs = {c.id for c in own.claims if c.group in ("paper", "figure", "threshold")}
        assert theirs == own.quotes.keys(), own.name
        assert own.undecidable.keys() <= ids


def test_a_section_names_what_is_missing_and_what_differs() -> None:
    own = EXPERIMENTS["rdumb/T2.4"]
    table = Table.of(tidy([("", "RDumb", 125, "1", 40.0), ("", "RDumb", 125, "2", 41.0)])).as_json()
    given = {"scale": "full", "table": table, "missing": ["a, seed 2, b"]}
    found = section(own, {**given, "differences": ["lr: 1", "a: 2", "b: 3", "source: x"]})
    assert "| RDumb | 40.50 ± 0.71 | - | - |" in found
    assert "| RDumb (published) | 42.1 | 44.4 | 46 | 46.7 |" in found
    assert "Missing runs (1): a, seed 2, b." in found
    verdicts, largest, table, further = map(
        found.index, ("claims:", "- source: x\n- lr: 1\n- a: 2\n", "| RDumb |", "- b: 3\n")
    )
    assert verdicts < largest < table < further


def test_the_embedded_methods_have_the_rates_of_the_hold_out() -> None:
    """One rate per method in a study: RDumb's has the best (EATA has ETA's), the field's the largest."""
    numbers = {1: 49.0, 2: 50.0, 3: 48.4, 4: 48.5}
    few = tidy([("", "Tent", x, "s", value) for x, value in numbers.items()])
    assert rates(Table(few[:3]), "Tent") == (2, 2)
    assert rates(Table(few), "Tent") == (2, 4)
    committed = Table.read(EXPERIMENTS["rdumb/holdout"].committed["table"])
    networks = Table.read(EXPERIMENTS["rdumb/network-rates"].committed["table"])
    studied = [
        EXPERIMENTS[f"rdumb/{name}"] for name in ("T2.1", "T2.2", "T2.3", "T2.4", "T2.5", "Fig2.4")
    ]
    for cell in (cell for own in studied for cell in own.cells("embedded")):
        method, own = str(cell.names["method"]), cell.config["model"]["init_args"]
        if method not in ("Source", "BNAdapt"):
            rate = own["optimizer"]["init_args"]["lr"]
            network = Path(own["backbone"]).stem.removeprefix("glyphs").removeprefix("-")
            table = networks if network else committed
            assert rate == rates(table, "ETA" if method == "EATA" else method, network)[0]
            assert method != "EATA" or own["beta"] * rate == 2000 * 2.5e-4
    newer = Table.read(EXPERIMENTS["field/rates"].committed["table"])
    for cell in EXPERIMENTS["field/glyphs"].cells("embedded"):
        method = str(cell.names["method"]).removeprefix("I-").removesuffix("+ASR")
        if "optimizer" in (own := cell.config["model"]["init_args"]):
            table = newer if method in newer.curves() else committed
            rate = own["optimizer"]["init_args"]["lr"]
            assert rate == rates(table, "SLR-SGD" if method == "SLR" else method)[1], method
            assert method != "EATA" or own["beta"] * rate == 2000 * 2.5e-4


def test_the_list(capsys: pytest.CaptureFixture) -> None:
    assert main(["paper", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"name", "paper", "shows", "scales", "done", "verdict"} <= found[0].keys()
    assert [entry["name"] for entry in found] == list(EXPERIMENTS)
    assert main(["paper"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if "/" in line[:20]] == list(EXPERIMENTS)
    assert max(map(len, lines)) <= 100


def test_committed_results_are_shown_and_nothing_runs(tmp_path: Path) -> None:
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
    own = EXPERIMENTS["rdumb/T2.4"]
    assert f"{Table.read(own.committed['table']).mean('', 'RDumb', 50):.2f} ±" in shown
    assert "undecided: the shortest interval" in shown
    (found,) = json.loads(as_json)
    assert found["results"] == own.committed
    assert [claim["id"] for claim in found["claims"]] == ["shortest-worst", "optimum", "plateau"]
    assert heavy.strip() == "set()"
    assert not [*tmp_path.iterdir()]


def test_a_small_experiment_from_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
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
    sentences = {"paper": {"gains": "BN gains"}}
    suites = {"embedded": ["small.yaml"]}
    own = Experiment(accuracy, "rdumb/small", suites=suites, sentences=sentences)
    own.says("gains").above("BNAdapt", "Source")
    monkeypatch.setitem(EXPERIMENTS, own.name, own)
    command = ["paper", own.name, "--out", str(tmp_path / "runs")]
    assert main(command) == 0
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
    assert (folder / "small.md").read_text() == section(own, kept, "small.png") + "\n"
    records = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("record.jsonl")}
    assert len(records) == 2
    assert main(command) == 0
    assert "2 runs." not in capsys.readouterr().out
    assert main(["paper", own.name, "--runs", str(tmp_path / "runs")]) == 0
    again = json.loads((folder / "small.json").read_text())
    assert sorted(again["table"]["rows"]) == sorted(kept["table"]["rows"])
    assert records == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("record.jsonl")}
