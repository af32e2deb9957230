"""WeightedFlips: the source model's accuracy from prediction flips of an adapting copy."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor

from .. import HoldfastError, in_range
from ..run_folder import FLIPS
from ..tensors import compact, expanded
from .agreement import exchanged, weights
from .estimator import AccuracyEstimator, NotFinite, finite
from .functional.flips import FlipFunction, flips
from .observer import undisturbed
from .protocols import Adapting, method_of
from .record import save_arrays


class WeightedFlips(AccuracyEstimator):
    """Estimates the source model's accuracy on the stream without adaptation (Press et al.).

    The first `held` images after the start, and after each reset, are held out. `stop` steps later
    the adapted model predicts them again, and f maps the flips to an accuracy: that of the *source*
    model, for which f was fitted, not that of the adapted model. Between two such steps there is no
    estimate. `details` holds the weighted and unweighted flips; `band` is the prediction interval
    if f includes the pairs to which it was fitted. The predicted classes go to flips.npz in the
    run's folder, to fit functions with other stops or fewer held-out images.

    Args:
        f: a published function by its name ("resnet50"), or the path of one made by
            `holdfast estimators fit`; None: measure the flips only.
        held: number of images; a last group of fewer than `at_once` is excluded.
        stop: steps after which they are predicted again (990 in the official code, 1000 in the text).
        any_backbone: apply f to a network that it was not fitted on.
        at_once: images in a batch of predictions.
        also: earlier steps at which the held-out images are predicted as well.
    """

    of_batches = False
    STATE: ClassVar[tuple[str, ...]] = (
        "stored",
        "source_weights",
        "source_probs",
        "passing",
        "predictions",
        "confidence",
        "logged",
    )

    def __init__(
        self,
        f: str | None = "resnet50",
        held: int = 1000,
        stop: int = 990,
        any_backbone: bool = False,
        at_once: int = 100,
        also: Sequence[int] = (),
    ) -> None:
        in_range(1, held=held, stop=stop, at_once=at_once)
        if any(not 0 < step < stop for step in also):
            raise HoldfastError(f"also={list(also)}: pass steps between 0 and {stop}.")
        self.f = None if f is None else FlipFunction.load(f)
        self.held, self.stop = held, stop
        self.needed = held  # images to store
        self.any_backbone, self.at_once, self.also = any_backbone, at_once, tuple(also)
        self.begin()
        # Of the last measurement: classes [n] predicted at step 0, at those of `also`, and at `stop`; the
        # largest probabilities [n] at step 0; and what is logged, by the end of its name.
        self.predictions: dict[int, Tensor] = {}
        self.confidence = torch.empty(0)
        self.logged: dict[str, float] = {}

    def begin(self, source_weights: list[Tensor] | None = None) -> None:
        """Begin a measurement, with the weights, of any shape, before the first step."""
        # Batches of held-out images [B,3,H,W], as bytes where that is lossless.
        self.stored: list[Tensor] = []
        # None once all images are there, and predicted with these weights.
        self.source_weights = source_weights
        # Probabilities [n,C] before the first step, and classes [n] at the steps of `also`.
        self.source_probs: Tensor | None = None
        self.passing: dict[int, Tensor] = {}

    def check_network(self, method: Adapting) -> None:
        """Raise HoldfastError if f was fitted on another network."""
        count = _num_parameters(method)
        if self.f is not None and count != self.f.parameters and not self.any_backbone:
            raise HoldfastError(
                f"This f was fitted to a network of {self.f.parameters:,} parameters, not "
                f"{count:,}. Fit one to yours with `holdfast estimators fit`, or pass "
                "any_backbone=True to use it anyway."
            )

    def watch(self, method: Adapting, images: Tensor) -> float | None:
        """The estimate before the step on images [B,3,H,W] and a reset that is due, after `stop` steps."""
        self.details = {}
        with undisturbed(images.device):
            estimate = self.measure_at_stop(method, images.device)
        band = self.band
        super().watch(method, images)
        if estimate is not None:
            self.latest, self.band = estimate, band
        return self.latest

    def estimate(self, method: Adapting, images: Tensor) -> float | None:
        step = method.steps_since_reset
        if step == 0:
            self.check_network(method)
            self.begin([tensor.detach().clone() for tensor in weights(method.predictor)])
        if self.source_weights is not None:
            self.stored.append(compact(images.cpu()))
            if sum(map(len, self.stored)) >= self.needed:
                self.predict_at_source(method, images.device)
        if self.source_probs is not None and step in self.also:
            self.passing[step] = self.probabilities(method, images.device).argmax(1)
        return None

    def measure_at_stop(self, method: Adapting, device: torch.device) -> float | None:
        """The estimate if exactly `stop` steps have passed since the first image was stored."""
        if method.steps_since_reset != self.stop or not self.stored:
            return None
        try:
            if self.source_weights is not None:  # fewer steps than are needed to see all images
                self.predict_at_source(method, device)
            return self.measure(method, device)
        except NotFinite:
            return None

    def predict_at_source(self, method: Adapting, device: torch.device) -> None:
        """Predict the held-out images with the initial weights."""
        source, self.source_weights = self.source_weights, None
        assert source is not None
        with exchanged(weights(method.predictor), source):
            self.source_probs = self.probabilities(method, device)

    def measure(self, method: Adapting, device: torch.device) -> float | None:
        """Predict the held-out images with the current weights, count the flips, and apply f."""
        if self.source_probs is None:  # they were not finite
            return None
        self.confidence, before = self.source_probs.max(1)
        after = self.probabilities(method, device).argmax(1)
        arrays = before.numpy(), after.numpy(), self.confidence.numpy()
        counts = {weighted: flips(*arrays, weighted=weighted) for weighted in (True, False)}
        self.details = {"flips": counts[True], "unweighted": counts[False]}
        self.logged = {f"_{name}": value for name, value in self.details.items()}
        self.logged["_parameters"] = float(_num_parameters(method))
        answer = self.band = None
        # Without adaptation there are no flips, so accuracy cannot be estimated from them.
        if self.f is not None and any(True for _ in method.parameters_with_source()):
            self.logged[""] = answer = self.f(counts[self.f.weighted])
            self.band = self.f.band(counts[self.f.weighted])
        self.predictions = {0: before, **self.passing, self.stop: after}
        self.begin()
        return answer

    def probabilities(self, method: Adapting, device: torch.device) -> Tensor:
        """The method's probabilities [n,C] for the held-out images, in groups of `at_once`."""
        held = torch.cat(self.stored)[: self.held]
        count = len(held) // self.at_once * self.at_once or len(held)
        groups = held[:count].split(self.at_once)
        logits = [method.predict(expanded(group).to(device)).cpu() for group in groups]
        return finite(torch.cat(logits)).softmax(1)

    def missing(self) -> str:
        """Why a run has no estimate."""
        return f"no {self.stop} steps passed without a reset"

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the last estimate and flips of the run, and write its classes."""
        with trainer.precision_plugin.test_step_context(), undisturbed(pl_module.device):
            self.measure_at_stop(method_of(pl_module), pl_module.device)
        if not self.predictions:
            rank_zero_warn(f"WeightedFlips has no estimate: {self.missing()}.")
            return
        save_arrays(
            trainer,
            FLIPS,
            steps=np.array(list(self.predictions)),
            classes=torch.stack(list(self.predictions.values())).numpy().astype(np.int32),
            confidence=self.confidence.numpy(),
        )
        for name, value in self.logged.items():
            pl_module.log(f"WeightedFlips{name}", value)


def _num_parameters(method: Adapting) -> int:
    """The number of parameters of the method's backbone."""
    return sum(p.numel() for p in method.backbone.parameters())
