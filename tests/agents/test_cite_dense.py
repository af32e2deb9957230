"""Dense retrieval: rankings, embeddings in batches, a SPECTER server."""

import json

import numpy as np
import pytest
from cite_samples import title, write_dataset
from servers import Reply, papers, serve

from holdfast import HoldfastError
from holdfast.agents.cite import main
from holdfast.agents.data import load
from holdfast.agents.search.dense import RANKS, retrieve


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
