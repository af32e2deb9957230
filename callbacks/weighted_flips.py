"""WeightedFlips: the source model's accuracy from prediction flips of an adapting copy."""

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor

from .. import HoldfastError, in_range
from ..run_folder import FLIPS
from .estimator import AccuracyEstimator, NotFinite, finite
from .functional.flips import FlipFunction, flips
from .gde import exchanged, weights
from .observer import undisturbed
from .protocols import Adapting, method_of
from .record import save_arrays

# The checkpoint's state of the current measurement, and of the last one.
UNDER_WAY = ("kept", "source_weights", "source_probs", "passing")
LAST = ("details", "logged", "predictions", "confidence")


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
        data: adapt repeatedly to the first `data` images, starting from the source model; None:
            adapt to the stream.
        any_backbone: apply f to a network that it was not fitted on.
        at_once: images in a batch of predictions.
        also: earlier steps at which the held-out images are predicted as well.
    """

    of_batches = False
    STATE = (*UNDER_WAY, *LAST)

    def __init__(
        self,
        f: str | None = "resnet50",
        held: int = 1000,
        stop: int = 990,
        data: int | None = None,
        any_backbone: bool = False,
        at_once: int = 100,
        also: Sequence[int] = (),
    ) -> None:
        in_range(1, held=held, stop=stop, at_once=at_once, data=data)
        if any(not 0 < step < stop for step in also) or (also and data is not None):
            raise HoldfastError(
                f"also={list(also)}: pass steps between 0 and {stop}, and leave `data` out."
            )
        self.f = None if f is None else FlipFunction.load(f)
        self.held, self.stop, self.data = held, stop, data
        self.any_backbone, self.at_once, self.also = any_backbone, at_once, tuple(also)
        self.num_parameters = 0  # of the backbone
        self.details: dict[str, float] = {}
        # The measurement under way.
        self.kept: list[Tensor] = []  # batches of images, as bytes where they are whole 255ths
        self.source_weights: list[Tensor] | None = None  # until all images are there
        self.source_probs: Tensor | None = (
            None  # [n,C] of the held-out images before the first step
        )
        self.passing: dict[int, Tensor] = {}  # predicted classes [n] at the steps of `also`
        # The last measurement.
        self.predictions: dict[
            int, Tensor
        ] = {}  # classes [n] at step 0, those of `also`, and `stop`
        self.confidence = torch.empty(0)  # [n] at step 0
        self.logged: dict[str, float] = {}

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.check(method_of(pl_module))

    def check(self, method: Adapting) -> None:
        """Raise HoldfastError if f was fitted on another network."""
        self.num_parameters = count = sum(p.numel() for p in method.backbone.parameters())
        if self.f is not None and count != self.f.parameters and not self.any_backbone:
            raise HoldfastError(
                f"This f was fitted to a network of {self.f.parameters:,} parameters, not "
                f"{count:,}. Fit one to yours with `holdfast estimators fit`, or pass "
                "any_backbone=True to use it anyway."
            )

    @property
    def num_wanted(self) -> int:
        """The number of images to store, for predictions and for adaptation."""
        return max(self.held, self.data or 0)

    def watch(self, method: Adapting, images: Tensor) -> float | None:
        """The estimate before the step on images [B,3,H,W], once `stop` steps have passed; called before
        a reset that is due.
        """
        self.details = {}
        with undisturbed(images.device):
            measured = self.measure_at_stop(method, images.device)
        band, given = self.band, super().watch(method, images)
        if measured is not None:
            self.band = band
        self.latest = given if measured is None else measured
        return self.latest

    def estimate(self, method: Adapting, images: Tensor) -> float | None:
        step = method.steps_since_reset
        if step == 0:
            self.check(method)
            self.kept, self.source_probs, self.passing = [], None, {}
            self.source_weights = [tensor.detach().clone() for tensor in weights(method.predictor)]
        if self.source_weights is not None:
            self.kept.append(compact(images.cpu()))
            if sum(map(len, self.kept)) >= self.num_wanted:
                self.predict_at_source(method, images.device)
                if self.data is not None:
                    return self.adapt_to_limited_data(method, images)
        if self.source_probs is not None and step in self.also:
            self.passing[step] = self.probabilities(method, images.device).argmax(1)
        return None

    def measure_at_stop(self, method: Adapting, device: torch.device) -> float | None:
        """The estimate if exactly `stop` steps have passed since the first image was stored."""
        if self.data is not None or method.steps_since_reset != self.stop or not self.kept:
            return None
        try:
            if self.source_weights is not None:  # fewer steps than are needed to see all images
                self.predict_at_source(method, device)
            return None if self.source_probs is None else self.measure(method, device)
        except NotFinite:
            return None

    def predict_at_source(self, method: Adapting, device: torch.device) -> None:
        """Predict the held-out images with the initial weights."""
        assert self.source_weights is not None
        source, self.source_weights = self.source_weights, None
        with exchanged(weights(method.predictor), source):
            self.source_probs = self.probabilities(method, device)

    def measure(self, method: Adapting, device: torch.device) -> float | None:
        """Predict the held-out images with the current weights, count the flips, and apply f."""
        assert self.source_probs is not None
        self.confidence, before = self.source_probs.max(1)
        after = self.probabilities(method, device).argmax(1)
        self.predictions = {0: before, **self.passing, self.stop: after}
        self.kept, self.source_probs = [], None
        arrays = before.numpy(), after.numpy(), self.confidence.numpy()
        counts = {weighted: flips(*arrays, weighted=weighted) for weighted in (True, False)}
        self.details = {"flips": counts[True], "unweighted": counts[False]}
        # Without adaptation there are no flips, so accuracy cannot be estimated from them.
        adapts = any(True for _ in method.parameters_with_source())
        answer = self.f(counts[self.f.weighted]) if self.f is not None and adapts else None
        self.band = (
            None if answer is None or self.f is None else self.f.band(counts[self.f.weighted])
        )
        self.logged = {f"_{name}": value for name, value in self.details.items()}
        self.logged |= {"_parameters": float(self.num_parameters)}
        self.logged |= {} if answer is None else {"": answer}
        return answer

    def probabilities(self, method: Adapting, device: torch.device) -> Tensor:
        """The method's probabilities [n,C] for the held-out images, in groups of `at_once`."""
        held = torch.cat(self.kept)[: self.held]
        count = len(held) // self.at_once * self.at_once or len(held)
        groups = held[:count].split(self.at_once)
        logits = [method.predict(images_of(group).to(device)).cpu() for group in groups]
        return finite(torch.cat(logits)).softmax(1)

    def adapt_to_limited_data(self, method: Adapting, images: Tensor) -> float | None:
        """Adapt to stored images [N,3,H,W] from the source, count the flips, and restore the model."""
        data, state = torch.cat(self.kept)[: self.data], deepcopy(method.state_dict())
        trace, random = method.trace, torch.Generator().manual_seed(0)
        size = min(len(images), len(data))
        if method.steps_since_reset > 0:
            method.reset()
        method.step_count = 0
        try:
            for step in range(self.stop):
                position = step % (len(data) // size)
                if position == 0:
                    order = torch.randperm(len(data), generator=random)
                batch = data[order[position * size : position * size + size]]
                method.adapt(images_of(batch).to(images.device))
            return self.measure(method, images.device)
        finally:
            method.load_state_dict(state)
            method.trace = trace

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the last estimate and flips of the run, and write its classes."""
        with trainer.precision_plugin.test_step_context(), undisturbed(pl_module.device):
            self.measure_at_stop(method_of(pl_module), pl_module.device)
        if self.predictions:
            save_arrays(
                trainer,
                FLIPS,
                steps=np.array(list(self.predictions)),
                classes=torch.stack(list(self.predictions.values())).numpy().astype(np.int32),
                confidence=self.confidence.numpy(),
            )
        for name, value in self.logged.items():
            pl_module.log(f"WeightedFlips{name}", value)
        if not self.logged:
            rank_zero_warn(
                f"WeightedFlips has no estimate: no {self.stop} steps passed without a reset."
                if self.data is None
                else f"WeightedFlips has no estimate: the stream has fewer than {self.num_wanted} images."
            )


def compact(images: Tensor) -> Tensor:
    """Images in [0,1] as bytes, if that is lossless."""
    as_bytes = images.mul(255).round().to(torch.uint8)
    return as_bytes if torch.equal(images_of(as_bytes), images) else images.clone()


def images_of(kept: Tensor) -> Tensor:
    """The images [B,3,H,W] in [0,1], as before `compact`."""
    return kept.float() / 255 if kept.dtype == torch.uint8 else kept
