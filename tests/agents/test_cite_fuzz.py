"""Damaged and foreign files: every reader of `holdfast cite` answers with a result or a sentence.

`HOLDFAST_MUTANTS=10000 pytest tests/agents/test_cite_fuzz.py` tries that many of each kind of file.
"""

import contextlib
import json
import os
import random
from collections import Counter
from dataclasses import asdict

import pytest
from mutants import of_json, outcome, torn
from servers import fields

from holdfast.agents.authors_results import from_authors
from holdfast.agents.citeagent.program import CiteAgent, LMAgent
from holdfast.agents.commands.options import CiteParser, dataset_of
from holdfast.agents.compare import compare
from holdfast.agents.curation import data_quality, people
from holdfast.agents.curation.ambiguity import excerpts, is_ambiguous
from holdfast.agents.curation.closed_book import known_by_heart
from holdfast.agents.curation.tags import known
from holdfast.agents.data import MINI_CITE_CORPUS, load, with_alternatives, write
from holdfast.agents.lm.providers import ScriptedLM, endpoint
from holdfast.agents.protocol import ReadError, Scope
from holdfast.agents.report.beside import beside_published
from holdfast.agents.report.runs_page import JudgedRun, runs_page, trajectory_page
from holdfast.agents.report.show import text as trajectory
from holdfast.agents.report.summary import side_by_side, text
from holdfast.agents.results import ResultFile, calls, read
from holdfast.agents.run import run
from holdfast.agents.score import score
from holdfast.agents.search.local import LocalSearch

MUTANTS = int(os.environ.get("HOLDFAST_MUTANTS", "0"))
TEST = load("mini-cite").select("test", 3)


def lines_of(entries):
    return "".join(json.dumps(entry) + "\n" for entry in entries).encode()


def json_of(raw, draw):
    return of_json(raw.decode(), draw)


def judged(path):
    """All that score, show, compare and the page make of a result file."""
    header, records = read(path)
    list(calls(path))
    parser = CiteParser("score", "", "")
    parser.data(default=None)
    dataset = dataset_of(parser.parse_args([]), header, path)
    scores = score(records, dataset, repeats=header.repeats, cutoff=2021, usd_per_million=(1, 1))
    assert json.dumps(asdict(scores))
    said = [text(header, scores, dataset), beside_published(header, dataset, scores)]
    said.append(side_by_side({"a": scores}))
    runs = [JudgedRun("a", header, dataset, records, scores, 0.8, None)]
    said.append(runs_page(runs))
    for (name, _), record in records.items():
        for sample in dataset.samples:
            if sample.id == name:
                said += [trajectory(record, sample), trajectory_page(header, record, sample)]
    compare(records, records, dataset)
    known_by_heart(records, dataset, header.repeats, 0.8)
    assert "\n".join(said).encode()


def exported(path):
    pytest.importorskip("inspect_ai")
    from holdfast.agents.inspect.export import log_of

    header, records = read(path)
    assert log_of(header, records, TEST).model_dump_json()


def imported(path):
    """A result file of CiteME's code, as a run."""
    header, records, _ = from_authors(path, TEST)
    out = path.with_name("imported.jsonl")
    out.unlink(missing_ok=True)
    with ResultFile(out, header) as file:
        for record in records:
            file.append(record)
    read(out)


def searched(path):
    corpus = LocalSearch(path)
    for sort in ("relevance", "citations"):
        for paper in corpus.search("adaptation of networks", sort, Scope("a", "2022"), 5):
            with contextlib.suppress(ReadError):
                "\n".join(s.text for s in corpus.read(paper)).encode()


def ambiguous(path):
    for excerpt, target in excerpts(path):
        with contextlib.suppress(ValueError):  # it does not mark its target
            is_ambiguous(excerpt, target)


