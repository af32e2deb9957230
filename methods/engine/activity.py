"""Detects methods that never update their model, and warns about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor

if TYPE_CHECKING:
    from .base import TTAMethod

PATIENCE = 50  # steps without an update before the warning


class Activity:
    """How many images the first steps of a run selected, and whether any step moved a parameter."""

    def __init__(self) -> None:
        self.steps = 0  # steps in which an update was due, up to PATIENCE
        self.selected: Any = None  # images in these steps; None if the method does not select
        self.moved = False

    def has_moved(self, method: TTAMethod) -> bool:
        """Whether a parameter differs from the source's now, or did at the last call."""
        if not self.moved:
            differ = [(now != source).any() for now, source in method.parameters_with_source()]
            self.moved = bool(differ) and bool(torch.stack(differ).any())
        return self.moved

    def after_step(self, method: TTAMethod, logits: Tensor) -> None:
        """Count a step whose logits [B,C] were scored; warn once, after the first PATIENCE."""
        due = method.optimizer is not None and not method.collecting
        if not due or self.steps >= PATIENCE or "not_finite" in method.trace:
            return
        self.steps += 1
        if "selected" in method.trace:
            self.selected = method.trace["selected"] + (
                0 if self.selected is None else self.selected
            )
        if self.steps == PATIENCE:
            self.warn(method, logits)

    def warn(self, method: TTAMethod, logits: Tensor) -> None:
        """Warn if no image was selected or no parameter changed, with the entropies of logits [B,C]."""
        name = type(method).__name__
        if self.selected is not None and not self.selected:
            rank_zero_warn(
                f"{name} selected no image in the first {PATIENCE} steps, so the model is not updated. "
                f"{method.criterion(logits)}"
            )
        elif not self.has_moved(method):
            rank_zero_warn(
                f"{name} changed no parameter in the first {PATIENCE} steps. Check the optimizer's "
                "learning rate and the loss."
            )

    def state(self) -> tuple[int, int | None, bool]:
        """The counts, for a checkpoint."""
        return self.steps, None if self.selected is None else int(self.selected), self.moved

    def load(self, state: tuple[int, int | None, bool]) -> None:
        """Continue from the counts that `state` returned."""
        self.steps, self.selected, self.moved = state
