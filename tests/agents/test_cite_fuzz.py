"""Damaged and foreign files: every reader of `holdfast cite` answers with a result or a sentence.

`HOLDFAST_MUTANTS=10000 pytest tests/agents/test_cite_fuzz.py` tries that many of each kind of file.
"""

import argparse
import contextlib
import copy
import json
import os
import random
import traceback

import pytest
from test_agents_program import fields

from holdfast import HoldfastError
from holdfast.agents.alternatives import with_alternatives
from holdfast.agents.citeagent.agent import LMAgent
from holdfast.agents.citeagent.program import CiteAgent
from holdfast.agents.commands.import_ import from_authors
from holdfast.agents.commands.options import data_options, dataset_of
from holdfast.agents.commands.tags import known
from holdfast.agents.compare import compare
from holdfast.agents.curation import people, quality
from holdfast.agents.curation.ambiguity import excerpts, is_ambiguous
from holdfast.agents.curation.closed_book import known_by_heart
from holdfast.agents.data import MINI_CITE_CORPUS, load, write
from holdfast.agents.lm.providers import ScriptedLM, endpoint
from holdfast.agents.protocol import ReadError, Scope
from holdfast.agents.report.page import JudgedRun, runs_page, trajectory_page
from holdfast.agents.report.published import beside_published
from holdfast.agents.report.text import side_by_side, text
from holdfast.agents.report.trajectory import text as trajectory
from holdfast.agents.results import ResultFile, calls, read
from holdfast.agents.run import run
from holdfast.agents.score import score
from holdfast.agents.search.local import LocalSearch

MUTANTS = int(os.environ.get("HOLDFAST_MUTANTS", "0"))
TEST = load("mini-cite").select("test", 3)
ODD = (
    None, True, False, 0, -1, 2**70, 1e308, float("nan"), float("inf"), "", "x", "\x1b[31m", "\ud800",
    "9" * 5000, [], {}, [None], [[]], [{}], {"": None}, ["a", 1], {"id": {}}, "lm", "action", "read", 1.5,
)  # fmt: skip


def places(value, path=()):
    """The paths of all that a JSON value holds."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inner:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


def mutated(value, rng):
    """A JSON value with one to three places replaced, removed or exchanged."""
    value = copy.deepcopy(value)
    for _ in range(rng.randint(1, 3)):
        every = list(places(value))
        if not every:
            break
        *path, key = rng.choice(every)
        parent = value
        for step in path:
            parent = parent[step]
        if rng.random() < 0.2:
            del parent[key]
        elif rng.random() < 0.2:
            *other, last = rng.choice(every)
            found = value
            for step in (*other, last):
                found = found[step] if found is not None else None
                if not isinstance(found, dict | list):
                    break
            parent[key] = copy.deepcopy(found)
        else:
            parent[key] = copy.deepcopy(rng.choice(ODD))
    return value


def scrambled(raw, rng):
    """Bytes with some changed, removed, repeated or put in."""
    raw = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(raw) or 1)
        length = rng.choice((1, 1, 3, 40))
        piece = rng.choice(
            (b'"', b",", b"\n", b"\0", b"\xff", b"", b"\t", b"'", b"\r", b"1e999", b"{")
        )
        kind = rng.randrange(3)
        if kind == 0:
            raw[at : at + length] = piece
        elif kind == 1:
            raw[at:at] = raw[at : at + length * 5] + piece
        else:
            raw[at:] = raw[at : at + 500]
    return bytes(raw)


def lines_of(entries):
    return "".join(json.dumps(entry) + "\n" for entry in entries).encode()


def json_lines(raw, rng):
    """JSON Lines with one line mutated, or their bytes."""
    if rng.random() < 0.15:
        return scrambled(raw, rng)
    lines = raw.decode().splitlines()
    at = rng.randrange(len(lines))
    lines[at] = json.dumps(mutated(json.loads(lines[at]), rng))
    if rng.random() < 0.1:
        lines[at] = rng.choice(("null", "[]", "1", '"a"', "{}", "[" * 5000, '{"type":"header"}'))
    return "\n".join([*lines, ""]).encode()


def whole_json(raw, rng):
    if rng.random() < 0.15:
        return scrambled(raw, rng)
    return json.dumps(mutated([json.loads(raw)], rng)[:1] or [None])[1:-1].encode()


def judged(path):
    """All that score, show, compare and the page make of a result file."""
    header, records = read(path)
    list(calls(path))
    parser = argparse.ArgumentParser()
    data_options(parser, default=None)
    dataset = dataset_of(parser.parse_args([]), header, path)
    scores = score(records, dataset, repeats=header["repeats"], cutoff=2021, usd_per_million=(1, 1))
    assert json.dumps(scores)
    said = [text(header, scores, dataset), beside_published(header, dataset, scores)]
    said.append(side_by_side({"a": scores}))
    runs = [JudgedRun("a", header, dataset, records, scores, 0.8, None)]
    said.append(runs_page(runs))
    for (name, _), record in records.items():
        for sample in dataset.samples:
            if sample.id == name:
                said += [trajectory(record, sample), trajectory_page(header, record, sample)]
    compare(records, records, dataset)
    known_by_heart(records, dataset, header["repeats"], 0.8)
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
                assert "\n".join(s.text for s in corpus.read(paper)).encode()


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
    "result file": (run_file, json_lines, judged, 40),
    "result file for Inspect": (run_file, json_lines, exported, 5),
    "result file of CiteME's code": (their_file, whole_json, imported, 60),
    "data": (data_file, scrambled, load, 100),
    "alternatives": (
        lambda _: "".join(["id,title\n", *(f"{k},A title\n" for k in IDS)]).encode(),
        scrambled,
        lambda path: with_alternatives(TEST, path),
        100,
    ),
    "answers of people": (
        lambda _: TABLE.encode(),
        scrambled,
        lambda path: people.agreement(people.answers(path, TEST), TEST.samples),
        100,
    ),
    "labels": (
        lambda _: b"dataset,label\nmine,trivial\nmine,ambiguous\n",
        scrambled,
        lambda path: quality.quality_lines(quality.labelled(path)),
        100,
    ),
    "excerpts.jsonl": (
        lambda _: lines_of([{"excerpt": "As TARGETCIT, OTHERCIT say", "target": "TARGETCIT"}] * 2),
        json_lines,
        ambiguous,
        100,
    ),
    "excerpts.csv": (lambda _: b"excerpt,target\na TARGETCIT b,\n", scrambled, ambiguous, 100),
    "corpus": (lambda _: CORPUS, json_lines, searched, 100),
    "tags": (lambda _: lines_of([{"title": "a", "tags": ["b", "c"]}] * 2), json_lines, known, 100),
    "replies": (
        lambda _: json.dumps(["one", "two"]).encode(),
        whole_json,
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
    rng = random.Random(kind)
    failed, refused = [], 0
    for number in range(MUTANTS or quick):
        path.write_bytes(mutate(raw, rng))
        try:
            consume(path)
        except HoldfastError:
            refused += 1
        except Exception:
            failed.append(f"{number}: {traceback.format_exc(limit=-3)}")
    assert not failed, f"{len(failed)} of {MUTANTS or quick}:\n" + "\n".join(failed[:5])
    assert refused
