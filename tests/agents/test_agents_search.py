"""Semantic Scholar, fetching and reading of PDFs on loopback; recordings; compiling; vectors."""

import json
import socket
import sys
import time

import numpy as np
import pytest
from cite_samples import title, write_dataset
from pdfs import PDF, bomb, pdf
from servers import Reply, chat, fields, papers, scholar, semantic_scholar, serve

from holdfast import HoldfastError
from holdfast.agents.cite import main
from holdfast.agents.citeagent.actions import act
from holdfast.agents.citeagent.program import CiteAgent, load_program
from holdfast.agents.data import load
from holdfast.agents.episode import Episode
from holdfast.agents.limits import Retry
from holdfast.agents.lm.metered import MeteredLM
from holdfast.agents.lm.providers import endpoint
from holdfast.agents.protocol import Paper, ProviderError, ReadError, Scope
from holdfast.agents.results import read
from holdfast.agents.search.client import PDFClient
from holdfast.agents.search.dense import RANKS, retrieve
from holdfast.agents.search.guarded import Guard, is_public
from holdfast.agents.search.pdf import extract
from holdfast.agents.search.semantic_scholar import SemanticScholar
from holdfast.agents.search.transfer import Bounds

# ---- search ----


def test_further_pages_are_fetched_where_results_are_left_out():
    listed = papers(50)
    for k in range(17):
        listed[k]["publicationDate"] = "2023-12-01"
    listed[30]["title"] = "The Source: Deep Paper"
    seen = []

    def fault(path, query):
        seen.append(query)

    with scholar(listed, fault) as base:
        search = semantic_scholar(base)
        hits = search.search(
            "deep-paper", "relevance", Scope("The source: deep paper", "2023-06-30"), 20
        )
    assert [p.id for p in hits] == [f"p{k}" for k in range(17, 38) if k != 30]
    assert [q["offset"] for q in seen] == ["0", "20"]
    assert seen[0]["query"] == "deep paper"  # hyphens confuse the API
    assert seen[0]["year"] == "-2023"  # up to, not only


def test_citation_order_sorts_the_hundred_most_relevant_and_takes_null_counts():
    listed = papers(120)
    listed[7]["citationCount"] = None
    with scholar(listed) as base:
        hits = semantic_scholar(base).search("deep", "citations", Scope(), 10)
    assert [p.id for p in hits] == [f"p{k}" for k in range(99, 89, -1)]


def test_null_fields_are_no_errors():
    optional = "abstract year publicationDate citationCount authors externalIds openAccessPdf"
    nothing = dict.fromkeys(optional.split())
    known = {"externalIds": {"ArXiv": "2001.00001", "DOI": "10.1/X"}}
    listed = [
        None,
        {"paperId": "a", "title": "deep a", **nothing},
        {"paperId": None, "title": "deep b"},
        {"paperId": "c", "title": None},
        {"paperId": "d", "title": "deep d", "openAccessPdf": {"url": "", "status": None}, **known},
    ]
    with scholar(listed) as base:
        # `year` is null, so the server's own filter is left alone.
        hits = semantic_scholar(base).search("deep", "relevance", Scope(), 10)
    assert [p.id for p in hits] == ["a", "d"]
    assert hits[0].links == {}
    assert hits[1].ids == {"arxiv:2001.00001", "doi:10.1/x"}
    assert hits[1].links == {"pdf": "https://arxiv.org/pdf/2001.00001"}


@pytest.mark.parametrize(
    "wrong",
    [
        Reply({"message": "Too Many Requests", "code": "429"}, 429),
        Reply({"message": "Too Many Requests", "code": "429"}, 200),
        Reply("[]", 200),
        Reply("", 500),
        Reply("{}", stall=2.0),
    ],
    ids=["429", "429 in disguise", "no object", "500", "stall"],
)
def test_an_outage_is_never_an_empty_result(wrong):
    with scholar(papers(3), lambda path, query: wrong) as base, pytest.raises(ProviderError):
        semantic_scholar(base).search("deep", "relevance", Scope(), 10)
    with scholar([]) as base:
        assert semantic_scholar(base).search("deep", "relevance", Scope(), 10) == []


