"""Dense retrieval: rankings, and SPECTER as a tiny BERT with a tokenizer made here."""

import json
import re

import numpy as np
import pytest
import torch
from cite_samples import row, title, write, write_dataset

from holdfast import HoldfastError
from holdfast.agents.cite import main
from holdfast.agents.data import MINI_CITE_CORPUS, load
from holdfast.agents.search.dense import RANKS, Specter, retrieve
from holdfast.agents.search.local import LocalSearch
from holdfast.agents.search.provider import Paper


def test_dense_retrieval_equals_a_plain_ranking(tmp_path):
    """By vectors that were made elsewhere; two of eight targets are not among the papers."""
    rng = np.random.default_rng(0)
    data = load(write_dataset(tmp_path / "d.csv", 8))
    titles = [title(k) for k in range(6)] + [f"zzz {k} qqq" for k in range(60)]
    vectors = rng.normal(size=(len(titles), 16)).astype(np.float32)
    queries = rng.normal(size=(len(data.samples), 16)).astype(np.float32)
    queries[:2] = vectors[:2] + 0.01
    known = dict(
        zip([*titles, *(s.excerpt for s in data.samples)], [*vectors, *queries], strict=True)
    )
    papers = [Paper(id=t, title=t) for t in titles]
    figures = retrieve(data, papers, lambda entries: np.stack([known[t] for t, _ in entries]))
    cosine = (queries / np.linalg.norm(queries, axis=1)[:, None]) @ (
        vectors / np.linalg.norm(vectors, axis=1)[:, None]
    ).T
    ranks = [1 + int((cosine[k] > cosine[k, k]).sum()) for k in range(6)]
    assert figures["targets_among_papers"] == 6
    for k in RANKS:
        assert figures["recall"][k].k == sum(r <= k for r in ranks)
    assert figures["recall"][1].k >= 2
    assert figures["mrr"] == pytest.approx(sum(1 / r for r in ranks) / 8)


PAPERS = list(LocalSearch(MINI_CITE_CORPUS).papers.values())
WORDS = sorted({w for p in PAPERS for w in re.findall(r"\w+|[^\w\s]", p.title.lower())})
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
IDS = {word: k for k, word in enumerate(VOCABULARY)}
LENGTH = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An encoder as a folder, as one downloads it: a tiny BERT, whose words are whole."""
    transformers = pytest.importorskip("transformers")
    path = tmp_path_factory.mktemp("encoder")
    (path / "vocab.txt").write_text("\n".join(VOCABULARY))
    transformers.BertTokenizerFast(str(path / "vocab.txt")).save_pretrained(path)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
    )
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(path)
    return path


def by_hand(folder, words):
    """The [CLS] vector of one text, of its words (with [SEP] between title and abstract)."""
    from transformers import BertModel  # slow to import

    model = BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
    inner = [IDS.get(w, IDS["[UNK]"]) for w in words][: LENGTH - 2]
    ids = torch.tensor([[IDS["[CLS]"], *inner, IDS["[SEP]"]]])
    with torch.no_grad():
        return model(input_ids=ids).last_hidden_state[0, 0].numpy()


def split(text):
    return re.findall(r"\w+|[^\w\s]", text.lower())


def test_vectors_are_those_of_cls_whatever_the_batch(folder):
    title, abstract = "Attention is all you need", "The attention is all"
    # The third is longer than the network takes.
    entries = [(title, abstract), (title, ""), ("a " * 100, "")]
    found = Specter(str(folder))(entries)
    expected = [
        by_hand(folder, [*split(title), "[SEP]", *split(abstract)]),
        by_hand(folder, [*split(title), "[SEP]"]),
        by_hand(folder, ["a"] * 100),
    ]
    assert found.shape == (3, 32)
    np.testing.assert_allclose(found, np.stack(expected), atol=1e-5)
    assert not np.allclose(found[0], found[1], atol=1e-3)


def test_excerpts_and_papers_are_embedded_and_ranked(folder, tmp_path, capsys):
    """An excerpt that is a paper's title finds that paper first, exactly."""
    chosen = [p.title for p in PAPERS if len(split(p.title)) < 30][:6]
    given = [
        row(id=str(k), excerpt=f"{t} [CITATION]", target_paper_title=t)
        for k, t in enumerate(chosen)
    ]
    data, corpus = write(tmp_path / "titles.csv", given), tmp_path / "corpus.jsonl"
    entries = ({"id": p.id, "title": f"{p.title} [CITATION]"} for p in PAPERS)
    corpus.write_text("\n".join(map(json.dumps, entries)))
    command = ["dense", "--data", str(data), "--corpus", str(corpus), "--encoder", str(folder)]
    assert main([*command, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["papers"] == len(PAPERS)
    assert figures["recall"]["1"]["rate"] == figures["mrr"] == 1.0
    assert main(command) == 0
    assert "recall@1    6/6 = 100.0 %" in capsys.readouterr().out
    with pytest.raises(HoldfastError, match="as an encoder"):
        Specter(str(tmp_path))
