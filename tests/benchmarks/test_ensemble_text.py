"""Ensembles of language models, whole and offline: tiny models from a configuration, tiny data sets."""

import json
from pathlib import Path

import numpy as np
import pytest

from holdfast.benchmarks.cli import main
from holdfast.benchmarks.results.predictions import load

transformers = pytest.importorskip("transformers")
datasets = pytest.importorskip("datasets")
tokenizers = pytest.importorskip("tokenizers")

pytestmark = pytest.mark.slow
COLOURS = ("red", "blue", "green", "white")
THINGS = ("cat", "dog", "fox", "hen")
WORDS = (*COLOURS, *THINGS, "the", "is", "not", "what", "which", "and", "here", "now", "?")


def language_model(folder: Path, kind: str) -> Path:
    """A transformer of a few thousand parameters with a tokenizer of whole words."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words = {word: k for k, word in enumerate([*special, *WORDS])}
    own = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    own.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    if kind == "bert":
        own.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        names |= {"cls_token": "[CLS]", "sep_token": "[SEP]"}
        config = transformers.BertConfig(
            vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=32, max_position_embeddings=32,
        )  # fmt: skip
        model = transformers.BertModel(config)
    else:
        config = transformers.GPT2Config(
            vocab_size=len(words), n_embd=32, n_layer=2, n_head=2, n_positions=32
        )
        model = transformers.GPT2Model(config)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=own, **names)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


def write(path: Path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def questions(path: Path, count: int, seed: int, more: str = "") -> str:
    """Which colour is the thing? The answer is the word before it, of two things."""
    random, rows = np.random.default_rng(seed), []
    for _ in range(count):
        (a, b), (x, y) = random.choice(COLOURS, 2), random.choice(THINGS, 2, replace=False)
        text = f"the {a} {x} and the {b} {y} {more}".strip()
        begin = text.index(f"{a} {x}")
        answers = {"text": [f"{a} {x}"], "answer_start": [begin]}
        rows.append({"question": f"what is {x} ?", "context": text, "answers": answers})
    return write(path, rows)


def inferences(path: Path, count: int, seed: int, more: str = "") -> str:
    """Whether the second sentence says the same, or denies it; one in ten is not known."""
    random, rows = np.random.default_rng(seed), []
    for k in range(count):
        thing, colour = random.choice(THINGS), random.choice(COLOURS)
        label = int(random.integers(2))
        second = f"the {thing} is {'not ' if label else ''}{colour} {more}".strip()
        first = f"the {thing} is {colour}"
        rows.append({"premise": first, "hypothesis": second, "label": -1 if k % 10 == 9 else label})
    return write(path, rows)


def ensemble(path: Path, task: str, base: Path, training: str, settings: str, budgets: str) -> Path:
    make = questions if task == "qa" else inferences
    files = {name: make(path / f"{name}.jsonl", 60, k) for k, name in enumerate(("train", "id"))}
    files["ood"] = make(path / "ood.jsonl", 50, 5, "here and now")
    sets = {k: f"{{path: json, data_files: {file}, length: 20}}" for k, file in files.items()}
    (path / "e.yaml").write_text(f"""
out: {path}/out
seeds: [0]
data: {{task: {task}, train: {sets["train"]}, validation: {sets["id"]}, shifts: {{new: {sets["ood"]}}}}}
ensembles:
  tiny: {{base: {base}, training: {training}, diversity: {{head: [1]}}, budgets: {budgets}, members: 2,
    settings: {settings}}}
""")
    return path / "e.yaml"


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_question_answering(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    base = language_model(tmp_path / kind, kind)
    settings = "{lr: 0.01, batch: 20}"
    file = ensemble(tmp_path, "qa", base, "finetune", settings, "[2, 60]")
    assert main(["ensemble", str(file), "--jobs", "1"]) == 0
    files = sorted((tmp_path / "out").rglob("*.npz"))
    assert len(files) == 4
    own = load(files[-1])["validation"]
    assert own.classes.shape == (60, 2)
    length = own.labels[:, 1] - own.labels[:, 0]
    assert (length == 1).all()  # colour and thing
    assert (own.classes == own.labels).all(1).mean() > 0.3  # by chance 1 in 36
    assert ((own.scores["confidence"] > 0) & (own.scores["confidence"] <= 1)).all()
    assert main(["estimators", "agree", str(tmp_path / "out"), "--json"]) == 0
    shown = capsys.readouterr().out
    found = json.loads(shown[shown.index("[\n") :])
    em, f1 = found
    assert (em["measure"], f1["measure"]) == ("EM", "F1")
    assert all(a <= b for a, b in zip(em["accuracy"], f1["accuracy"], strict=True))
    assert all(a <= b for a, b in zip(em["agreement"], f1["agreement"], strict=True))
    assert "ATC-MC_T" in em
    assert "AC" not in f1  # confidences have no form for F1


@pytest.mark.parametrize("training", ["probe", "lora", "scratch"])
def test_text_classification(training: str, tmp_path: Path) -> None:
    if training == "lora":
        pytest.importorskip("peft")
    base = language_model(tmp_path / "bert", "bert")
    settings, most = "{lr: 0.01, batch: 16}", 80
    if training == "probe":  # little of a sentence is left in the first token of random layers
        settings, most = "{lr: 3.0}", 1500
    file = ensemble(tmp_path, "classification", base, training, settings, f"[1, {most}]")
    assert main(["ensemble", str(file), "--jobs", "1"]) == 0
    files = sorted((tmp_path / "out").rglob("*.npz"))
    sets = [load(file) for file in files]
    assert [len(own["validation"].ids) for own in sets] == [54] * 4  # unknown ones are left out
    right = [(own["validation"].classes == own["validation"].labels).mean() for own in sets]
    assert np.mean(right[2:]) > 0.6
    assert main(["estimators", "agree", str(tmp_path / "out")]) == 0


def test_parquet_is_read_as_npz_is(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {
        "set": ["validation"] * 3 + ["new"] * 2,
        "id": [0, 1, 2, 0, 1],
        **{"start": [1, 2, 3, 4, 5], "end": [2, 2, 3, 6, 6]},
        **{"label_start": [1, 2, 0, 4, 4], "label_end": [2, 3, 3, 6, 6]},
        "confidence": [0.9, 0.8, 0.7, 0.6, 0.5],
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "m.parquet")
    found = load(tmp_path / "m.parquet")
    assert found["new"].classes.tolist() == [[4, 6], [5, 6]]
    assert found["validation"].labels.tolist() == [[1, 2], [2, 3], [0, 3]]
    assert found["new"].scores["confidence"].tolist() == [0.6, 0.5]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("task: qa", "task: qna", "classification, qa"),
        ("tiny: {base: ", "tiny: {base: no/", "cannot be loaded"),
        ("training: finetune", "training: probe", "question answering.*probe"),
    ],
)
def test_what_is_wrong_is_told(
    old: str, new: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    base = language_model(tmp_path / "bert", "bert")
    file = ensemble(tmp_path, "qa", base, "finetune", "{lr: 0.01}", "[1]")
    file.write_text(file.read_text().replace(old, new))
    assert main(["ensemble", str(file), "--jobs", "1"]) == 2
    assert sentence in capsys.readouterr().err