# ---- fetching and reading ----


def test_reads_pages_once_and_then_from_the_cache(tmp_path):
    calls = []

    def respond(method, path, *rest):
        calls.append(path)
        return Reply(pdf("first words", "second page"), headers=PDF)

    with serve(respond) as base:
        fetcher = PDFClient(allow_private=True)
        search = SemanticScholar(base, fetcher=fetcher, cache=tmp_path)
        paper = Paper("a", "A", links={"pdf": f"{base}/a.pdf"})
        first = search.read(paper)
        assert search.read(paper) == first
    assert [s.text.strip() for s in first] == ["first words", "second page"]
    assert calls == ["/a.pdf"]
    with pytest.raises(ReadError, match="no open-access PDF"):
        search.read(Paper("b", "B"))


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply("<html>", headers={"Content-Type": "text/html"}), "text/html"),
        (Reply("not a pdf", headers=PDF), "not a PDF"),
        (Reply("", 404), "404"),
        (Reply("", 503), "503, 2 times"),
        (Reply(b"%PDF-" + b"x" * 60_000, headers=PDF), "larger than"),
        (Reply(b"%PDF-" + b"x" * 100, headers=PDF, drip=0.05), "took longer"),
        (Reply(b"%PDF-", headers=PDF, stall=60.0), "took longer|reached"),
        (Reply(b"%PDF-", headers={**PDF, "Content-Encoding": "gzip"}), "compress"),
        (
            Reply(b"%PDF-x", headers={**PDF, "Content-Length": "999", "Connection": "close"}),
            "ProtocolError.*2 times",
        ),
        (Reply("", 302, {"Location": "file:///etc/passwd"}), "InvalidSchema"),
        (Reply("", 302, {"Location": "/again"}), "more than 5"),
    ],
    ids=["html", "junk", "404", "503", "big", "drip", "stall", "gzip", "short", "file", "loop"],
)
def test_bad_downloads_end_soon_and_say_why(reply, said):
    start = time.monotonic()
    with serve(lambda *request: reply) as base:
        seconds = 0.8 if reply.drip or reply.stall else 15.0
        fetcher = PDFClient(Bounds(50_000, seconds), allow_private=True, retry=Retry(2, 0.01, 0.02))
        with pytest.raises(ReadError, match=said):
            fetcher.pdf(f"{base}/x.pdf")
    assert time.monotonic() - start < 20


def test_private_addresses_and_other_schemes_are_refused_before_anything_is_sent():
    asked = []

    def respond(*request):
        asked.append(request)
        return Reply(pdf("secret"), headers=PDF)

    with serve(respond) as base:
        for url in [base, base.replace("127.0.0.1", "localhost")]:
            with pytest.raises(ReadError, match="private network"):
                PDFClient(retry=Retry(1)).pdf(f"{url}/x.pdf")
    assert not asked
    for url in ["file:///etc/passwd", "ftp://example.org/x", "http://[::1", ""]:
        with pytest.raises(ReadError):
            PDFClient(retry=Retry(1)).pdf(url)
    assert [is_public(a) for a in ("8.8.8.8", "2606:4700::1111")] == [True, True]
    assert is_public("64:ff9b::8.8.8.8")  # the way to IPv4 where there is only IPv6
    private = (
        "10.0.0.1 169.254.169.254 ::1 ::ffff:127.0.0.1 fe80::1%eth0 100.64.0.1 0.0.0.0 224.0.0.1 "
        "64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 fec0::1 2002:7f00:1::1 ::127.0.0.1 :: "
        "2001:0:808:808::1 2001:db8::1 ff0e::1 ::ffff:0:127.0.0.1"
    )
    assert [a for a in private.split() if is_public(a)] == []


