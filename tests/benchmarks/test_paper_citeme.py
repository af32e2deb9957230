"""CiteME's tables and figures by `holdfast paper`: its cells without runs, verdicts with result files."""

from pathlib import Path
from typing import Any

import pytest
from cite_samples import record, row, write

from holdfast import HoldfastError
from holdfast.agents.data import load
from holdfast.agents.records import ResultFile, read, settings_of
from holdfast.agents.score import score
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.papers import EXPERIMENTS
from holdfast.benchmarks.papers.citeme import numbers
from holdfast.benchmarks.papers.citeme.numbers import (
    MODELS,
    OUTCOMES,
    PAPER,
    RUNS,
    published,
    setting_name,
)

CITEME = {name: own for name, own in EXPERIMENTS.items() if own.paper == "citeme"}
TEST = load("mini-cite").select("test")


def test_without_runs_the_papers_cells_are_shown_and_nothing_is_judged():
    """Every published cell is in a table, and those with outcomes in a figure."""
    assert [experiment.file for experiment in CITEME.values()][4:] == [
        f"Fig{n}" for n in range(5, 19)
    ]
    shown: dict[tuple[str, Any], float] = {}
    outcomes: set[str] = set()
    for name, experiment in CITEME.items():
        table = experiment([])
        assert table.panels
        assert all(panel.startswith(PAPER) for panel in table.panels)
        verdicts = experiment.verdicts({"table": table.as_json()})
        assert {verdict.state for verdict in verdicts} <= {"not judged"}
        if name in ("citeme/T4", "citeme/T5"):
            shown |= {(curve, x): value for _, curve, x, _, value in table.rows}
        if "how samples end" in experiment.title:
            outcomes |= {f"{curve} {experiment.title}" for curve in table.curves()}
    for cell in published()["rows"]:
        setting = setting_name(cell["commands"], cell["demonstration"])
        assert shown[cell["model"], setting] == cell["printed_percent"]
    assert len(outcomes) == sum("outcomes" in cell for cell in published()["rows"])
    assert {cell["model"] for cell in published()["rows"]} <= {*MODELS, "SPECTER", "SPECTER2"}
    assert {o for c in published()["rows"] for o in c.get("outcomes", ())} == set(OUTCOMES)


def result_file(
    folder: Path,
    model: str,
    setting: tuple[str, bool | str],
    count: int,
    steps: int,
    repeats: int = 2,
) -> Path:
    """Repeats of a model in a setting, right on about `count` samples after so many actions."""
    commands, shown = setting
    path = folder / f"{model.rpartition('/')[2]} {setting_name(*setting)}.jsonl"
    agent = {"name": "citeagent", "model": model, "commands": commands, "demonstration": shown}
    header = {
        "dataset": {"name": TEST.name, "sha256": TEST.sha256, "split": "test"},
        "n": len(TEST.samples),
        "agent": agent,
        "provider": {"name": "local"},
        "budget": {"results": 10, "max_actions": 15, "read_chars": 12_000},
        "repeats": repeats,
    }
    with ResultFile(path, header) as file:
        for repeat in range(repeats):
            for number, sample in enumerate(TEST.samples):
                title = sample.titles[0] if number < count + repeat else "another"
                events: list[dict[str, Any]] = [
                    {"kind": "action", "step": k + 1, "action": "read", "ok": True, "paper": "p"}
                    for k in range(steps - 1)
                ]
                events.append({"kind": "action", "step": steps, "action": "select", "paper": "p"})
                more = {"seconds": 1.0 + repeat, "events": events}
                file.append(record(sample.id, title=title, repeat=repeat, **more))
    return path


SETTINGS = [(c, shown) for c in ("none", "search", "search+read") for shown in (False, True)]
GAINS = dict(zip(SETTINGS, (2, 5, 10, 15, 20, 30), strict=True))
LOSSES = {setting: 35 - count for setting, count in GAINS.items()}


def states(name: str, files: list[Path]) -> dict[str, str]:
    results = {"table": CITEME[name](files).as_json()}
    return {verdict.claim.id: verdict.state for verdict in CITEME[name].verdicts(results)}


def test_claims_are_judged_where_runs_are_given(tmp_path):
    def runs(model: str, counts: dict[tuple[str, bool], int]) -> list[Path]:
        return [result_file(tmp_path, model, own, n, steps=4) for own, n in counts.items()]

    ours, worse = runs("openai/gpt-4o", GAINS), runs("x/claude-3-opus", LOSSES)
    alone = states("citeme/T4", ours)
    assert [*alone.values()] == ["holds", "holds", "not judged"]
    assert set(states("citeme/T4", ours + worse).values()) == {"holds"}
    swapped = runs("openai/gpt-4o-2024-05-13", dict([*LOSSES.items()][2:]))
    assert states("citeme/T4", swapped)["commands-help"] == "does not hold"
    some = [path for path in ours if "search, demo" not in path.name]
    assert states("citeme/T4", some)["commands-help"] == "not judged"


def test_an_optimised_program_is_in_no_cell_of_the_paper(tmp_path):
    optimised = result_file(tmp_path, "openai/gpt-4o", ("search", "optimised"), 20, steps=4)
    settings = {setting_name(*setting) for setting in SETTINGS}
    columns = {x for _, _, x, _, _ in CITEME["citeme/T4"]([optimised]).rows}
    assert columns == {"search, demonstration: optimised"}
    assert not columns & settings
    results = numbers.read_results([optimised])
    assert all(results.within(*setting).empty for setting in SETTINGS)


