"""Texts of an ensemble as tokens: pairs of sentences with a class, or questions with an answer."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ... import HoldfastError
from ...datamodules.counter import permuted
from ...files import reason

LENGTH = 384  # tokens, as is usual for SQuAD
MISSING = "Text needs transformers and datasets. Run: pip install 'holdfast[text]'."


class Texts(NamedTuple):
    """Examples as tokens."""

    tokens: dict[str, Tensor]  # inputs of the model, int64 [n,N] each
    allowed: Tensor  # whether an answer may begin or end at a token, bool [n,N]
    labels: Tensor  # int64 [n] for classes, [n,2] for answers
    ids: Tensor  # positions in the dataset

    def at(self, rows: Tensor) -> "Texts":
        """The examples in these rows."""
        tokens = {name: own[rows] for name, own in self.tokens.items()}
        return Texts(tokens, self.allowed[rows], self.labels[rows], self.ids[rows])


def load_texts(config: dict[str, Any], task: str, tokenizer: Any, seed: int) -> Texts:
    """Load `examples` examples (default: all) of a dataset, starting at `first` in an order by the seed.

    The other entries are those of `datasets.load_dataset` (path, name, split, data_files), `columns` (the
    columns of the two texts; default: premise and hypothesis, or question and context), and `length` in
    tokens.
    """
    try:
        from datasets import load_dataset
    except ImportError:
        raise HoldfastError(MISSING) from None
    own = {"first", "examples", "columns", "length"}
    arguments = {key: value for key, value in config.items() if key not in own}
    try:
        data = load_dataset(**{"split": "train", **arguments})
    except Exception as error:  # errors of the hub, files or formats
        raise HoldfastError(
            f"Cannot load the data {arguments} ({reason(error)}). Check path, name and split."
        ) from error
    qa = task == "qa"
    columns = config.get("columns", ["question", "context"] if qa else ["premise", "hypothesis"])
    needed = [*columns, "answers" if qa else "label"]
    if missing := [name for name in needed if name not in data.column_names]:
        raise HoldfastError(
            f"The data {arguments} have no column {missing[0]!r}. Choose `columns` from "
            f"{data.column_names}."
        )
    first, count = config.get("first", 0), config.get("examples", len(data))
    count = min(count, len(data) - first)
    if count < 1:
        raise HoldfastError(
            f"first={first} exceeds the {len(data)} examples of {arguments}. Choose a smaller `first`."
        )
    ids = permuted(torch.arange(first, first + count), len(data), 5, seed)
    rows = data.select(ids.tolist())
    length = config.get("length", LENGTH)
    found = tokenizer(
        *(list(rows[name]) for name in columns),
        **{"truncation": "only_second", "max_length": length, "padding": "max_length"},
        **{"return_offsets_mapping": True, "return_tensors": "np"},
    )
    offsets = found.pop("offset_mapping")
    second = np.array([[part == 1 for part in found.sequence_ids(k)] for k in range(count)])
    tokens = {name: torch.as_tensor(np.asarray(own)) for name, own in found.items()}
    if qa:
        answers = list(rows["answers"])
        spans = [span(a, o, s) for a, o, s in zip(answers, offsets, second, strict=True)]
        second[:, 0] = True  # stands for an answer that was cut off
        return Texts(tokens, torch.from_numpy(second), torch.tensor(spans), ids)
    kept = torch.tensor(rows["label"]) >= 0  # in SNLI, -1 means that annotators disagree
    return Texts(tokens, torch.from_numpy(second), torch.tensor(rows["label"]), ids).at(kept)


def span(answers: dict[str, Any], offsets: np.ndarray, context: np.ndarray) -> tuple[int, int]:
    """The first and last token of the first answer; (0, 0) if the answer was cut off."""
    if not len(answers["answer_start"]):
        return 0, 0
    begin = answers["answer_start"][0]
    end = begin + len(answers["text"][0])
    inside = np.flatnonzero(context & (offsets[:, 1] > begin) & (offsets[:, 0] < end))
    whole = len(inside) and offsets[inside[0], 0] <= begin and offsets[inside[-1], 1] >= end
    return (int(inside[0]), int(inside[-1])) if whole else (0, 0)