@pytest.mark.parametrize(
    "data",
    [
        b"%PDF-1.4",
        b"%PDF-1.4\n%%EOF",
        pdf("x")[:200],
        b"%PDF-1.7\n" + bytes(range(256)) * 40,
        pdf(""),
    ],
    ids=["header", "empty", "torn", "noise", "no text"],
)
def test_broken_pdfs_are_read_errors(data):
    with pytest.raises(ReadError):
        extract(data, seconds=10)


@pytest.mark.parametrize(
    ("drawn", "memory", "seconds", "said"),
    [
        (b"0 " * 100_000_000, 300 << 20, 30, "cannot be read"),
        (
            b"BT /F1 9 Tf " + b"1 0 0 1 9 9 Tm (a) Tj " * 3_000_000 + b"ET",
            1 << 34,
            2,
            "took longer than 2",
        ),
    ],
    ids=["memory", "time"],
)
def test_hostile_pdf_is_stopped(drawn, memory, seconds, said):
    data, start = bomb(drawn), time.monotonic()
    with pytest.raises(ReadError, match=said):
        extract(data, seconds=seconds, memory=memory)
    assert time.monotonic() - start < seconds + 60


@pytest.mark.skipif(sys.platform != "linux", reason="other systems ignore the memory limit")
def test_reading_is_held_to_its_memory():
    assert extract(pdf("fine"))[0].text.strip() == "fine"
    with pytest.raises(ReadError, match="cannot be read"):
        extract(pdf("fine"), memory=30 << 20)


def test_address_that_changes_after_the_lookup_is_refused_too():
    with serve(lambda *request: Reply("")) as base:
        port = int(base.rsplit(":", 1)[1])
        connection = socket.create_connection(("127.0.0.1", port), timeout=5)
        with pytest.raises(OSError, match="private network"):
            Guard(allow_private=False).admit(connection)
        assert connection.fileno() == -1


def test_unreadable_paper_is_told_to_the_agent_and_does_not_end_the_sample():
    listed = papers(1, openAccessPdf={"url": "http://127.0.0.1:9/x.pdf"})
    sample = load("mini-cite").samples[0]
    with scholar(listed) as base:
        episode = Episode(sample, semantic_scholar(base))
        act(episode, "search_relevance", "deep")
        said = act(episode, "read", "p0")
    assert "private network" in said
    assert episode.events[-1].ok is False


# ---- a whole live run, recorded and replayed ----


