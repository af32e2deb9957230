"""RiskMonitor: an alarm when the share of errors exceeds the source's, with a bounded error rate."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import HoldfastError, in_range, one_of
from ..batch import LabelledImages
from ..files import read_json, write_json
from ..tensors import finite_images
from .alarm import Alarming
from .estimator import at_most, source_outputs
from .functional.confidence import max_confidence, probabilities
from .functional.sequences import (
    Bets,
    Onset,
    Running,
    betted,
    exact_upper,
    exceeds,
    followed,
    lower_bound,
    noted,
)
from .observer import undisturbed
from .protocols import Adapting

Array = np.ndarray
_FEWEST = 20  # images in each half of a reference
_LEVELS = np.arange(1, 100) / 100  # of bets, besides the limit
_MEMORY = 0.9  # of the average class shares from which the most frequent class is taken


@dataclass(frozen=True)
class Reference:
    """Outputs on held-out labelled source images, or on the trusted start of a stream.

    One half of the images gives the threshold; the other half gives the numbers to compare with, which are
    therefore not optimistic. A prediction is doubtful if its largest probability is at most `threshold`: in
    the first half, as many predictions are doubtful as are wrong (ATC's threshold) or, without labels, as
    are wrong according to the mean confidence.
    """

    images: int  # of the second half, as are the following
    threshold: float
    doubtful: int
    at_fault: int | None  # doubtful or wrong; None without labels
    largest_class: int  # predicted to be of the most frequent class
    classes: int

    @classmethod
    def fit(cls, logits: Array, labels: Array) -> "Reference":
        """From logits [n,C] and labels [n] of images that the model was not trained on, in random order.

        Raises HoldfastError if there are fewer than 40 images, or the logits are not finite.
        """
        classes, confidence = np.argmax(logits, 1), max_confidence(probabilities(logits))
        return cls.from_answers(confidence, classes, logits.shape[1], classes == labels)

    @classmethod
    def from_answers(
        cls, confidence: Array, classes: Array, number: int, correct: Array | None = None
    ) -> "Reference":
        """From largest probabilities [n] and predicted classes [n] out of `number`, in random order.

        correct: whether predictions are right [n]; None: unknown, as at the start of a stream.

        Raises HoldfastError if there are fewer than 40 images.
        """
        half = len(confidence) // 2
        if half < _FEWEST or not np.isfinite(confidence).all():
            raise HoldfastError(
                f"A reference needs {2 * _FEWEST} images with finite logits and has {len(confidence)}. "
                "Pass more images, or a model whose logits are finite."
            )
        fit, rest = confidence[:half], confidence[half:]
        share = 1 - (fit.mean() if correct is None else correct[:half].mean())
        threshold = float(np.sort(fit)[max(1, round(share * half)) - 1])
        doubtful = rest <= threshold
        return cls(
            images=len(rest),
            threshold=threshold,
            doubtful=int(doubtful.sum()),
            at_fault=None if correct is None else int((~correct[half:] | doubtful).sum()),
            largest_class=int(np.bincount(classes[half:]).max()),
            classes=number,
        )

    def limit(self, proxy: str, alpha: float) -> float:
        """The upper bound at level alpha that a monitored share is compared with.

        "confidence": of being doubtful or wrong where there are labels. As P(doubtful) is at most
        P(wrong) + P(doubtful and right), a share of doubtful predictions beyond it says that the risk
        exceeds the source's, unless right predictions have become more doubtful than they were on the
        source (the assumption of Schirmer et al. 2025). Without labels: of being doubtful.
        "concentration": of the class that is predicted most often, for all classes at once.
        """
        if proxy == "concentration":
            return exact_upper(self.largest_class, self.images, alpha / self.classes)
        counted = self.doubtful if self.at_fault is None else self.at_fault
        return exact_upper(counted, self.images, alpha)

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        write_json(Path(path), asdict(self))

    @classmethod
    def load(cls, path: str | Path) -> "Reference":
        """Read a file that `save` has written.

        Raises HoldfastError if the file is not such a reference.
        """
        content = read_json(Path(path))
        try:
            return cls(**content)
        except TypeError:
            raise HoldfastError(
                f"{path} does not contain a reference. Pass a file that Reference.save has written."
            ) from None


class RiskMonitor(Alarming):
    """Raises an alarm when errors, estimated without labels, exceed the source's (Schirmer et al. 2025).

    An image counts as 1 if its prediction is doubtful ("confidence") or is the most frequent class of
    the batches before ("concentration", for collapse), otherwise as 0. The alarm is raised,
    and stays, when a lower bound of the mean exceeds the reference's upper bound plus `epsilon`
    (`Reference.limit`); each bound has half of `alpha`. If no image's conditional probability of counting
    exceeds the reference's, the probability that there is ever an alarm is at most `alpha`, whether the
    model adapts or not. See `Reference.limit` for when an alarm means a higher risk.

    Args:
        source: labelled images that the model was not trained on.
        images: their number; a fixed random sample.
        reference: a fitted `Reference` that an earlier run has saved, instead of `source`.
        alpha: maximum probability of a false alarm.
        start: number of initial batches that serve as the reference, without source and reference.
        proxy: "confidence" or "concentration".
        rule: "running", the paper's, bounds the mean since the beginning; "bets" tests whether any mean
            since then was higher, which detects a late change sooner (see `functional.sequences.betted`).
        epsilon: tolerated share of errors beyond the source's.
        unit: "image", or "batch" where images of one batch depend on each other (correlated labels).
        refit: batches after which the threshold is fitted again to the adapted model's answers on the
            source images, as in the paper; None: never. It adds a forward pass of these images.

    Columns of the record: `alarm` (1 or 0); `since`, the image (with unit="batch", the batch) with which
    the evidence begins, 1 for "running"; `share`, the mean since; `low`, a lower bound at level alpha / 2,
    for "bets" the highest level, in whole points, that some mean has exceeded; `limit`. With an alarm,
    `low` is at least `limit`, and `reason` says so in one sentence.
    """

    STATE = ("alarm", "steps", "begun", "shares", "seen", "first", "since", "reason")
    bets: Bets | None
    seen = 0  # images so far, also before a `restart`

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
        in_range(1e-9, 0.5, alpha=alpha)
        in_range(1, start=start, refit=refit)
        in_range(0, 1, epsilon=epsilon)
        one_of("confidence", "concentration", proxy=proxy)
        one_of("bets", "running", rule=rule)
        one_of("image", "batch", unit=unit)
        if refit is not None and source is None:
            raise HoldfastError(f"refit={refit} needs labelled images. Pass source=IMAGES as well.")
        self.source, self.alpha = source, alpha
        self.images = images if source is None else at_most(images, source)
        self.reference = reference  # the argument as passed
        self._fitted = reference
        self.start, self.proxy, self.rule, self.unit = start, proxy, rule, unit
        self.epsilon, self.refit = epsilon, refit
        self.begun: list[tuple[Tensor, Tensor]] = []  # confidences and classes of the start
        self.shares: Tensor | None = None  # of the classes, [C], as an average over batches
        self.restart()

    def restart(self) -> None:
        """Clear the alarm and start again, at level alpha."""
        super().restart()
        self.running, self.bets, self.onset, self.steps = Running(), None, Onset(), 0
        self.first = self.since = 0  # images before those that count; where the evidence begins

    def before_step(self, method: Adapting) -> None:
        """Fit the reference to source images before the first step, and the threshold again if due."""
        super().before_step(method)
        due = self.refit and self.steps and self.steps % self.refit == 0
        if self.source is not None and (self._fitted is None or due):
            with undisturbed(next(method.predictor.parameters()).device):
                logits, labels = source_outputs(method, self.source, self.images, self.name)
            fitted = Reference.fit(logits.numpy(), labels.numpy())
            self._fitted = replace(self._fitted or fitted, threshold=fitted.threshold)

    def fitted(self) -> Reference:
        """The reference, with the threshold that was fitted last.

        Raises HoldfastError if there is none.
        """
        if self._fitted is None:
            raise HoldfastError(
                f"{self.name} has no reference. Pass source=IMAGES and call before_step(method) before the "
                "first step (Watch and Trainer do), or pass reference=Reference.load(FILE)."
            )
        return self._fitted

    @property
    def limit(self) -> float:
        """The share above which there is an alarm."""
        return min(1.0, self.fitted().limit(self.proxy, self.alpha / 2) + self.epsilon)

    def judge(self, logits: Tensor) -> None:
        self.first = self.first if self.running.n else self.seen
        self.seen += len(logits)
        logits = logits.detach()[finite_images(logits)].float()
        if not len(logits):
            return
        confidence, classes = logits.softmax(1).max(1)
        number = logits.shape[1]
        if self._fitted is None and self.source is None:
            self._begin(confidence, classes, number)
            return
        before, counts = self.shares, torch.bincount(classes, minlength=number) / len(classes)
        self.shares = counts if before is None else torch.lerp(counts, before, _MEMORY)
        if self.proxy == "confidence":
            self._count(confidence <= self.fitted().threshold)
        elif before is not None:
            self._count(classes == before.argmax())

    def _begin(self, confidence: Tensor, classes: Tensor, number: int) -> None:
        """Add a batch to the start, which becomes the reference when it is complete."""
        self.begun.append((confidence.cpu(), classes.cpu()))
        if len(self.begun) == self.start:
            parts = [torch.cat(part).numpy() for part in zip(*self.begun, strict=True)]
            order = np.random.default_rng(0).permutation(len(parts[0]))  # halves are alike
            self._fitted = Reference.from_answers(parts[0][order], parts[1][order], number)
            self.begun = []

    def _count(self, counted: Tensor) -> None:
        """Update the bounds with the images [B] that count."""
        values = counted.double().cpu().numpy()
        values = values if self.unit == "image" else values.mean(keepdims=True)
        limit, level = self.limit, self.alpha / 2
        self.steps += 1
        self.running = noted(self.running, values)
        if self.rule == "bets":
            low, share = self._bet(values, limit, level)
        else:
            self.alarm |= bool(exceeds(self.running, limit, level))
            low, share, self.since = lower_bound(self.running, level), self.running.mean, 1
        since = self.since + (self.first if self.unit == "image" else 0)
        evidence = {"since": since, "share": share, "low": low, "limit": limit}
        self.details = {"alarm": float(self.alarm), **evidence}
        if self.alarm and not self.reason:
            self.reason = (
                f"since {self.unit} {since:,} at least {100 * low:.1f} % of the answers are "
                f"{self._counted}; {100 * limit:.1f} % are tolerated (risk of a false alarm: "
                f"{100 * self.alpha:g} %)"
            )

    def _bet(self, values: Array, limit: float, level: float) -> tuple[float, float]:
        """Update the bets; returns the highest level that they refute, and the mean since the onset."""
        levels = np.r_[limit, _LEVELS]
        self.bets = betted(self.bets or Bets(levels), values[:, None].repeat(len(levels), 1))
        self.onset = followed(self.onset, values, limit)
        self.since, share = self.onset.best
        refuted = levels[self.bets.highest >= 1 / level]
        self.alarm |= limit in refuted
        return float(refuted.max(initial=0)), share

    @property
    def _counted(self) -> str:
        """What an answer that counts is."""
        if self.proxy == "concentration":
            return "of one class"
        return "doubtful" if self.fitted().at_fault is None else "wrong or doubtful"

    def state_dict(self) -> dict[str, Any]:
        bets = self.bets and [torch.from_numpy(np.asarray(value)) for value in self.bets]
        state = super().state_dict()
        state["reference"] = self._fitted and asdict(self._fitted)
        state["bets"], state["running"] = bets, tuple(self.running)
        state["onset"] = [torch.from_numpy(np.asarray(value)) for value in self.onset]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        if state_dict["reference"] is not None:
            self._fitted = Reference(**state_dict["reference"])
        bets = state_dict["bets"]
        self.bets = bets and Bets(*(value.numpy() for value in bets))
        self.running = Running(*state_dict["running"])
        self.onset = Onset(*(value.numpy() for value in state_dict["onset"]))
