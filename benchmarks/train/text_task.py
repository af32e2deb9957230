"""Ensembles of language models for text classification and extractive question answering.

The entries of `data` are Hugging Face datasets; see docs/ensembles.md.
"""

from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ... import HoldfastError
from ...callbacks.functional.spans import (
    best_answers,
    fit_span_temperatures,
    span_negative_entropy,
    span_probability,
)
from ...datamodules.counter import permuted
from ...files import reason
from ...hub import try_hub
from ..results.predictions import VALIDATION, Predictions
from ..suites.grid import expanded
from .members import TRAIN, Examples, Task

_LENGTH = 384  # tokens, as is usual for SQuAD
_MISSING = "Text needs transformers and datasets. Run: pip install 'holdfast[text]'."
_SETTINGS = {"first", "examples", "columns", "length"}  # of an entry; the others are load_dataset's
_ALLOWED = "allowed"  # among the inputs: whether an answer may begin or end at a token, bool [n,N]


class TextTask(Task):
    """Classification of pairs of texts, or extractive question answering, by a language model.

    The inputs of a set are the model's, int64 [n,N] each by name, and ALLOWED. Models train without
    dropout, so that only the source of diversity varies. The base is from the hub or a folder.
    """

    piece, dropout = 32, False

    def __init__(self, data: dict[str, Any], base: str, seed: int) -> None:
        self.qa = data["task"] == "qa"
        self.base, tokenizer = _language_model(base)
        self.first = tokenizer.cls_token is not None
        shifts = {variant.name: variant.config for variant in expanded(data["shifts"])}
        sets = {TRAIN: data["train"], VALIDATION: data["validation"], **shifts}
        self.sets = {k: _read_texts(v, self.qa, tokenizer, seed) for k, v in sets.items()}
        self.outputs = 2 if self.qa else int(self.sets[TRAIN].labels.max()) + 1

    def inputs(self, examples: Examples, rows: Tensor) -> dict[str, Tensor]:
        return {name: ids[rows] for name, ids in examples.inputs.items() if name != _ALLOWED}

    def new_base(self, seed: int) -> nn.Module:
        from transformers import AutoModel

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return AutoModel.from_config(self.base.config).eval()

    def with_head(self, base: nn.Module, head: nn.Module) -> nn.Module:
        return _TextModel(base, head, self.qa, self.first)

    def loss(self, outputs: Tensor, examples: Examples, rows: Tensor) -> Tensor:
        if not self.qa:
            return super().loss(outputs, examples, rows)
        outputs = _masked(outputs, examples.inputs[_ALLOWED][rows]).transpose(1, 2).flatten(0, 1)
        return F.cross_entropy(outputs, examples.labels[rows].flatten())

    @cached_property
    def features(self) -> dict[str, Tensor]:
        if self.qa:
            raise HoldfastError(
                "Question answering does not support probes. Choose training: finetune."
            )
        return super().features

    def predictions(self, outputs: dict[str, Tensor]) -> dict[str, Predictions]:
        """Answers and scores from logits [n,N,2] of each set, or as for images."""
        if not self.qa:
            return super().predictions(outputs)
        spans = {}
        for name, of_tokens in outputs.items():
            logits = _masked(of_tokens, self.sets[name].inputs[_ALLOWED]).double().numpy()
            spans[name] = logits[..., 0], logits[..., 1]
        labels = self.sets[VALIDATION].labels.numpy()
        temperatures = fit_span_temperatures(*spans[VALIDATION], labels)
        predictions = {}
        for name, (starts, ends) in spans.items():
            answers = best_answers(starts, ends)
            scores: dict[str, np.ndarray] = {}
            for end, both in (("", (1.0, 1.0)), ("_T", temperatures)):
                scores[f"confidence{end}"] = span_probability(starts, ends, answers, both)
                scores[f"entropy{end}"] = span_negative_entropy(starts, ends, both)
            predictions[name] = self.sets[name].predicted(answers, scores)
        return predictions


def _masked(logits: Tensor, allowed: Tensor) -> Tensor:
    """Logits [B,N,2] with -inf where no answer may begin or end."""
    return logits.masked_fill(~allowed[..., None], -torch.inf)