def test_recorded_run_is_replayed_without_network(tmp_path, monkeypatch):
    monkeypatch.setenv("S2_API_KEY", "s2-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "lm-secret")
    listed = papers(12)
    turns = [
        fields("search_relevance", "deep"),
        fields("read", "p3"),
        fields("search_citation_count", "deep"),
        fields("select", "p3"),
    ]
    flaky = iter([Reply("", 429), Reply("", 500)])

    def fault(path, query):
        return next(flaky, None) if path.endswith("search") else None

    tape, live, again = (str(tmp_path / name) for name in ("tape.jsonl", "a.jsonl", "b.jsonl"))
    files = {"/files/3.pdf": Reply(pdf("the body of paper three"), headers=PDF)}
    with scholar(listed, fault, files) as s2, chat(lambda m: turns[len(m) // 2 - 1]) as lm:
        listed[3]["openAccessPdf"] = {"url": f"{s2}/files/3.pdf"}
        options = f"run --limit 3 --model m --api-base {lm}/v1 --workers 1 --allow-private".split()
        options += f"--search semantic-scholar --s2-api {s2}/graph/v1 --s2-per-second 500".split()
        assert main([*options, "--record", tape, "--out", live]) == 0
    recorded = (tmp_path / "tape.jsonl").read_text()
    assert "secret" not in recorded + (tmp_path / "a.jsonl").read_text()
    assert main([*options, "--replay", tape, "--out", again]) == 0
    (_, a), (_, b) = read(live), read(again)
    for key in a:
        assert a[key].selection == b[key].selection
        kept, replayed = (
            [e.model_dump(exclude={"seconds"}) for e in r[key].events] for r in (a, b)
        )
        assert kept == replayed
    assert "the body of paper three" in a["mini-01", 0].model_dump_json()
    with pytest.raises(HoldfastError, match="no answer"):
        main([*options, "--demonstration", "--replay", tape, "--out", str(tmp_path / "c.jsonl")])


# ---- compiling ----


def test_optimize_saves_a_program_that_run_uses_and_records(tmp_path, capsys):
    targets = {s.excerpt[:40]: s.titles[0] for s in load("mini-cite").select("train").samples}
    shown = []

    def model(messages):
        # Answers the train samples rightly: asks for the title, then takes the first hit.
        shown.append(messages)
        excerpt = messages[-1]["content"].split("[[ ## excerpt ## ]]\n")[1]
        title = next((t for e, t in targets.items() if excerpt.startswith(e)), "entropy")
        if "\nid: " not in messages[-1]["content"]:
            return fields("search_relevance", title)
        return fields("select", messages[-1]["content"].split("\nid: ")[1].split("\n")[0])

    program = tmp_path / "compiled.json"
    out = tmp_path / "run.jsonl"
    with chat(model) as base:
        options = ["--model", "m", "--api-base", f"{base}/v1", "--commands", "search"]
        assert main(["optimize", *options, "--out", str(program), "--steps", "2"]) == 0
        assert "2 example steps" in capsys.readouterr().out
        shown.clear()
        run = ["run", *options, "--program", str(program), "--limit", "1", "--out", str(out)]
        assert main(run) == 0
        with pytest.raises(HoldfastError, match="different agent"):
            main(["run", *options, "--limit", "1", "--out", str(out)])
        with pytest.raises(HoldfastError, match="--commands"):
            load_program(CiteAgent("search+read"), program)
    state = json.loads(program.read_text())
    assert [sorted(d) for d in state["step"]["demos"]] == [
        ["action", "argument", "excerpt", "observation", "reason"]
    ] * len(state["step"]["demos"])
    assert len(shown[0]) >= 2 + 2 * 1  # the example steps precede the question
    digest = read(out)[0].agent.plain()["program"]
    import hashlib

    assert digest == hashlib.sha256(program.read_bytes()).hexdigest()
    assert load_program(CiteAgent("search"), program) == digest


def test_optimize_without_a_right_answer_says_so(tmp_path):
    with chat(lambda m: "nonsense") as base, pytest.raises(HoldfastError, match="8"):
        main(["optimize", "--model", "m", "--api-base", f"{base}/v1", "--out", str(tmp_path / "p")])


# ---- dense retrieval ----


def test_dense_retrieval_equals_a_plain_ranking(tmp_path):
    rng = np.random.default_rng(0)
    data = load(write_dataset(tmp_path / "d.csv", 43))
    titles = np.array([title(k) for k in range(40)] + [f"zzz {k} qqq" for k in range(300)])
    vectors = rng.normal(size=(len(titles), 16)).astype(np.float32)
    queries = rng.normal(size=(len(data.samples), 16)).astype(np.float32)
    queries[:10] = vectors[:10] + 0.01
    figures = retrieve(
        data,
        {"ids": np.array([s.id for s in data.samples]), "vectors": queries},
        {"ids": np.arange(len(titles)), "titles": titles, "vectors": vectors},
    )
    cosine = (queries / np.linalg.norm(queries, axis=1)[:, None]) @ (
        vectors / np.linalg.norm(vectors, axis=1)[:, None]
    ).T
    ranks = [1 + int((cosine[k] > cosine[k, k]).sum()) for k in range(40)]
    assert figures["targets_among_papers"] == 40
    for k in RANKS:
        assert figures["recall"][k].k == sum(r <= k for r in ranks)
    assert figures["recall"][1].k >= 10
    assert figures["mrr"] == pytest.approx(sum(1 / r for r in ranks) / 43)


def test_embeddings_are_fetched_in_batches_and_evaluated(tmp_path, capsys):
    listed = papers(600, embedding={"vector": [1.0, 0.0]})
    listed[5]["embedding"] = None
    sizes = []

    def respond(method, path, query, body, headers):
        sizes.append(len(body["ids"]))
        assert query["fields"] == "title,embedding.specter_v2"
        known = {p["paperId"]: p for p in listed}
        return Reply([known.get(i) for i in body["ids"]])

    ids, store = tmp_path / "ids.txt", tmp_path / "papers.npz"
    ids.write_text("\n".join([p["paperId"] for p in listed] + ["missing"]))
    excerpts = tmp_path / "excerpts.npz"
    data = load("mini-cite").select("test")
    np.savez(excerpts, ids=[s.id for s in data.samples], vectors=np.ones((43, 2)))
    with serve(respond) as base:
        fetch = ["--fetch", str(ids), "--s2-api", f"{base}/graph/v1"]
        assert main(["dense", "--papers", str(store), "--excerpts", str(excerpts), *fetch]) == 0
    out = capsys.readouterr().out
    assert sizes == [500, 101]
    assert "599 of 601 papers" in out
    assert "recall@1" in out
    assert "MRR" in out
    with pytest.raises(HoldfastError, match="ids"):
        main(["dense", "--papers", str(ids), "--excerpts", str(excerpts)])


def test_a_corpus_and_excerpts_are_embedded_by_a_specter_server(tmp_path, capsys):
    """A server whose vectors count words, so that the ranking is known."""
    words = ["entropy", "memory", "adaptation", "rotation", "normalization"]
    sizes, seen, broken = [], [], [True]

    def respond(method, path, query, body, headers):
        sizes.append(len(body))
        seen.extend(body)
        if len(sizes) == 5 and broken[0]:
            return Reply("down", 503)
        texts = [(p["paper_id"], f"{p['title']} {p['abstract']}".lower()) for p in body]
        return Reply(
            {
                "preds": [
                    {"paper_id": i, "embedding": [1.0, *(t.count(w) for w in words)]}
                    for i, t in texts[::-1]
                ]
            }
        )

    store, excerpts = tmp_path / "papers.npz", tmp_path / "excerpts.npz"
    with serve(respond) as base:
        command = f"dense --papers {store} --excerpts {excerpts} --embed {base}/invoke --tries 1"
        command = [*command.split(), "--place", "title+abstract", "--per-second", "10000"]
        command += ["--limit", "8"]
        with pytest.raises(HoldfastError, match="server"):
            main(command)
        assert not store.exists()
        broken[0] = False
        sizes.clear()
        seen.clear()
        assert main([*command, "--json"]) == 0
    assert max(sizes) == 16
    data = load("mini-cite").select("test", 8)
    assert sum(sizes) == 252 + len(data.samples)
    assert seen[-1]["title"] == seen[-1]["abstract"] == data.samples[-1].excerpt
    out = capsys.readouterr().out
    figures = json.loads(out)
    given, asked = np.load(store), np.load(excerpts)
    expected = retrieve(data, dict(asked), dict(given))
    assert figures["mrr"] == pytest.approx(expected["mrr"])
    assert 0 < figures["mrr"] < 1
    k = list(asked["ids"]).index(data.samples[3].id)
    counted = [data.samples[3].excerpt.lower().count(w) * 2 for w in words]
    assert asked["vectors"][k].tolist() == [1.0, *counted]


def test_model_settings_that_cannot_work_are_refused():
    with pytest.raises(HoldfastError, match="--temperature"):
        endpoint("openai/o1", temperature=0.5)
    assert isinstance(endpoint("m", api_base="http://127.0.0.1:9/v1"), MeteredLM)
    with pytest.raises(HoldfastError, match="commands"):
        CiteAgent("everything")
