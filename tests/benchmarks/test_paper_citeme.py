"""CiteME's tables and figures by `holdfast paper`: its cells without runs, verdicts with result files."""

import json
from pathlib import Path
from typing import Any

import pytest
from cite_samples import record

from holdfast.agents.citeme_tables import MODELS, OUTCOMES, PAPER, RUNS, published, setting_name
from holdfast.agents.data import load
from holdfast.agents.result_file import ResultFile
from holdfast.benchmarks.papers.experiment import experiments
from holdfast.benchmarks.papers.paper import main
from holdfast.benchmarks.papers.table import Table

OWN = {name: own for name, own in experiments().items() if own.paper == "citeme"}
TEST = load("mini-cite").select("test")
OLD, NEW = ([s for s in TEST.samples if (s.year == 2024) == new] for new in (False, True))


def test_every_table_and_figure_is_there() -> None:
    figures = [f"Fig{n}" for n in range(5, 19)]
    assert [own.file for own in OWN.values()] == ["T3", "T4", "T5", "T8", *figures]


@pytest.mark.parametrize("name", OWN)
def test_without_runs_the_papers_cells_are_shown_and_nothing_is_judged(name: str) -> None:
    own = OWN[name]
    table = own.table([])
    assert table.rows
    assert all(row.panel.startswith(PAPER) for row in table.rows)
    verdicts = own.verdicts({"table": table.as_json()})
    assert {verdict.state for verdict in verdicts} <= {"not judged"}
    assert len(verdicts) == (4 if name in ("citeme/T4", "citeme/T5") else name[-2:] in ("T8", "g5"))


def test_every_published_cell_is_in_a_table_and_its_figures() -> None:
    shown = {
        (row.curve, row.x): row.value
        for name in ("citeme/T4", "citeme/T5")
        for row in OWN[name].table([]).rows
    }
    for cell in published()["rows"]:
        setting = setting_name(cell["commands"], cell["demonstration"])
        assert shown[cell["model"], setting] == cell["printed_percent"]
    ended = {
        (row.curve, own.arguments["commands"], own.arguments["demonstration"])
        for own in OWN.values()
        if own.arguments.get("rows") == "outcomes"
        for row in own.table([]).rows
    }
    counted = [c for c in published()["rows"] if "outcomes" in c]
    assert ended == {(c["model"], c["commands"], c["demonstration"]) for c in counted}


def result_file(
    folder: Path, model: str, commands: str, demonstration: bool, right: list[set[str]], steps: int
) -> Path:
    """Repeats of a model in a setting, each right on some samples after so many actions."""
    name = setting_name(commands, demonstration)
    path = folder / f"{model} {name}.jsonl"
    header = {
        "dataset": {"name": TEST.name, "sha256": TEST.sha256, "split": "test"},
        "n": len(TEST.samples),
        "agent": {
            "name": "citeagent",
            "model": model,
            "commands": commands,
            "demonstration": demonstration,
        },
        "provider": {"name": "local"},
        "budget": {"results": 10, "max_actions": 15, "read_chars": 12_000},
        "repeats": len(right),
    }
    with ResultFile(path, header) as file:
        for repeat, known in enumerate(right):
            for sample in TEST.samples:
                title = sample.titles[0] if sample.id in known else "another"
                events: list[dict[str, Any]] = [
                    {"kind": "action", "step": k + 1, "action": "read", "ok": True, "paper": "p"}
                    for k in range(steps - 1)
                ]
                events.append({"kind": "action", "step": steps, "action": "select", "paper": "p"})
                more = {"seconds": 1.0 + repeat, "events": events}
                file.append(record(sample.id, title=title, repeat=repeat, **more))
    return path


def some(count: int, shift: int) -> list[set[str]]:
    """Three repeats, right on about so many samples."""
    ids = [sample.id for sample in TEST.samples]
    return [set(ids[: count + k + shift]) for k in range(3)]


