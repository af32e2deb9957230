"""Result files of CiteME's own code are read as runs, and judged anew."""

import json

import pytest
from cite_samples import row, write

from holdfast import HoldfastError
from holdfast.agents.authors_logs import record
from holdfast.agents.cite import main
from holdfast.agents.data import load
from holdfast.agents.paper_settings import differences
from holdfast.agents.records import read


def paper(paper_id, title):
    return {"paperId": paper_id, "title": title, "year": 2020, "abstract": None}


def say(name, **argument):
    content = json.dumps({"reason": "a reason", "action": {"name": name, **argument}})
    return {"role": "assistant", "content": f"Well. {content}"}


def user(content):
    return {"role": "user", "content": content}


def result(name, selected, *history, papers=(), error=None):
    common = {"duration": 12.5, "tokens": {"input": 70, "output": 9}, "error": error}
    own = {"id": name, "selected": selected, "history": history}
    return {**common, **own, "papers": [list(papers)]}


RESULTS = [
    result(
        1,
        paper("a", "Alpha Networks"),
        *(user("excerpt"), say("search_relevance", query="alpha"), user("- Paper ID: x")),
        *(say("read", paper_id="x"), user("see Beta graphs"), say("select", paper_id="a")),
        papers=[paper("x", "Other"), paper("a", "Alpha Networks")],
    ),
    result(
        2,
        paper("y", "Survey"),
        *(user("excerpt"), say("search_relevance", query="beta"), user("- Paper ID: y")),
        *(say("read", paper_id="y"), user("We follow Beta Graphs of Things [3].")),
        say("select", paper_id="y"),
        papers=[paper("y", "Survey")],
    ),
    result(3, None, user("excerpt"), error="Invalid json output: {"),
    result(4, paper(None, "Delta")),
]
METADATA = {"model": "gpt-4o", "actions": "search_relevance,read,select", "dataset_split": "all"}


@pytest.fixture
def files(tmp_path):
    names = {"1": "Alpha networks", "2": "Beta graphs of things", "3": "Gamma rays", "4": "Delta"}
    rows = [
        row(id=k, target_paper_title=n, split="train" if k == "4" else "test")
        for k, n in names.items()
    ]
    theirs = tmp_path / "theirs.json"
    theirs.write_text(json.dumps({"metadata": METADATA, "results": RESULTS}))
    return theirs, write(tmp_path / "d.csv", rows), tmp_path / "run.jsonl"


def test_imported_results_are_scored_shown_and_limited_to_a_split(files, capsys):
    theirs, data, out = files
    command = ["import", str(theirs), "--data", str(data), "--out", str(out)]
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "3 results are samples of d: n = 3, split = test" in told
    assert main(["score", str(out), "--data", str(data), "--json"]) == 0
    (figures,) = json.loads(capsys.readouterr().out).values()
    assert figures["accuracy"]["k"] == 1
    assert figures["outcomes"] == {"correct": 1, "wrong": 1, "bad_format": 1}
    assert figures["failures"]["the citing paper selected"] == 1
    assert (figures["found_in_search"]["k"], figures["best_rank_median"]) == (1, 2.0)
    assert figures["tokens"] == {"input": 140, "output": 18}
    assert figures["seconds"]["mean"] == 12.5
    assert main(["show", str(out), "2", "--data", str(data)]) == 0
    shown = capsys.readouterr().out
    for said in ("a reason", "READ y", "We follow Beta Graphs", "answer    Survey"):
        assert said in shown
    (difference,) = differences(read(out)[0], load(data))
    assert "the split 'all'" in difference
    with pytest.raises(HoldfastError, match="exists"):
        main(command)
    everything = out.with_name("all.jsonl")
    assert main([*command[:-1], str(everything), "--split", "all"]) == 0
    assert read(everything)[1]["4", 0].status == "guessed"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("Max actions reached", "action_limit"),
        ("This model's maximum context length is 8192 tokens", "context"),
        ("Output blocked by content filtering policy", "policy"),
        ("1 validation error for Output\naction", "bad_format"),
        ("2 validation errors for PaperSearchResult\nauthors", "provider_error"),
        ("Error code: 429", "provider_error"),
        ("something else", "no_selection"),
    ],
)
def test_errors_get_the_status_they_stand_for(error, status):
    assert record({"id": 1, "error": error}).status == status


@pytest.mark.parametrize("content", ["[]", '{"metadata": {}, "results": [{"id": 1}, {}]}'])
def test_other_files_are_refused(files, content):
    theirs, data, out = files
    theirs.write_text(content)
    with pytest.raises(HoldfastError, match="metadata and results"):
        main(["import", str(theirs), "--data", str(data), "--out", str(out)])
    assert not out.exists()
