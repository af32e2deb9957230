"""CiteME's tables and figures as rows: the printed numbers, and runs of one's own beside them."""

import csv
import json

import pytest
from servers import fields

from holdfast import HoldfastError
from holdfast.agents.citeagent.program import CiteAgent, LMAgent
from holdfast.agents.data import COLUMNS, MINI_CITE_CORPUS, load
from holdfast.agents.lm.providers import ScriptedLM
from holdfast.agents.report import experiments
from holdfast.agents.report.experiments import PAPER, RUNS
from holdfast.agents.results import read
from holdfast.agents.run import run
from holdfast.agents.score import score
from holdfast.agents.search.local import LocalSearch

PUBLISHED = experiments.results([])


def value(rows, panel, curve, x):
    (found,) = {row.value for row in rows if row[:3] == (panel, curve, x)}
    return found


def test_without_runs_the_papers_own_cells_are_shown():
    table4 = experiments.by_setting(PUBLISHED, 4)
    assert value(table4, PAPER, "GPT-4o", "search+read, demonstration") == 35.3
    assert value(table4, PAPER, "LLaMA-3-70B", "search, demonstration") == 2.5
    assert len(table4) == 18
    assert len(experiments.by_setting(PUBLISHED, 5)) == 20
    assert value(experiments.best(PUBLISHED), PAPER, "Claude 3 Opus", "best setting") == 27.7
    assert value(experiments.by_year(PUBLISHED), PAPER, "Claude 3 Opus", "2024") == 21.74
    ended = experiments.outcomes(PUBLISHED, "search+read", True, ["Claude 3 Opus"])
    assert value(ended, PAPER, "Claude 3 Opus", "bad_format") == pytest.approx(100 * 51 / 119)
    assert sum(row.value for row in ended) == pytest.approx(100)
    assert value(experiments.costs(PUBLISHED, "o1-mini"), PAPER, "o1-mini", "USD, mean") == 0.4
    first = [r.value for r in experiments.actions(PUBLISHED) if r.x == 1 and "Opus" in r.panel]
    assert sum(first) == 31  # all correct runs have a first step
    assert not experiments.few_steps(PUBLISHED)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("openai/gpt-4o", "GPT-4o"),
        ("openai/gpt-4o-2024-05-13", "GPT-4o"),
        ("openai/gpt-4o-mini", "gpt-4o-mini"),
        ("anthropic/claude-3-5-sonnet-20240620", "Claude 3.5 Sonnet"),
        ("anthropic/claude-3-opus-20240229", "Claude 3 Opus"),
        ("together_ai/meta-llama/Llama-3-70b-chat-hf", "LLaMA-3-70B"),
        ("x/Meta-Llama-3.1-70B-Instruct", "LLaMA-3.1-70B"),
        ("scripted/file.json", "file.json"),
    ],
)
def test_models_have_the_papers_names(given, name):
    assert experiments.model_name(given) == name


def made(folder, name, answer, model="openai/gpt-4o", dataset="mini-cite", demonstration=True):
    """A result file of a scripted model, in two repeats."""

    def by_turn(messages):
        seen = any("Actions left: 14" in str(m["content"]) for m in messages[-1:])
        return fields(*answer) if seen else fields("search_relevance", "entropy minimization")

    lm = ScriptedLM(by_turn)
    lm.name = model
    agent = LMAgent(CiteAgent("search+read", demonstration), lm)
    path = folder / name
    data = load(dataset).select("test", None if dataset != "mini-cite" else 6)
    run(data, agent, LocalSearch(MINI_CITE_CORPUS), path, repeats=2)
    return path


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    return made(tmp_path_factory.mktemp("runs"), "right.jsonl", ("select", "tent-2021"))


def test_runs_on_other_data_stand_without_the_papers_cells(right):
    found = experiments.results([right])
    assert any("not CiteME scores" in note for note in found.notes)
    rows = experiments.by_setting(found, 4)
    assert {row.panel for row in rows} == {RUNS}
    _, records = read(right)
    whole = load("mini-cite").select("test")
    for repeat in (0, 1):
        own = {k: r for k, r in records.items() if k[1] == repeat}
        expected = 100 * score(own, whole).accuracy.rate
        assert expected > 0
        assert (
            experiments.Row(
                RUNS, "GPT-4o", "search+read, demonstration", f"repeat {repeat}", expected
            )
            in rows
        )
    assert {row.x for row in experiments.best(found)} == {"best setting"}
    years = {row.x: row.value for row in experiments.by_year(found)}
    assert years.keys() <= {"before 2024", "2024"}
    steps = experiments.actions(found)
    assert {(r.curve, r.x) for r in steps if r.value} == {("search_relevance", 1), ("select", 2)}
    assert {r.value for r in experiments.few_steps(found)} == {100.0}
    ended = experiments.outcomes(found, "search+read", True, ["GPT-4o"])
    assert value(ended, RUNS, "GPT-4o", "correct") == pytest.approx(rows[0].value)
    assert any(r.x == "seconds, p90" for r in experiments.costs(found, "GPT-4o"))


def test_runs_on_data_of_citemes_size_stand_beside_its_cells(tmp_path):
    """Rows like CiteME's in number; their texts are made up."""
    data = tmp_path / "DATASET.csv"
    with data.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for k in range(130):
            title = "Tent: Fully Test-Time Adaptation by Entropy Minimization" if k % 2 else "None"
            split, year = ("train" if k < 11 else "test"), (2023 if k % 3 else 2024)
            rows.writerow((f"s{k}", f"{k} a [CITATION].", title, "", "S", "", year, split))
    path = made(tmp_path, "run.jsonl", ("select", "tent-2021"), dataset=data)
    found = experiments.results([data, path])
    assert any("temperature" in note for note in found.notes)
    rows = experiments.by_setting(found, 4)
    assert {row.panel for row in rows} == {PAPER, RUNS}
    years = experiments.by_year(found)
    assert {row.x for row in years if row.panel == RUNS} == {"before 2024", "2024"}
    with pytest.raises(HoldfastError, match="--runs"):
        experiments.results([path])


def test_a_second_file_of_a_setting_gives_further_repeats(right, tmp_path):
    other = tmp_path / "other.jsonl"
    lines = [json.loads(line) for line in right.read_text().splitlines()]
    other.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = experiments.results([right, other])
    assert [given.name for given in found.given] == [f"repeat {k}" for k in range(4)]
