"""CiteGuard's actions and results, CiteMulti, LitSearch, and accuracy against cost."""

import json

import pytest
from cite_samples import record
from conversations import converse
from servers import fields

from holdfast import HoldfastError
from holdfast.agents.authors_logs import record as imported
from holdfast.agents.cite import main
from holdfast.agents.data import MINI_CITE_CORPUS, load
from holdfast.agents.litsearch import load_queries, recalls
from holdfast.agents.program import CiteAgent
from holdfast.agents.records import ResultFile, settings_of
from holdfast.agents.search.local import LocalSearch


def test_citeguards_actions_in_the_command_lines_agent():
    replies = [
        fields("search_text_snippet", "entropy minimization at test time"),
        fields("find_in_text", "tent-2021 entropy"),
        fields("find_in_text", "no-such-id entropy"),
        fields("ask_for_more_context", "Which data?"),
        fields("select", "tent-2021"),
    ]
    ended, sent = converse(lambda lm: CiteAgent(lm, "citeguard"), replies)
    shown = [messages[-1]["content"] for messages in sent]
    assert ended.status == "selected", ended.detail
    assert "passages:" in shown[1]
    assert "entropy" in shown[2].lower()
    assert "no-such-id" in shown[3]
    assert "No more context" in shown[4]
    events = {event.action: event for event in ended.actions}
    assert events["search_text_snippet"].hits
    assert events["find_in_text"].step == 3


def test_hits_of_citeguards_results_belong_to_its_searches_for_papers():
    def say(name, **more):
        return json.dumps({"reason": "x", "action": {"name": name, **more}})

    history = [
        {"role": "user", "content": "An excerpt"},
        {"role": "assistant", "content": say("search_text_snippet", query="a")},
        {"role": "user", "content": "a passage"},
        {"role": "assistant", "content": say("search_relevance", query="b")},
    ]
    papers = [[{"paperId": "p1", "title": "Tent"}]]
    events = imported({"id": "1", "history": history, "papers": papers, "selected": None}).actions
    assert [(e.action, [h.id for h in e.hits or []]) for e in events] == [
        ("search_text_snippet", []),
        ("search_relevance", ["p1"]),
    ]


def test_citemulti_has_neither_urls_nor_splits(tmp_path):
    path = tmp_path / "CiteMulti.csv"
    path.write_text(
        "id,excerpt,year,source_paper_title,target_paper_title\n"
        "1,As [CITATION] show.,2024,A source,Tent[TITLE_SEPARATOR]EATA\n"
    )
    (sample,) = load(path).select("test").samples
    assert sample.titles == ("Tent", "EATA")
    assert sample.target_url == ""
    path.write_text(path.read_text().replace(",target_paper_title", ",other"))
    with pytest.raises(HoldfastError, match="target_paper_title"):
        load(path)


def queries(path):
    rows = [
        ("Which work adapts by entropy minimization?", "inline_acl", 1, ["tent-2021"]),
        ("residual networks", "manual_iclr", 0, ["resnet-2016", "no-such-paper"]),
        ("what has no answer", "manual_iclr", 0, []),
    ]
    names = ("query", "query_set", "specificity", "corpusids")
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    path.write_text("\n".join(lines))
    return path


def test_recalls_of_litsearch(tmp_path, capsys):
    path = queries(tmp_path / "queries.jsonl")
    search = LocalSearch(MINI_CITE_CORPUS)
    figures = recalls(load_queries(path), search)
    assert figures["all"]["n"] == 2
    assert figures["specific"]["recall@5"] in (0, 1)
    assert figures["inline_acl, specific"] == figures["specific"]
    assert figures["broad"]["recall@20"] in (0, 0.5)
    total = figures["specific"]["recall@20"] + figures["broad"]["recall@20"]
    assert figures["all"]["recall@20"] == total / 2 > 0
    assert main(f"litsearch {path} --corpus {MINI_CITE_CORPUS}".split()) == 0
    assert "recall@5" in capsys.readouterr().out
    path.write_text("{}")
    with pytest.raises(HoldfastError, match="LitSearch"):
        load_queries(path)


def test_litsearchs_corpus_in_parquet(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    papers = {"corpusid": [7, 8], "title": ["Widgets", None], "abstract": ["About widgets", None]}
    pd.DataFrame(papers).dropna().to_parquet(tmp_path / "corpus.parquet")
    search = LocalSearch(tmp_path / "corpus.parquet")
    assert list(search.papers) == ["7"]


def test_accuracy_against_cost_has_a_front(tmp_path, capsys):
    dataset = load("mini-cite").select("test", 8)
    paths = {}
    for name, right, tokens in [
        ("cheap", 2, 10),
        ("good", 6, 90),
        ("poor", 1, 100),
        ("same", 6, 90),
    ]:
        paths[name] = tmp_path / f"{name}.jsonl"
        with ResultFile(paths[name], settings_of(dataset, {"name": "x", "model": name})) as file:
            for k, sample in enumerate(dataset.samples):
                answer = record(sample.id, title=sample.titles[0] if k < right else "None")
                answer.calls[0].usage = {"input_tokens": tokens + k, "output_tokens": 5}
                file.append(answer)
    plot = tmp_path / "front.png"
    names = " ".join(map(str, paths.values()))
    assert main(f"compare {names} --plot {plot}".split()) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()[1:]}
    assert [name for name in lines if "yes" in lines[name]] == ["cheap", "good", "same"]
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert main(f"compare {names} --json --usd-per-million 1 2".split()) == 0
    rows = json.loads(capsys.readouterr().out)["runs"]
    assert {row["unit"] for row in rows} == {"USD"}
    assert rows[0]["cost"] == pytest.approx((13.5 + 2 * 5) / 1e6)
    assert rows[0]["cost_low"] < rows[0]["cost"] < rows[0]["cost_high"]
    with pytest.raises(HoldfastError, match="two runs"):
        main(["compare", str(paths["good"])])
