"""LabelBudget: accuracy from labels for a few images of each batch, with a valid interval."""

from collections import deque
from typing import Any

import numpy as np
import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor

from ... import HoldfastError, in_range
from ..functional.labelled import (
    UNIFORM,
    Interval,
    chances,
    importance,
    weighted_interval,
    window_interval,
)
from ..functional.sequences import Bets, betted
from ..observers.observer import Observer
from ..protocols import method_of
from .reference import Reference

Array = np.ndarray


class LabelBudget(Observer):
    """Requests labels of `labels` images of each batch after prediction, and estimates the accuracy.

    Prequential: labels are compared with the logits that were scored, before the model has adapted to
    them further. With even draws, the interval is Clopper and Pearson's over the window. With `active`,
    uncertain images (1 - largest probability) are drawn more often, with replacement, and the estimate is 1
    minus the importance-weighted error, which is unbiased; its interval is valid but wider unless errors
    are rare and concentrated where the model is uncertain. In a Trainer the labels are the stream's; in
    a custom loop, call `choose` and then `note`:

    >>> budget = LabelBudget(labels=2)
    >>> chosen = budget.choose(torch.tensor([[9.0, 0.0], [0.0, 9.0], [9.0, 0.0]]), seed=0)
    >>> interval = budget.note(torch.tensor([True, False]))
    >>> interval.mean
    0.5

    Args:
        labels: number for each batch; all images of a smaller batch.
        window: batches.
        active: draw by uncertainty.
        level: confidence level of the interval.
        reference: from labelled source images; then `alarm` is raised, and stays, when bets (see
            `functional.sequences.betted`) show a higher error than the source's. The probability of
            ever raising a false alarm is at most 1 - level, whether or not the model adapts, and
            whatever its confidence.

    Columns of the record: `accuracy`, `low`, `high`; `alarm` with a reference.
    """

    alarm = False
    bets: Bets | None = None

    def __init__(
        self,
        labels: int = 20,
        window: int = 10,
        active: bool = False,
        level: float = 0.95,
        reference: Reference | None = None,
    ) -> None:
        in_range(1, labels=labels, window=window)
        in_range(0.5, 1 - 1e-9, level=level)
        self.labels, self.window, self.active, self.level = labels, window, active, level
        self.reference = reference
        self.parts: deque[tuple[list[float], list[float]]] = deque(maxlen=window)
        self.weights = np.empty(0)  # of the images chosen last

    def choose(self, logits: Tensor, seed: int | list[int]) -> Tensor:
        """Positions [m] in the batch with these scored logits [B,C] of the images to label."""
        random, count = np.random.default_rng(seed), len(logits)
        if self.active:
            doubt = 1 - logits.softmax(1).amax(1).double().cpu().numpy()
            chance = chances(np.nan_to_num(doubt, nan=1.0))
            chosen = random.choice(count, self.labels, p=chance)
            self.weights = importance(chance)[chosen]
        else:
            chosen = random.permutation(count)[: self.labels]
            self.weights = np.ones(len(chosen))
        return torch.from_numpy(chosen)

    def note(self, correct: Tensor) -> Interval:
        """Record whether the predictions [m] of the last choice are correct; returns the window's estimate.

        Raises:
            HoldfastError: if their number differs from that of the chosen images.
        """
        if len(correct) != len(self.weights):
            raise HoldfastError(
                f"{len(self.weights)} images were chosen and {len(correct)} labelled. Call note once after "
                "each choose, with one value for each chosen image."
            )
        self.parts.append((correct.double().tolist(), self.weights.tolist()))
        correct_, weights = (np.concatenate(part) for part in zip(*self.parts, strict=True))
        if self.active:
            found = weighted_interval(1 - correct_, weights, self.level)
        else:
            found = window_interval(correct_, self.level)
        self.details = {"accuracy": found.mean, "low": found.low, "high": found.high}
        if self.reference is not None:
            alpha, scale = (1 - self.level) / 2, UNIFORM if self.active else 1.0
            bets = self.bets or Bets(scale * self.reference.limit("labels", alpha))
            self.bets = betted(bets, scale * self.weights * (1 - correct.double().cpu().numpy()))
            self.alarm = bool(self.bets.highest >= 1 / alpha)
            self.details = {**self.details, "alarm": float(self.alarm)}
        return found

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *_: Any
    ) -> None:
        known = (outputs["labels"] >= 0).nonzero().squeeze(1)
        if not len(known):
            self.details = {}
            return
        method = method_of(pl_module)
        chosen = self.choose(outputs["logits"][known], [method.seed, method.step_count])
        self.note(outputs["correct"][known][chosen.to(known.device)])

    def state_dict(self) -> dict[str, Any]:
        return {"parts": list(self.parts), "bets": self.bets and self.bets.as_json()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.parts = deque(state_dict["parts"], maxlen=self.window)
        self.bets = state_dict["bets"] and Bets.read(state_dict["bets"])
        self.alarm = self.bets is not None and bool(self.bets.highest >= 2 / (1 - self.level))
