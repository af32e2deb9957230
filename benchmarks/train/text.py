"""Ensembles of language models for text classification and extractive question answering.

The file is that of `holdfast ensemble`, with `task` in `data` and Hugging Face datasets instead of images:

data:
  task: qa                                   # or classification
  train: {path: rajpurkar/squad, split: train, examples: 20000}
  validation: {path: rajpurkar/squad, split: validation}
  shifts:
    amazon: {path: json, data_files: amazon.jsonl}     # SQuAD-Shifts, in SQuAD's columns
ensembles:
  gpt2: {base: openai-community/gpt2, training: finetune, diversity: {head: [1]}, ...}
"""

import copy
import json
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ... import HoldfastError
from ...callbacks.functional.confidence import fit_temperature
from ...callbacks.functional.spans import fit_span_temperatures
from ...files import reason
from ..results.predictions import VALIDATION, save
from ..suites.variants import expanded
from .bases import with_lora
from .members import Member, batches, new_head, probe, scored, scored_spans
from .text_data import MISSING, Texts, load_texts

TASKS = ("classification", "qa")
PIECE = 32  # number of examples predicted at a time


class TextModel(nn.Module):
    """A language model with a linear head on one token per example (classes) or on every token."""

    def __init__(self, base: nn.Module, head: nn.Linear, task: str, first: bool) -> None:
        super().__init__()
        self.base, self.head, self.task, self.first = base, head, task, first

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        """Logits [B,C] of classes, or [B,N,2] of first and last tokens."""
        return self.head(self.features(tokens))

    def features(self, tokens: dict[str, Tensor]) -> Tensor:
        """Features [B,D] of the first token if it is a sentence token, otherwise of the last."""
        hidden = self.base(**tokens).last_hidden_state
        if self.task == "qa" or self.first:
            return hidden if self.task == "qa" else hidden[:, 0]
        return hidden[torch.arange(len(hidden)), tokens["attention_mask"].sum(1) - 1]


@lru_cache(maxsize=1)
def language_model(name: str) -> tuple[nn.Module, Any]:
    """Load a model without head and its tokenizer, from the hub or a folder."""
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError:
        raise HoldfastError(MISSING) from None
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


@lru_cache(maxsize=1)
def text_data(config: str, base: str, seed: int) -> dict[str, Texts]:
    """All sets of a seed, tokenized for the base: "train", "validation" and the shifts."""
    data, tokenizer = json.loads(config), language_model(base)[1]
    if data["task"] not in TASKS:
        raise HoldfastError(f"task {data['task']!r} is unknown. Choose one of {', '.join(TASKS)}.")
    shifts = {variant.name: variant.config for variant in expanded(data["shifts"])}
    sets = {"train": data["train"], VALIDATION: data["validation"], **shifts}
    return {k: load_texts(own, data["task"], tokenizer, seed) for k, own in sets.items()}


def train_text(job: Any, missing: list[Member], settings: dict[str, Any]) -> None:
    """Train the members of a job and write their predictions."""
    base, tokenizer = language_model(job.config["base"])
    task, training = job.data["task"], job.config["training"]
    sets = text_data(json.dumps(job.data), job.config["base"], job.seed)
    train = sets["train"]
    classes = 2 if task == "qa" else int(train.labels.max()) + 1
    first = tokenizer.cls_token is not None
    if training == "probe" and task == "qa":
        raise HoldfastError(
            "Question answering does not support probes. Choose training: finetune."
        )
    weights: Tensor | None = None
    if training == "probe":
        frozen = TextModel(base, nn.Linear(1, 1), task, first).eval()
        features = {k: predicted(frozen.features, own) for k, own in sets.items()}
        scale = features["train"].square().mean().sqrt()
        features = {k: own / scale for k, own in features.items()}
        weights = probe(missing, features["train"], train.labels, classes, settings)
    for number, member in enumerate(missing):
        if weights is not None:
            logits = {k: features[k] @ weights[number, :-1] + weights[number, -1] for k in features}
        else:
            model = finetuned(member, training, base, train, (task, first, classes), settings)
            logits = {k: predicted(model, own) for k, own in sets.items() if k != "train"}
        write_text(job, member, task, sets, logits)


def finetuned(
    member: Member,
    training: str,
    base: nn.Module,
    train: Texts,
    kind: tuple[str, bool, int],
    settings: dict[str, Any],
) -> TextModel:
    """Train all weights, or LoRA's, by AdamW, without dropout so that only the diversity source varies."""
    task, first, classes = kind
    own = from_configuration(base, member.head) if training == "scratch" else copy.deepcopy(base)
    size = int(own.config.hidden_size)  # type: ignore[union-attr, arg-type]
    head = nn.Linear(size, classes)
    head.weight.data = new_head(member, size, classes, settings["init"]).T.contiguous()
    head.bias.data.zero_()
    body = with_lora(own) if training == "lora" else own
    model = TextModel(body, head, task, first).eval()  # type: ignore[arg-type]
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=settings["lr"], weight_decay=settings["weight_decay"])
    for rows in batches(member, len(train.ids), settings["batch"]):
        batch = train.at(rows)
        logits = model(batch.tokens)
        if task == "qa":
            logits = masked(logits, batch.allowed).transpose(1, 2).flatten(0, 1)
        loss = F.cross_entropy(logits, batch.labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def from_configuration(base: nn.Module, seed: int) -> nn.Module:
    """A copy of the model with new random weights."""
    from transformers import AutoModel

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoModel.from_config(base.config).eval()


def masked(logits: Tensor, allowed: Tensor) -> Tensor:
    """Logits [B,N,2] with -inf where no answer may begin or end."""
    return logits.masked_fill(~allowed[..., None], -torch.inf)


@torch.no_grad()
def predicted(model: Any, texts: Texts) -> Tensor:
    """The model's outputs [n,...] for all examples."""
    rows = torch.arange(len(texts.ids)).split(PIECE)
    return torch.cat([model(texts.at(part).tokens) for part in rows])


def write_text(
    job: Any, member: Member, task: str, sets: dict[str, Texts], logits: dict[str, Tensor]
) -> None:
    """Write the member's predictions and scores, with and without temperatures from validation data."""
    found = {}
    labels = sets[VALIDATION].labels.numpy()
    if task == "qa":
        spans = {k: masked(own, sets[k].allowed).double().numpy() for k, own in logits.items()}
        both = fit_span_temperatures(*ends(spans[VALIDATION]), labels)
        for k, own in spans.items():
            arrays = (sets[k].ids.numpy(), sets[k].labels.numpy())
            found[k] = scored_spans(*ends(own), both, *arrays)
    else:
        temperature = fit_temperature(logits[VALIDATION].numpy(), labels)
        for k in (k for k in logits if k != "train"):
            arrays = (sets[k].ids.numpy(), sets[k].labels.numpy())
            found[k] = scored(logits[k].numpy(), temperature, *arrays)
    save(job.file(member), found)


def ends(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split logits [n,N,2] into those of first and last tokens, [n,N] each."""
    return logits[..., 0], logits[..., 1]