def run_file(folder):
    """A result file of a scripted model, with searches, reads, a repair and answers."""
    replies = [
        fields("search_relevance", "entropy minimization at test time"),
        "no field at all",
        fields("read", "tent-2021"),
        fields("select", "tent-2021"),
    ]
    reply = lambda messages: replies[min(sum(m["role"] == "assistant" for m in messages), 3)]  # noqa: E731
    path = folder / "run.jsonl"
    agent = LMAgent(CiteAgent("search+read"), ScriptedLM(reply))
    run(TEST, agent, LocalSearch(MINI_CITE_CORPUS), path, repeats=2)
    return path.read_bytes()


def data_file(folder):
    write(folder / "data.csv", TEST.samples)
    return (folder / "data.csv").read_bytes()


def their_file(_):
    paper = {"paperId": "a", "title": "Tent", "year": 2021, "abstract": None}
    say = {
        "role": "assistant",
        "content": '{"reason": "r", "action": {"name": "search_relevance"}}',
    }
    result = {
        "id": TEST.samples[0].id,
        "selected": paper,
        "status": "success",
        "error": None,
        "duration": 1.5,
        "tokens": {"input": 7, "output": 9},
        "papers": [[paper]],
        "history": [{"role": "system", "content": "x"}, say],
        "is_correct": True,
    }
    metadata = {"model": "m", "temperature": 0.95, "actions": "search, read", "search_limit": 10}
    metadata |= {"executor": "e", "dataset_split": "all", "max_actions": 15}
    return json.dumps(
        {"metadata": metadata, "results": [result, {**result, "selected": None}]}
    ).encode()


IDS = [sample.id for sample in TEST.samples]
TABLE = "sample,annotator,title,seconds\n" + "".join(f'{k},ann,"A, title",12.5\n' for k in IDS)
CORPUS = b"\n".join(MINI_CITE_CORPUS.read_bytes().splitlines()[:12]) + b"\n"
KINDS = {
    "result file": (run_file, json_of, judged, 40),
    "result file for Inspect": (run_file, json_of, exported, 12),
    "result file of CiteME's code": (their_file, json_of, imported, 60),
    "data": (data_file, torn, load, 100),
    "alternatives": (
        lambda _: "".join(["id,title\n", *(f"{k},A title\n" for k in IDS)]).encode(),
        torn,
        lambda path: with_alternatives(TEST, path),
        100,
    ),
    "answers of people": (
        lambda _: TABLE.encode(),
        torn,
        lambda path: people.agreement(people.answers(path, TEST), TEST.samples),
        100,
    ),
    "labels": (
        lambda _: b"dataset,label\nmine,trivial\nmine,ambiguous\n",
        torn,
        lambda path: data_quality.quality_lines(data_quality.labelled(path)),
        100,
    ),
    "excerpts.jsonl": (
        lambda _: lines_of([{"excerpt": "As TARGETCIT, OTHERCIT say", "target": "TARGETCIT"}] * 2),
        json_of,
        ambiguous,
        100,
    ),
    "excerpts.csv": (lambda _: b"excerpt,target\na TARGETCIT b,\n", torn, ambiguous, 100),
    "corpus": (lambda _: CORPUS, json_of, searched, 100),
    "tags": (lambda _: lines_of([{"title": "a", "tags": ["b", "c"]}] * 2), json_of, known, 100),
    "replies": (
        lambda _: json.dumps(["one", "two"]).encode(),
        json_of,
        lambda path: endpoint(f"scripted/{path}")("hello"),
        60,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_read_or_refused_in_a_sentence(tmp_path, kind):
    make, mutate, consume, quick = KINDS[kind]
    raw = make(tmp_path)
    path = tmp_path / (kind if kind.startswith("excerpts") else "mutant")
    path.write_bytes(raw)
    consume(path)
    ends: Counter[str] = Counter()
    for seed in range(MUTANTS or quick):
        path.write_bytes(mutate(raw, random.Random(seed)))
        ends[outcome(lambda: consume(path))] += 1
    assert set(ends) == {"read", "refused"}, ends