class _TextModel(nn.Module):
    """A language model with a head on every token, or on one token per example.

    That is the first token if it stands for the sentence, otherwise the last.
    """

    def __init__(self, base: nn.Module, head: nn.Module, every: bool, first: bool) -> None:
        super().__init__()
        self.base, self.head, self.every, self.first = base, head, every, first

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        """Outputs [B,C], or [B,N,2] of every token."""
        hidden = self.base(**tokens).last_hidden_state
        if not self.every:
            last = tokens["attention_mask"].sum(1) - 1
            hidden = hidden[:, 0] if self.first else hidden[torch.arange(len(hidden)), last]
        return self.head(hidden)


@lru_cache(maxsize=1)
def _language_model(name: str) -> tuple[nn.Module, Any]:
    """Load a model without head and its tokenizer, from the hub or a folder."""
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError:
        raise HoldfastError(_MISSING) from None
    try_hub(name)
    try:
        tokenizer, model = AutoTokenizer.from_pretrained(name), AutoModel.from_pretrained(name)
    except Exception as error:  # errors of the hub, files or formats
        raise HoldfastError(
            f"Cannot load the language model {name!r} ({reason(error)}). Download it on another machine "
            "and pass its folder."
        ) from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "right"
    return model.eval(), tokenizer


def _read_texts(config: dict[str, Any], qa: bool, tokenizer: Any, seed: int) -> Examples:
    """Load `examples` examples (default: all) of a dataset, starting at `first` in an order by the seed.

    The other entries are those of `datasets.load_dataset` (path, name, split, data_files), `columns` (the
    columns of the two texts; default: premise and hypothesis, or question and context), and `length` in
    tokens.
    """
    try:
        from datasets import load_dataset
    except ImportError:
        raise HoldfastError(_MISSING) from None
    arguments = {key: value for key, value in config.items() if key not in _SETTINGS}
    arguments.setdefault("split", "train")
    try:
        data = load_dataset(**arguments)
    except Exception as error:  # errors of the hub, files or formats
        raise HoldfastError(
            f"Cannot load the data {arguments} ({reason(error)}). Check path, name and split."
        ) from error
    columns = config.get("columns", ["question", "context"] if qa else ["premise", "hypothesis"])
    needed = [*columns, "answers" if qa else "label"]
    if missing := [name for name in needed if name not in data.column_names]:
        raise HoldfastError(
            f"The data {arguments} have no column {missing[0]!r}. Choose `columns` from "
            f"{data.column_names}."
        )
    first = config.get("first", 0)
    count = min(config.get("examples", len(data)), len(data) - first)
    if count < 1:
        raise HoldfastError(
            f"first={first} exceeds the {len(data)} examples of {arguments}. Choose a smaller `first`."
        )
    ids = permuted(torch.arange(first, first + count), len(data), 5, seed)
    rows = data.select(ids.tolist())
    first_texts, second_texts = (list(rows[name]) for name in columns)
    tokens = tokenizer(
        first_texts,
        second_texts,
        truncation="only_second",
        max_length=config.get("length", _LENGTH),
        padding="max_length",
        return_offsets_mapping=True,
        return_tensors="np",
    )
    offsets = tokens.pop("offset_mapping")
    second = np.array([[part == 1 for part in tokens.sequence_ids(k)] for k in range(count)])
    inputs = {name: torch.as_tensor(np.asarray(values)) for name, values in tokens.items()}
    if qa:
        answers = list(rows["answers"])
        spans = [_span(a, o, s) for a, o, s in zip(answers, offsets, second, strict=True)]
        second[:, 0] = True  # stands for an answer that was cut off
        return Examples(inputs | {_ALLOWED: torch.from_numpy(second)}, torch.tensor(spans), ids)
    labels = torch.tensor(rows["label"])
    known = labels >= 0  # in SNLI, -1 means that annotators disagree
    return Examples({k: v[known] for k, v in inputs.items()}, labels[known], ids[known])


def _span(answers: dict[str, Any], offsets: np.ndarray, context: np.ndarray) -> tuple[int, int]:
    """The first and last token of the first answer; (0, 0) if the answer was cut off."""
    if not len(answers["answer_start"]):
        return 0, 0
    begin = answers["answer_start"][0]
    end = begin + len(answers["text"][0])
    inside = np.flatnonzero(context & (offsets[:, 1] > begin) & (offsets[:, 0] < end))
    whole = len(inside) and offsets[inside[0], 0] <= begin and offsets[inside[-1], 1] >= end
    return (int(inside[0]), int(inside[-1])) if whole else (0, 0)
