"""CiteME's tables and figures as rows: the printed numbers, and runs of one's own beside them."""

import pytest
from cite_samples import record, row, write

from holdfast import HoldfastError
from holdfast.agents import citeme_tables as tables
from holdfast.agents.citeme_tables import PAPER, RUNS
from holdfast.agents.data import load
from holdfast.agents.records import ResultFile, read, settings_of
from holdfast.agents.score import score

PUBLISHED = tables.results([])


def value(rows, panel, curve, x):
    (found,) = rows[(rows.panel == panel) & (rows.curve == curve) & (rows.x == x)].value.unique()
    return found


def test_without_runs_the_papers_own_cells_are_shown():
    assert [len(tables.by_setting(PUBLISHED, table)) for table in (4, 5)] == [18, 20]
    assert value(tables.best(PUBLISHED), PAPER, "Claude 3 Opus", "best setting") == 27.7
    assert value(tables.by_year(PUBLISHED), PAPER, "Claude 3 Opus", "2024") == 21.74
    ended = tables.outcomes(PUBLISHED, "search+read", True, ["Claude 3 Opus"])
    assert value(ended, PAPER, "Claude 3 Opus", "bad_format") == pytest.approx(100 * 51 / 119)
    assert ended.value.sum() == pytest.approx(100)
    assert value(tables.costs(PUBLISHED, "o1-mini"), PAPER, "o1-mini", "USD, mean") == 0.4
    steps = tables.actions(PUBLISHED)
    opus = steps[steps.panel.str.contains("Opus") & (steps.x == 1)]
    assert opus.value.sum() == 31  # all correct runs have a first step
    assert tables.few_steps(PUBLISHED).empty


def test_models_have_the_papers_names():
    names = {
        "openai/gpt-4o-2024-05-13": "GPT-4o",
        "openai/gpt-4o-mini": "gpt-4o-mini",
        "anthropic/claude-3-5-sonnet-20240620": "Claude 3.5 Sonnet",
        "anthropic/claude-3-opus-20240229": "Claude 3 Opus",
        "together_ai/meta-llama/Llama-3-70b-chat-hf": "LLaMA-3-70B",
        "x/Meta-Llama-3.1-70B-Instruct": "LLaMA-3.1-70B",
    }
    assert {given: tables.model_name(given) for given in names} == names


def test_runs_on_data_of_citemes_size_stand_beside_its_cells(tmp_path):
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
    agent = {"name": "citeagent", "model": "openai/gpt-4o", "commands": "search+read"}
    settings = settings_of(dataset, {**agent, "demonstration": True}, {"name": "local"})
    with ResultFile(path, settings) as file:
        for sample in dataset.samples:
            file.append(record(sample.id, title="Tent"))
    found = tables.results([data, path])
    assert any("--prompt dspy instead of citeme" in note for note in found.notes)
    rows = tables.by_setting(found, 4)
    assert set(rows.panel) == {PAPER, RUNS}
    expected = 100 * score(read(path)[1], dataset)["accuracy"].rate
    assert value(rows, RUNS, "GPT-4o", "search+read, demonstration") == expected > 0
    years = tables.by_year(found)
    assert set(years[years.panel == RUNS].x) == {"before 2024", "2024"}
    with pytest.raises(HoldfastError, match="--runs"):
        tables.results([path])


def test_published_cells_add_up():
    cells = tables.published()["rows"]
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
