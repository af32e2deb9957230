"""Runs of real methods on a stream of scanned digits, and all that can be seen of them."""

import inspect
from typing import Any

import torch
from common import plain_trainer
from lightning.pytorch import Callback
from torch import Tensor
from torch.optim import SGD

from holdfast import methods
from holdfast.callbacks import Observer
from holdfast.datamodules import Corrupted, Digits
from holdfast.methods import TTAMethod

BATCH, STEPS = 16, 6


def stream(start: int = 0) -> Corrupted:
    options: dict[str, Any] = {"each": 48, "batch_size": BATCH, "num_workers": 0, "start": start}
    return Corrupted(Digits(), ["fog", "contrast"], [3], **options)


def fast(name: str) -> TTAMethod:
    """A method that changes visibly with every step."""
    torch.manual_seed(0)
    kind: Any = getattr(methods, name)
    bases = [base for base in kind.__mro__ if issubclass(base, TTAMethod)]
    accepted = {name for base in bases for name in inspect.signature(base).parameters}
    kwargs: dict[str, Any] = {"optimizer": lambda params: SGD(params, lr=0.05, momentum=0.9)}
    kwargs |= {"entropy_factor": 1.0, "redundancy": 2.0, "confidence": 0.0, "every": 4}
    kwargs |= {"views": 2, "warm_up": 16}
    return kind("digits", **{key: value for key, value in kwargs.items() if key in accepted})


class Witness(Callback):
    """Stores the logits, resets and columns of each batch."""

    def __init__(self) -> None:
        self.logits: list[Tensor] = []
        self.columns: list[dict[str, float]] = []

    def on_test_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:
        self.logits.append(outputs["logits"])
        watching = [c for c in trainer.callbacks if isinstance(c, Observer)]
        row = {name: value for c in watching for name, value in c.columns().items()}
        self.columns.append({**row, "resets": pl_module.reset_count})


def run(
    method: TTAMethod, attached: list[Callback], start: int = 0, **options: Any
) -> tuple[list[Tensor], list[dict[str, float]], dict[str, float]]:
    """Logits and columns of each batch from this image on, and what is logged about estimates."""
    witness = Witness()
    trainer = plain_trainer(callbacks=[*attached, witness], **options)
    (logged,) = trainer.test(method, stream(start), verbose=False)
    # A test counts its own images from 0.
    scores = {"nll", "ece"} | {name for name in logged if "accuracy" in name}
    about = {name: value for name, value in logged.items() if name not in scores}
    return witness.logits, witness.columns, about


def flat(state: Any, prefix: str = "") -> dict[str, Any]:
    """Everything in nested mappings and sequences by its path, comparable by ==."""
    if isinstance(state, dict):
        items = [(str(key), value) for key, value in state.items()]
    elif isinstance(state, (list, tuple)):
        items = [(str(number), value) for number, value in enumerate(state)]
    else:
        if not isinstance(state, Tensor):
            return {prefix: str(state)}
        bits = state.reshape(-1).view(torch.uint8).numpy().tobytes()
        return {prefix: (state.dtype, state.shape, bits)}
    return {k: v for name, value in items for k, v in flat(value, f"{prefix}.{name}").items()}
