"""Ensembles of language models, whole and offline: tiny models from a configuration, tiny data sets."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from holdfast.benchmarks.cli import main
from holdfast.benchmarks.results.predictions import read_predictions

pytestmark = pytest.mark.slow
COLOURS = ("red", "blue", "green", "white")
THINGS = ("cat", "dog", "fox", "hen")
WORDS = (*COLOURS, *THINGS, "the", "is", "not", "what", "and", "here", "now", "?")


def language_model(folder: Path, kind: str) -> Path:
    """A transformer of a few thousand parameters with a tokenizer of whole words."""
    transformers, tokenizers = map(pytest.importorskip, ("transformers", "tokenizers"))
    torch.manual_seed(0)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words = {word: k for k, word in enumerate([*special, *WORDS])}
    own = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    own.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    if kind == "bert":
        own.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        names |= {"cls_token": "[CLS]", "sep_token": "[SEP]"}
        config = transformers.BertConfig(
            vocab_size=len(words), intermediate_size=32, max_position_embeddings=32, **sizes
        )
    else:
        config = transformers.GPT2Config(vocab_size=len(words), n_positions=32, **sizes)
    transformers.PreTrainedTokenizerFast(tokenizer_object=own, **names).save_pretrained(folder)
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    return folder


def question(random: np.random.Generator, more: str) -> dict:
    """Which colour is the thing? The answer is the word before it, and it, of two things."""
    (a, b), (x, y) = random.choice(COLOURS, 2), random.choice(THINGS, 2, replace=False)
    text = f"the {a} {x} and the {b} {y} {more}".strip()
    answers = {"text": [f"{a} {x}"], "answer_start": [text.index(f"{a} {x}")]}
    return {"question": f"what is {x} ?", "context": text, "answers": answers}


def inference(random: np.random.Generator, more: str) -> dict:
    """Whether the second sentence says the same, or denies it; one in ten is not known."""
    thing, colour, label = random.choice(THINGS), random.choice(COLOURS), int(random.integers(2))
    first, second = f"the {thing} is {colour}", f"the {thing} is {'not ' * label}{colour} {more}"
    unknown = random.random() < 0.1
    return {"premise": first, "hypothesis": second.strip(), "label": -1 if unknown else label}


def trained(path: Path, task: str, base: Path, training: str, settings: str, budgets: str) -> int:
    """The exit status of training an ensemble with head as the source of diversity."""
    make = question if task == "qa" else inference
    sets = {}
    for seed, (name, count) in enumerate({"train": 60, "id": 60, "ood": 50}.items()):
        random = np.random.default_rng(seed)
        rows = [make(random, "here and now" * (name == "ood")) for _ in range(count)]
        (path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        sets[name] = f"{{path: json, data_files: {path / name}, length: 20}}"
    (path / "e.yaml").write_text(f"""
out: {path}/out
seeds: [0]
data: {{task: {task}, train: {sets["train"]}, validation: {sets["id"]}, shifts: {{new: {sets["ood"]}}}}}
ensembles:
  tiny: {{base: {base}, training: {training}, diversity: {{head: [1]}}, budgets: {budgets}, members: 2,
    settings: {settings}}}
""")
    return main(["train", "ensemble", str(path / "e.yaml"), "--jobs", "1"])


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")  # here, since it takes long
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_question_answering(kind, tmp_path, capsys):
    base = language_model(tmp_path / kind, kind)
    assert trained(tmp_path, "qa", base, "finetune", "{lr: 0.01, batch: 20}", "[2, 60]") == 0
    files = sorted((tmp_path / "out").rglob("*.npz"))
    assert len(files) == 4
    own = read_predictions(files[-1])["validation"]
    assert own.classes.shape == (60, 2)
    assert (own.labels[:, 1] - own.labels[:, 0] == 1).all()  # colour and thing
    assert (own.classes == own.labels).all(1).mean() > 0.3  # by chance 1 in 36
    assert ((own.scores["confidence"] > 0) & (own.scores["confidence"] <= 1)).all()
    capsys.readouterr()
    assert main(["estimators", "agree", str(tmp_path / "out"), "--json"]) == 0
    em, f1 = json.loads(capsys.readouterr().out)
    assert (em["measure"], f1["measure"]) == ("EM", "F1")
    for key in ("accuracy", "agreement"):
        assert all(a <= b for a, b in zip(em[key], f1[key], strict=True))


@pytest.mark.parametrize("training", ["probe", "lora", "scratch"])
def test_text_classification(training, tmp_path):
    if training == "lora":
        pytest.importorskip("peft")
    kind, settings, most = "bert", "{lr: 0.01, batch: 16}", 80
    if training == "probe":  # more of a sentence is left in the last token of random layers
        kind, settings, most = "gpt2", "{lr: 0.3}", 1500
    base = language_model(tmp_path / kind, kind)
    assert trained(tmp_path, "classification", base, training, settings, f"[1, {most}]") == 0
    sets = [
        read_predictions(file)["validation"] for file in sorted((tmp_path / "out").rglob("*.npz"))
    ]
    assert all(own.labels is not None and own.labels.min() == 0 for own in sets)
    right = [(own.classes == own.labels).mean() for own in sets]
    assert np.mean(right[2:]) > 0.6


@pytest.mark.parametrize(
    ("task", "base", "training", "sentence"),
    [
        ("qna", "bert", "finetune", "'classification' or 'qa'"),
        ("qa", "no/bert", "finetune", "Cannot load the language model"),
        ("qa", "bert", "probe", "does not support probes"),
    ],
)
def test_what_is_wrong_is_told(task, base, training, sentence, tmp_path, capsys):
    language_model(tmp_path / "bert", "bert")
    assert trained(tmp_path, task, tmp_path / base, training, "{lr: 0.01}", "[1]") == 2
    assert sentence in capsys.readouterr().err
