"""SPECTER on this machine: a tiny BERT and a tokenizer made here, and the real command over them."""

import json
import re

import numpy as np
import pytest

pytest.importorskip("transformers")

import torch
from transformers import BertConfig, BertModel

from holdfast import HoldfastError
from holdfast.agents.cite import main
from holdfast.agents.data import MINI_CITE_CORPUS
from holdfast.agents.search.local import LocalSearch
from holdfast.agents.search.specter import Specter

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
PAPERS = list(LocalSearch(MINI_CITE_CORPUS).papers.values())
WORDS = sorted({w for p in PAPERS for w in re.findall(r"\w+|[^\w\s]+", p.title.lower())})
VOCABULARY = {word: k for k, word in enumerate([*SPECIAL, *WORDS])}
LENGTH = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An encoder as a folder, as one downloads it: BERT's classes, words for word pieces."""
    path = tmp_path_factory.mktemp("encoder")
    ends = {
        token: {"id": token, "ids": [VOCABULARY[token]], "tokens": [token]} for token in SPECIAL[2:]
    }
    special = {"id": 0, "single_word": False, "lstrip": False, "rstrip": False}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [
            {**special, "id": VOCABULARY[t], "content": t, "normalized": False, "special": True}
            for t in SPECIAL
        ],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
            ],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 0}},
            ],
            "special_tokens": ends,
        },
        "model": {"type": "WordLevel", "vocab": VOCABULARY, "unk_token": "[UNK]"},
    }
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]"}
    settings = {f"{name}_token": token for name, token in names.items()}
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    (path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **settings})
    )
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(path)
    return path


def by_hand(folder, words):
    """The [CLS] vector of one text, of its words (with [SEP] between title and abstract)."""
    model = BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
    inner = [VOCABULARY.get(w, VOCABULARY["[UNK]"]) for w in words][: LENGTH - 2]
    ids = torch.tensor([[VOCABULARY["[CLS]"], *inner, VOCABULARY["[SEP]"]]])
    with torch.no_grad():
        return model(input_ids=ids).last_hidden_state[0, 0].numpy()


def split(text):
    return re.findall(r"\w+|[^\w\s]+", text.lower())


def test_vectors_are_those_of_cls_whatever_the_batch(folder):
    title, abstract = "Attention is all you need", "The attention is all"
    entries = [
        ("a", title, abstract),
        ("b", title, ""),
        ("c", title, None),
        ("d", "a " * 100, None),  # longer than the network takes
        ("e", "", abstract),
    ]
    found = Specter(str(folder), batch=2)(entries)
    expected = [
        by_hand(folder, [*split(title), "[SEP]", *split(abstract)]),
        by_hand(folder, [*split(title), "[SEP]"]),
        by_hand(folder, split(title)),
        by_hand(folder, ["a"] * 100),
        by_hand(folder, ["[SEP]", *split(abstract)]),
    ]
    assert found.shape == (5, 32)
    np.testing.assert_allclose(found, np.stack(expected), atol=1e-5)
    assert not np.allclose(found[1], found[2], atol=1e-3)


def test_excerpts_and_papers_are_embedded_and_ranked(folder, tmp_path, capsys):
    """An excerpt that is a paper's title finds that paper first, exactly."""
    rows = [p for p in PAPERS if len(split(p.title)) < 30][:6]
    data = tmp_path / "titles.csv"
    header = "id,excerpt,target_paper_title,target_paper_url,source_paper_title,source_paper_url,year,split"
    lines = [f'{k},"{p.title} [CITATION]","{p.title}",,,,2024,test' for k, p in enumerate(rows)]
    data.write_text("\n".join([header, *lines]) + "\n")
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(
        "\n".join(json.dumps({"id": p.id, "title": f"{p.title} [CITATION]"}) for p in PAPERS)
    )
    store, asked = tmp_path / "papers.npz", tmp_path / "excerpts.npz"
    command = ["dense", "--data", str(data), "--corpus", str(corpus), "--papers", str(store)]
    command += ["--excerpts", str(asked), "--encoder", str(folder), "--json"]
    main(command)
    figures = json.loads(capsys.readouterr().out)
    assert figures["papers"] == len(PAPERS)
    assert figures["recall"]["1"]["rate"] == figures["mrr"] == 1.0
    # Kept: a model that is gone is not needed again.
    before = store.stat().st_mtime_ns, asked.stat().st_mtime_ns
    main(command)
    assert (store.stat().st_mtime_ns, asked.stat().st_mtime_ns) == before
    with pytest.raises(HoldfastError, match="different place"):
        main([*command, "--place", "excerpt"])
    other = [*command[:-1], "--place", "excerpt", "--excerpts", str(tmp_path / "alone.npz")]
    main(other)
    assert "recall@1 " in capsys.readouterr().out
    alone, titled = np.load(tmp_path / "alone.npz"), np.load(asked)
    assert alone["vectors"].shape == titled["vectors"].shape
    assert not np.allclose(alone["vectors"], titled["vectors"], atol=1e-3)


def test_what_is_no_encoder_is_told(tmp_path):
    with pytest.raises(HoldfastError, match=r"as an encoder"):
        Specter(str(tmp_path))
    files = ["--papers", str(tmp_path / "p.npz"), "--excerpts", str(tmp_path / "e.npz")]
    with pytest.raises(HoldfastError, match="another --place"):
        main(["dense", *files, "--embed", "http://127.0.0.1:9/invoke", "--place", "excerpt"])


def test_an_adapter_changes_the_vectors(folder, tmp_path):
    """SPECTER2's are of the package adapters, which has its own needs, so it may not be there."""
    adapters = pytest.importorskip("adapters")
    entries = [("a", "Attention is all you need", "The attention is all")]
    plain = Specter(str(folder))(entries)
    model = BertModel.from_pretrained(folder, add_pooling_layer=False)
    adapters.init(model)
    model.add_adapter("proximity", config="pfeiffer")  # type: ignore[call-arg]
    for name, weights in model.named_parameters():
        if "proximity" in name:
            torch.nn.init.normal_(weights, std=0.3)
    model.save_adapter(str(tmp_path / "proximity"), "proximity")
    model.set_active_adapters("proximity")
    adapted = Specter(str(folder), str(tmp_path / "proximity"))(entries)
    assert not np.allclose(plain, adapted, atol=1e-3)
    ids = [VOCABULARY.get(w, 1) for w in split("Attention is all you need")]
    ids = [2, *ids, 3, *(VOCABULARY.get(w, 1) for w in split("The attention is all")), 3]
    with torch.no_grad():
        expected = model.eval()(input_ids=torch.tensor([ids])).last_hidden_state[:, 0].numpy()
    np.testing.assert_allclose(adapted, expected, atol=1e-5)
    assert len(ids) < LENGTH