@pytest.mark.parametrize(("steps", "state"), [(5, "holds"), (6, "does not hold")])
def test_few_steps_are_five(tmp_path, steps, state):
    files = [result_file(tmp_path, "openai/gpt-4o", SETTINGS[-1], 9, steps)]
    files.append(result_file(tmp_path, "x/o1-mini", SETTINGS[-1], 9, 2))
    assert states("citeme/Fig5", files) == {"few-steps": state}
    table = CITEME["citeme/Fig5"](files)
    assert table.mean(f"{RUNS}: GPT-4o", "select", steps) == 9.5  # 9 and 10 are right


def test_a_single_repeat_is_not_judged_and_the_command_prints_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    files = [
        result_file(tmp_path, "openai/gpt-4o", setting, count, 3, repeats=1)
        for setting, count in [*GAINS.items()][:2]
    ]
    assert main(["paper", "citeme/T4", "--runs", *map(str, files)]) == 0
    said = capsys.readouterr().out
    assert f"{RUNS}: GPT-4o" in said
    assert PAPER not in said
    assert "not CiteME scores" in said
    assert "not judged: a demonstration raises" in said
    assert main(["paper", "citeme/T4"]) == 0
    said = capsys.readouterr().out
    assert f"{PAPER}: GPT-4o" in said
    assert "--runs" in said


PUBLISHED = numbers.read_results([])


def value(rows, panel, curve, x):
    (found,) = rows[(rows.panel == panel) & (rows.curve == curve) & (rows.x == x)].value.unique()
    return found


def test_without_runs_the_papers_own_cells_are_shown():
    assert [len(numbers.by_setting(PUBLISHED, table)) for table in (4, 5)] == [18, 20]
    assert value(numbers.best(PUBLISHED), PAPER, "Claude 3 Opus", "best setting") == 27.7
    assert value(numbers.by_year(PUBLISHED), PAPER, "Claude 3 Opus", "2024") == 21.74
    ended = numbers.outcomes(PUBLISHED, "search+read", True, ["Claude 3 Opus"])
    assert value(ended, PAPER, "Claude 3 Opus", "bad_format") == pytest.approx(100 * 51 / 119)
    assert ended.value.sum() == pytest.approx(100)
    assert value(numbers.costs(PUBLISHED, "o1-mini"), PAPER, "o1-mini", "USD, mean") == 0.4
    steps = numbers.actions(PUBLISHED)
    opus = steps[steps.panel.str.contains("Opus") & (steps.x == 1)]
    assert opus.value.sum() == 31  # all correct runs have a first step
    assert numbers.few_steps(PUBLISHED).empty


def test_models_have_the_papers_names():
    names = {
        "openai/gpt-4o-2024-05-13": "GPT-4o",
        "openai/gpt-4o-mini": "gpt-4o-mini",
        "anthropic/claude-3-5-sonnet-20240620": "Claude 3.5 Sonnet",
        "anthropic/claude-3-opus-20240229": "Claude 3 Opus",
        "together_ai/meta-llama/Llama-3-70b-chat-hf": "LLaMA-3-70B",
        "x/Meta-Llama-3.1-70B-Instruct": "LLaMA-3.1-70B",
    }
    assert {given: numbers._model_name(given) for given in names} == names


def test_runs_on_citemes_data_stand_beside_its_cells(tmp_path, monkeypatch):
    """Rows like CiteME's in number; their texts are made up."""
    given = [
        row(
            id=f"s{k}",
            target_paper_title="Tent" if k % 2 else "None",
            split="train" if k < 11 else "test",
            year="2023" if k % 3 else "2024",
        )
        for k in range(130)
    ]
    data = write(tmp_path / "DATASET.csv", given)
    dataset, path = load(data).select("test"), tmp_path / "run.jsonl"
    monkeypatch.setattr("holdfast.agents.data.PUBLISHED_SHA256", dataset.sha256)
    agent = {"name": "citeagent", "model": "openai/gpt-4o", "commands": "search+read"}
    settings = settings_of(dataset, {**agent, "demonstration": True}, {"name": "local"})
    with ResultFile(path, settings) as file:
        for sample in dataset.samples:
            file.append(record(sample.id, title="Tent"))
    found = numbers.read_results([data, path])
    assert any("--prompt dspy instead of citeme" in note for note in found.notes)
    rows = numbers.by_setting(found, 4)
    assert set(rows.panel) == {PAPER, RUNS}
    expected = 100 * score(read(path)[1], dataset)["accuracy"].rate
    assert value(rows, RUNS, "GPT-4o", "search+read, demonstration") == expected > 0
    years = numbers.by_year(found)
    assert set(years[years.panel == RUNS].x) == {"before 2024", "2024"}
    with pytest.raises(HoldfastError, match="--runs"):
        numbers.read_results([path])
    monkeypatch.undo()
    # Other data of the same size are not CiteME's.
    assert set(numbers.by_setting(numbers.read_results([data, path]), 4).panel) == {RUNS}


def test_published_cells_add_up():
    cells = numbers.published()["rows"]
    for cell in cells:
        if "outcomes" in cell:
            assert sum(cell["outcomes"].values()) == cell["n"] == 119
            assert cell["outcomes"]["correct"] == cell["correct"]
        if "in_2024" in cell:
            parts = [cell["before_2024"], cell["in_2024"]]
            totals = [sum(part[key] for part in parts) for key in ("correct", "n")]
            assert totals == [cell["correct"], 119]
            for part in parts:
                assert round(100 * part["correct"] / part["n"], 2) == part["printed_percent"]
    assert sum("outcomes" in cell for cell in cells) == 23
