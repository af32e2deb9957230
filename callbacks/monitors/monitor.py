"""Monitors: an alarm or a verdict from the logits that a run scores, without labels."""

from abc import abstractmethod
from collections import deque
from typing import Any

import numpy as np
import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor

from ... import HoldfastError, in_range
from ...labelled_images import LabelledImages
from ..estimators.estimator import source_outputs
from ..finite_images import finite_images
from ..functional.sequences import Bets, Running, betted, exceeds, lower_bound, noted
from ..functional.suitability import INCONCLUSIVE, SUITABLE, Sample, non_inferiority
from ..observers.observer import undisturbed
from ..protocols import Adapting, method_of
from .alarm import Alarming
from .reference import Reference

Array = np.ndarray
PROXIES, RULES, UNITS = ("confidence", "concentration"), ("bets", "running"), ("image", "batch")
MEMORY = 0.9  # of the average class shares from which the most frequent class is taken


class Monitor(Alarming):
    """Compares the scored logits with a reference, batch by batch, and may raise an alarm.

    In a Trainer it is a callback; in a custom loop, `Watch` takes it among its `monitors`. Without
    either, call `before_step(method)` before each step and `note(logits)` after it. The reference
    comes from labelled `source` images, or is the `reference` that an earlier run has saved;
    `RiskMonitor` can also take it from the stream's start.

    Args:
        source: labelled images that the model was not trained on.
        images: their number; a fixed random sample.
        reference: a fitted reference, in place of the source.
        alpha: level of the alarm.
    """

    def __init__(
        self,
        source: LabelledImages | None = None,
        images: int = 2000,
        reference: Reference | None = None,
        alpha: float = 0.05,
    ) -> None:
        in_range(1e-9, 0.5, alpha=alpha)
        self.source, self.alpha = source, alpha
        self.images = images if source is None else min(images, len(source))
        self.reference = reference  # the argument as passed
        self._found = reference

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        with trainer.precision_plugin.test_step_context():
            self.prepare(method_of(pl_module))

    def prepare(self, method: Adapting) -> None:
        """Fit the reference to the method's outputs on the source images, before its first step.

        Raises:
            HoldfastError: if there is neither a source nor a reference.
        """
        if self._found is None and self.source is not None:
            self._found = self.fit(method, self.source)

    def fit(self, method: Adapting, source: LabelledImages) -> Reference:
        """The reference from the method's current outputs on the source images."""
        with undisturbed(next(method.predictor.parameters()).device):
            found = source_outputs(method, source, self.images, self.name)
        return Reference.fit(*(part.numpy() for part in found))

    def before_step(self, method: Adapting) -> None:
        super().before_step(method)
        self.prepare(method)

    def note(self, logits: Tensor) -> bool:
        if self._method is None:  # logits alone are enough
            self.judge(None, logits)
            return self.alarm
        return super().note(logits)

    def judge(self, method: Adapting | None, logits: Tensor) -> None:
        logits = logits.detach()[finite_images(logits)]
        if len(logits):
            self._note(logits.float())

    @abstractmethod
    def _note(self, logits: Tensor) -> None:
        """Process the finite logits of at least one image."""

    def fitted(self) -> Reference:
        """The reference.

        Raises:
            HoldfastError: if there is none.
        """
        if self._found is None:
            raise HoldfastError(
                f"{self.name} has no reference. Pass source=IMAGES and call before_step(method) before the "
                "first step (Watch and Trainer do), or pass reference=Reference.load(FILE)."
            )
        return self._found

    def state_dict(self) -> dict[str, Any]:
        return {"reference": None if self._found is None else self._found.as_json()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if state_dict["reference"] is not None:
            self._found = Reference.read(state_dict["reference"])


class RiskMonitor(Monitor):
    """Raises an alarm when a share of errors, estimated without labels, exceeds the source's
    (Schirmer et al. 2025).

    An image counts as 1 if its prediction is doubtful ("confidence") or is the most frequent class of
    the batches before ("concentration", for collapse), otherwise as 0. The alarm is raised,
    and stays, when a lower bound of the mean exceeds the reference's upper bound plus `epsilon`
    (`Reference.limit`); each bound has half of `alpha`. If no image's conditional probability of counting
    exceeds the reference's, the probability that there is ever an alarm is at most `alpha`, whether the
    model adapts or not. See `Reference.limit` for when an alarm means a higher risk.

    Args:
        source: labelled source images, as in `Monitor`.
        images: number of source images to use.
        reference: a fitted `Reference`, instead of `source`.
        alpha: maximum probability of a false alarm.
        start: number of initial batches that serve as the reference, without source and reference.
        proxy: "confidence" or "concentration".
        rule: "running", the paper's, bounds the mean since the beginning; "bets" tests whether any mean
            since then was higher, which detects a late change sooner (see `functional.sequences.betted`).
        epsilon: tolerated share of errors beyond the source's.
        unit: "image", or "batch" where images of one batch depend on each other (correlated labels).
        refit: batches after which the threshold is fitted again to the adapted model's answers on the
            source images, as in the paper; None: never. It adds a forward pass of these images.

    Columns of the record: `alarm` (1 or 0), `share` (mean so far), `low` (its lower bound), `limit`.
    """

    def __init__(
        self,
        source: LabelledImages | None = None,
        images: int = 2000,
        reference: Reference | None = None,
        alpha: float = 0.05,
        start: int = 50,
        proxy: str = "confidence",
        rule: str = "bets",
        epsilon: float = 0.0,
        unit: str = "image",
        refit: int | None = None,
    ) -> None:
        super().__init__(source, images, reference, alpha)
        in_range(1, start=start, refit=refit)
        in_range(0, 1, epsilon=epsilon)
        known = {"proxy": (proxy, PROXIES), "rule": (rule, RULES), "unit": (unit, UNITS)}
        for name, (value, values) in known.items():
            if value not in values:
                raise HoldfastError(f"{name}={value}: choose from {', '.join(values)}.")
        if refit is not None and source is None:
            raise HoldfastError(f"refit={refit} needs labelled images. Pass source=IMAGES as well.")
        self.start, self.proxy, self.rule, self.unit = start, proxy, rule, unit
        self.epsilon, self.refit = epsilon, refit
        self.threshold: float | None = None  # of the adapted model, where it is fitted again
        self.begun: list[tuple[Tensor, Tensor]] = []  # confidences and classes of the start
        self.shares: Tensor | None = None  # of the classes, [C], as an average over batches
        self.restart()

    def restart(self) -> None:
        """Clear the alarm and start again, at level alpha."""
        super().restart()
        self.running, self.bets, self.steps = Running(), None, 0

    bets: Bets | None

    @property
    def limit(self) -> float:
        """The share above which there is an alarm."""
        return min(1.0, self.fitted().limit(self.proxy, self.alpha / 2) + self.epsilon)

    def before_step(self, method: Adapting) -> None:
        """Fit the threshold again if that is due."""
        super().before_step(method)
        if self.refit and self.steps and self.steps % self.refit == 0 and self.source is not None:
            self.threshold = self.fit(method, self.source).threshold

    def _note(self, logits: Tensor) -> None:
        confidence, classes = logits.softmax(1).max(1)
        number = logits.shape[1]
        if self._found is None and self.source is None:
            self._begin(confidence, classes, number)
            return
        counts = torch.bincount(classes, minlength=number) / len(classes)
        if self.proxy == "confidence":
            limit = self.fitted().threshold if self.threshold is None else self.threshold
            values = confidence <= limit
        elif self.shares is None:
            values = None
        else:
            values = classes == self.shares.argmax()
        self.shares = counts if self.shares is None else torch.lerp(counts, self.shares, MEMORY)
        if values is not None:
            found = values.double().cpu().numpy()
            self._count(found if self.unit == "image" else found.mean(keepdims=True))

    def _begin(self, confidence: Tensor, classes: Tensor, number: int) -> None:
        """Add a batch to the start, which becomes the reference when it is complete."""
        self.begun.append((confidence.cpu(), classes.cpu()))
        if len(self.begun) == self.start:
            parts = [torch.cat(part).numpy() for part in zip(*self.begun, strict=True)]
            order = np.random.default_rng(0).permutation(len(parts[0]))  # halves are alike
            self._found = Reference.from_answers(parts[0][order], parts[1][order], number)
            self.begun = []

    def _count(self, values: Array) -> None:
        """Update the bounds with numbers in [0,1], one for each unit."""
        limit, level = self.limit, self.alpha / 2
        self.steps += 1
        self.running = noted(self.running, values)
        if self.rule == "bets":
            self.bets = betted(self.bets or Bets(limit), values)
            self.alarm |= bool(self.bets.highest >= 1 / level)
        else:
            self.alarm |= bool(exceeds(self.running, limit, level))
        low = lower_bound(self.running, level)
        share = self.running.mean
        self.details = {"alarm": float(self.alarm), "share": share, "low": low, "limit": limit}

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "running": list(self.running),
            "bets": self.bets and self.bets.as_json(),
            "alarm": self.alarm,
            "steps": self.steps,
            "threshold": self.threshold,
            "begun": self.begun,
            "shares": self.shares,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self.running = Running(*state_dict["running"])
        self.bets = state_dict["bets"] and Bets.read(state_dict["bets"])
        self.alarm, self.steps = state_dict["alarm"], state_dict["steps"]
        self.threshold, self.shares = state_dict["threshold"], state_dict["shares"]
        self.begun = list(state_dict["begun"])


class Suitability(Monitor):
    """Tests whether less than a margin of accuracy is lost: SUITABLE or INCONCLUSIVE (Pouget et al. 2025).

    A regression from outputs to correctness, fitted to labelled source images, gives each image of the
    last `window` batches a probability of being right; a one-sided test, whose variance includes that of
    the regression, compares their mean with that of other source images. The level holds for each
    window, not for all of them at once, and only if the probability of being right given the outputs is the
    same as on the source: a shift may change it, and over-confidence does.

    Args:
        source: labelled source images, as in `Monitor`.
        images: number of source images to use.
        reference: a fitted `Reference`, instead of `source`.
        alpha: maximum share of windows that are called SUITABLE although more than the margin is lost.
        margin: tolerated loss of accuracy, in [0,1].
        window: number of batches per test.

    Columns of the record: `suitable` (1 or 0), `p`, `accuracy` (mean probability of being right).
    """

    verdict = ""  # of the last complete window

    def __init__(
        self,
        source: LabelledImages | None = None,
        images: int = 2000,
        reference: Reference | None = None,
        alpha: float = 0.05,
        margin: float = 0.05,
        window: int = 10,
    ) -> None:
        super().__init__(source, images, reference, alpha)
        in_range(0, 1, margin=margin)
        in_range(1, window=window)
        self.margin, self.window = margin, window
        self.parts: deque[Sample] = deque(maxlen=window)

    def prepare(self, method: Adapting) -> None:
        super().prepare(method)
        self.fitted()

    def fitted(self) -> Reference:
        reference = super().fitted()
        if reference.correctness is None:
            raise HoldfastError(
                "Suitability needs a reference with labelled images, some right and some wrong. Pass more "
                "source images, or use RiskMonitor."
            )
        return reference

    def _note(self, logits: Tensor) -> None:
        reference = self.fitted()
        assert reference.correctness is not None
        assert reference.sample is not None
        self.parts.append(reference.correctness.sample(logits.cpu().numpy()))
        own = sum(self.parts, Sample())
        self.details = {"accuracy": own.mean}
        if len(self.parts) == self.window:
            covariance = reference.correctness.covariance
            p = non_inferiority(own, reference.sample, self.margin, covariance)
            self.verdict = SUITABLE if p <= self.alpha else INCONCLUSIVE
            self.alarm = self.verdict != SUITABLE
            self.details = {**self.details, "p": p, "suitable": float(not self.alarm)}

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "parts": [list(p) for p in self.parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self.parts = deque((Sample(*p) for p in state_dict["parts"]), maxlen=self.window)