def runs(folder: Path, model: str, right: dict[tuple[str, bool], int], steps: int) -> list[Path]:
    return [
        result_file(folder, model, commands, shown, some(count, 0), steps)
        for (commands, shown), count in right.items()
    ]


def states(name: str, files: list[Path]) -> dict[str, str]:
    own = OWN[name]
    content = {"table": own.table(files).as_json()}
    return {v.claim.id: v.state for v in own.verdicts(json.loads(json.dumps(content)))}


GAINS = {
    ("none", False): 2,
    ("none", True): 5,
    ("search", False): 10,
    ("search", True): 15,
    ("search+read", False): 20,
    ("search+read", True): 30,
}
LOSSES = {setting: 35 - count for setting, count in GAINS.items()}


def test_claims_are_judged_where_runs_are_given(tmp_path: Path) -> None:
    ours = runs(tmp_path, "openai/gpt-4o", GAINS, steps=4)
    assert states("citeme/T4", ours) == {
        "demonstration-helps": "holds",
        "demonstration-only": "not judged",
        "commands-help": "holds",
        "commands-only": "not judged",
    }
    worse = runs(tmp_path, "x/claude-3-opus", LOSSES, steps=4)
    assert set(states("citeme/T4", ours + worse).values()) == {"holds"}
    swapped = [*runs(tmp_path, "openai/gpt-4o-2024-05-13", LOSSES, steps=4)]
    swapped += runs(tmp_path, "x/claude-3-opus-1", GAINS, steps=4)
    assert set(states("citeme/T4", swapped).values()) == {"does not hold"}
    some_settings = [path for path in ours if "search, demo" not in path.name]
    assert states("citeme/T4", some_settings)["commands-help"] == "not judged"


@pytest.mark.parametrize(("steps", "state"), [(4, "holds"), (5, "holds"), (6, "does not hold")])
def test_few_steps_are_five(tmp_path: Path, steps: int, state: str) -> None:
    files = runs(tmp_path, "openai/gpt-4o", {("search+read", True): 9}, steps)
    files += runs(tmp_path, "x/o1-mini", {("search+read", True): 9}, 2)
    assert states("citeme/Fig5", files) == {"few-steps": state}
    table = OWN["citeme/Fig5"].table(files)
    assert table.along
    assert table.mean(f"{RUNS}: GPT-4o", "select", steps) == 10  # 9, 10 and 11 are right


@pytest.mark.parametrize("old", [True, False])
def test_older_sources_are_easier_where_they_are(tmp_path: Path, old: bool) -> None:
    easy = OLD if old else NEW
    if not NEW:
        pytest.skip("mini-cite has no source of 2024")
    right = [{sample.id for sample in easy[k:]} for k in range(3)]
    file = result_file(tmp_path, "m", "search+read", True, right, 2)
    expected = "holds" if old else "does not hold"
    assert states("citeme/T8", [file]) == {"older-easier": expected}


def test_a_single_repeat_is_not_judged_and_the_command_prints_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    files = [
        result_file(tmp_path, "openai/gpt-4o", *setting, some(count, 0)[:1], 3)
        for setting, count in GAINS.items()
    ]
    assert main(["citeme/T4", "--runs", *map(str, files)]) == 0
    said = capsys.readouterr().out
    assert f"{RUNS}: GPT-4o" in said
    assert PAPER not in said
    assert "not CiteME scores" in said
    assert "not judged: a demonstration raises" in said
    assert main(["citeme/T4"]) == 0
    said = capsys.readouterr().out
    assert f"{PAPER}: GPT-4o" in said
    assert "--runs" in said
    written = json.loads(Path("runs/papers/citeme/results/T4.json").read_text())
    assert Table.read(written["table"]).mean(PAPER, "GPT-4o", "search") == 26.1


def test_names_are_the_papers() -> None:
    assert {c["model"] for c in published()["rows"]} <= {*MODELS, "SPECTER", "SPECTER2"}
    assert {o for c in published()["rows"] for o in c.get("outcomes", ())} == set(OUTCOMES)
