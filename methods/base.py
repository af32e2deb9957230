"""What all adaptation methods share: one online step, prediction, reset, and a test in a Trainer."""

import logging
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Literal, final

import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.hooks import RemovableHandle
from torchmetrics import MeanMetric, Metric, MetricCollection

from .. import HoldfastError, in_range
from ..batch import Batch, as_batch
from ..callbacks.curves import Curves, curves_for
from ..callbacks.features import features
from ..callbacks.functional.scores import finite_images, scored
from ..callbacks.later import on_host
from ..callbacks.protocols import stream_of
from ..callbacks.recovery import Recovery
from .backbones import load_backbone, weights_hash
from .backbones.load import with_logits
from .backbones.structure import stage_ends, top_norms
from .checks import (
    check_batch,
    check_highest,
    check_images,
    check_labels,
    check_logits,
    check_loss,
    check_precision,
    check_trainer,
)
from .distributed import agreed, averaged, divided
from .functional import full_precision, seeded
from .optimizers import OptimizerFactory, made, plain, settings_of, sgd
from .parts.norm import needs_batch, norm_affine, use_batch_statistics
from .source_data import first_batches, usable
from .state import Resettable, Snapshot

Measure = Metric | MetricCollection
Metrics = Measure | Sequence[Measure] | dict[str, Measure]
# Lightning advertises two other packages whenever a Trainer is made.
logging.getLogger("lightning.pytorch.utilities.rank_zero").addFilter(
    lambda record: "Tip: For seamless" not in record.getMessage()
)
# Steps in a row that are not finite, after which the model is reset.
NOT_FINITE_LIMIT = 5
# Steps without an update, after which a warning says so.
PATIENCE = 50


class TTAMethod(Resettable):
    """A model that adapts to the stream of images on which it is tested.

    A subclass stores its arguments and then calls `super().__init__`, which copies the backbone,
    prepares the copy and stores it as the source. It overrides what its paper changes: `prepare`,
    `adaptable_parameters`, `loss`, `fresh_state`, or `update` as a whole. Everything that adapts is in
    `state_dict`: parameters, buffers, the optimizer and `self.state`. If it sends images through
    networks by `self.logits` only and draws random numbers from `self.generator`, it also works on
    several devices at once (`Trainer(strategy="sync")`).

    In a Trainer, a test adapts to each batch, scores it, and logs `accuracy`, the mean of the batches'
    accuracies as in the papers, `accuracy_per_image`, the negative log-likelihood `nll` in nats per image,
    and the expected calibration error `ece`; none counts images without a known label.
    The data are a stream, or whatever gives (images, labels) or mappings of them: see `as_batch`.
    `Trainer.predict` adapts as a test does, and returns the logits of each batch.

    Args:
        backbone: logits [B,C] (or a mapping or object that has them as `logits`) from images [B,3,H,W]
            in [0,1], with the normalisation inside, left untouched; or a name for `load_backbone`.
        optimizer: makes one of what adapts; default: SGD with learning rate 2.5e-4 and momentum 0.9.
        metrics: torchmetrics' metrics, updated by the logits [B,C] and labels [B] of images whose label
            is known, and logged at the end. Those given are left untouched.
        steps: updates on each batch; the logits of the last one's forward pass are scored. Recoveries and
            the trace see the last one only. Methods with a memory repeat their updates on it.
        window: adapt to the last `window` images, for streams of single images. The newest ones' logits are
            scored, with the statistics of the window; an update follows after each `window` images.
        recovery: a reset or restore that works with and without a Trainer, and beside those of the
            Trainer; None or True: the paper's own, if any, which gives way to a Trainer's; False: none.

    Example:
        >>> from torch import nn
        >>> from holdfast.methods import Tent
        >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(288, 5))
        >>> Tent(net).adapt(torch.rand(4, 3, 8, 8)).shape
        torch.Size([4, 5])
    """

    # Which parameters adapt: those of normalisation layers, all of the backbone, or none.
    adapts: Literal["norms", "all", "nothing"] = "norms"
    # Whether the normalisation layers at the top do not adapt, and their names.
    skip_top = False
    skipped_layers: Sequence[str] = ()
    # Whether `update` takes one image at a time and scores it after its step.
    by_image: ClassVar[bool] = False
    # Whether the scored logits come from an update, so that a prediction makes one and undoes it.
    predicts_by_update: ClassVar[bool] = False
    # How many images `learn_source` looks at, in whole batches; 0: it is not called.
    source_images = 0
    # A data module with these images; None: the first ones of the stream.
    source_data: LightningDataModule | None = None

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerFactory = sgd,
        metrics: Metrics | None = None,
        steps: int = 1,
        window: int | None = None,
        recovery: Recovery | bool | None = None,
    ) -> None:
        in_range(1, steps=steps)
        in_range(2, window=window)
        super().__init__()
        self.automatic_optimization = False
        self.steps, self.window, self._pass, self._image = steps, window, 0, 0
        # The last step's images and logits, before `corrected`; whether no update was due in it.
        self.last_step: tuple[Tensor, Tensor] | None = None
        self.collecting = False
        # What steps took for arguments that are None.
        self.chosen: dict[str, Any] = {}
        # Images of this run, for data without positions.
        self._seen = 0
        # Whether a Trainer has ended a test of this method; whether the backbone's outputs were checked.
        self._tested = self._checked = False
        self._hooks: list[RemovableHandle] = []
        self.batch_accuracy, self.image_accuracy = WeightedMean(), WeightedMean()
        self.nll, self.calibration = WeightedMean(), CalibrationError()
        self.metrics = MetricCollection(metrics or {}).clone()  # type: ignore[arg-type]
        scores = self.batch_accuracy, self.image_accuracy, self.nll, self.calibration
        for metric in (*scores, *self.metrics.values()):
            metric.persistent(True)
            # Each rank counts all images.
            metric.sync_on_compute = metric._to_sync = False
        source = load_backbone(backbone) if isinstance(backbone, str) else deepcopy(backbone)
        check_precision(source := with_logits(source))
        self.source_hash = weights_hash(source)
        self.backbone: nn.Module = source.requires_grad_(False)
        self.prepare()
        self.eval()
        for parameter in self.adaptable_parameters():
            parameter.requires_grad_(True)
        params = [p for p in self.parameters() if p.requires_grad]
        self.optimizer = made(optimizer, params) if params else None
        self._take_stock()
        self._source = [tensor.detach().clone() for tensor in self._current]
        self.state = self.first_state()
        self._gives_way = recovery is None or recovery is True
        own = self.own_recovery() if self._gives_way else None
        self.recovery = recovery if isinstance(recovery, Recovery) else own
        # Lightning reads the arguments of all constructors that are running.
        self.save_hyperparameters(ignore=[] if isinstance(backbone, str) else ["backbone"])
        plain_ones = {name: value for name, value in self.hparams.items() if plain(value)}
        self.hparams.clear()
        self.save_hyperparameters(plain_ones | {"optimizer": settings_of(self.optimizer)})

    # ---- what a paper changes -------------------------------------------------------------------

    def prepare(self) -> None:
        """Change the backbone before its source state is stored; default: use batch statistics."""
        use_batch_statistics(self.backbone)

    def adaptable_parameters(self) -> Iterable[nn.Parameter]:
        """The parameters that adapt, by `adapts`: scale and shift of normalisation layers, all, or none."""
        if self.adapts == "norms":
            return self.norm_affine()
        return self.backbone.parameters() if self.adapts == "all" else ()

    def fresh_state(self) -> dict[str, Any]:
        """What the method remembers between steps, as at the start: tensors and plain values."""
        return {}

    @final
    def first_state(self) -> dict[str, Any]:
        """The result of `fresh_state`, with an empty window if there is to be one.

        Raises HoldfastError if the method cannot have a window.
        """
        state = self.fresh_state()
        if self.window is None:
            return state
        if "memory" in state or self.by_image:
            kept = "has a memory of images" if "memory" in state else "adapts to single images"
            raise HoldfastError(f"{type(self).__name__} already {kept}. Leave window out.")
        return {**state, "window": None, "seen": 0}

    def own_recovery(self) -> Recovery | None:
        """The paper's reset or restore."""
        return None

    def learn_source(self, batches: Iterator[tuple[Tensor, Tensor]]) -> dict[str, Any]:
        """The value of `learnt`: what the method learns from source images before the stream.

        Tensors and plain values; a reset leaves them as they are, and returns to those called "weights"
        and "optimizer" if there are any. `batches`, at least one, are images [B,3,H,W], all of them finite,
        and labels [B], -1 where they are not known.
        """
        return {}

    def loss(self, logits: Tensor, images: Tensor) -> Tensor | None:
        """The scalar to minimise on this batch; None leaves the model as it is."""
        raise NotImplementedError

    def update(self, images: Tensor) -> Tensor:
        """Forward pass, loss and optimizer step; returns the logits [B,C] from before the step.

        Where nothing adapts, it is a prediction.
        """
        if self.optimizer is None:
            return self.predict(images)
        logits = self(images)
        loss = self.loss(logits, images)
        if loss is not None:
            self.descend(loss)
        return logits

    def corrected(self, logits: Tensor) -> Tensor:
        """The logits [B,C] to score, from those that `update` returned (default: unchanged)."""
        return logits

    # ---- one step -------------------------------------------------------------------------------

    def adapt(self, images: Tensor) -> Tensor:
        """One online step on images [B,3,H,W] in [0,1]; returns the logits [B,C] that are scored.

        Images that are not finite are left out: the step is that of the others, their own logits are NaN,
        and the trace has their number as `not_finite_images`. A step in which anything else is not finite,
        or all images, changes nothing, and its trace is {"not_finite": 1}.
        """
        with torch.inference_mode(False), torch.enable_grad():
            self.recover()
            self.check_images(images)
            if self._unfitted:
                rank_zero_warn(
                    f"{type(self).__name__} fits to this batch alone. Call fit with source images."
                )
                self.fit([images])
            logits = self._finite_step(images.clone() if images.is_inference() else images)
            self._notice_idleness()
            self.step_count += 1
            self.steps_since_reset += 1
            if self.recovery is not None:
                self.recovery.after_step(self)
        return logits

    def _finite_step(self, images: Tensor) -> Tensor:
        """The logits [B,C] of `_updated`, which is undone if anything is not finite."""
        self.trace = {}
        self._before.take(self.state)
        logits = self._updated(images).detach()
        if self._is_finite(logits, images):
            self.not_finite_in_a_row = 0
            return logits
        self.state = self._before.undo()
        good = finite_images(images)
        bad = len(images) - int(good.sum())
        if 0 < bad < len(images):
            rank_zero_warn(
                "Some images are not finite. They are skipped, their logits are NaN, and the record "
                "counts them as not_finite_images."
            )
            rest = self._finite_step(images[good])
            logits = rest.new_full((len(images), rest.shape[1]), torch.nan)
            logits[good] = rest
        else:
            rank_zero_warn(
                "A step was not finite. It changes nothing, and the record counts it as not_finite."
            )
            self.trace = {"not_finite": 1}
            self.not_finite_in_a_row += 1
            # Those of the step may come from weights that were discarded.
            logits = self.predict(images).detach()
            logits[~good] = torch.nan
        if bad:
            self.trace["not_finite_images"] = bad
        return logits

    def _is_finite(self, logits: Tensor, images: Tensor) -> bool:
        """Whether a step and its logits [B,C] are finite; scalars of the trace become numbers.

        On an accelerator the host waits once, for all of them.
        """
        total = self._before.magnitude([logits, images.sum()], self.trace.get("loss"))
        if self.divides:
            total = torch.where(agreed(total.isfinite()), total, torch.nan)
        scalars = {
            name: value.reshape(())
            for name, value in self.trace.items()
            if isinstance(value, Tensor) and value.device == total.device and value.numel() == 1
        }
        answer, highest, *values = on_host(total, images.amax(), *scalars.values())
        if 10 < highest < math.inf and not self.divides:
            self.state = self._before.undo()
            check_highest(float(highest))
        self.trace |= {name: value.item() for name, value in zip(scalars, values, strict=True)}
        return math.isfinite(float(answer))

    def _updated(self, images: Tensor) -> Tensor:
        """The logits [B,C] to score after updates on the images, or on the window that they complete.

        As in mariodoebler/test-time-adaptation, an update follows once all images of a window are new.
        """
        if self._unfitted:  # no image was finite
            return self.predict(images)
        size = len(images)
        if self.window is not None:
            past, seen = self.state["window"], self.state["seen"] + size
            images = images.clone() if past is None else torch.cat([past, images])
            images = images[-max(self.window, size) :]
            self.state["window"], self.state["seen"] = images[-self.window :], seen % self.window
            self.collecting = seen < self.window
            if self.collecting:
                self.last_step = None
                return self.predict(images)[-size:]
        logits = self._repeated(images).detach()
        self.last_step = images, logits
        return self.corrected(logits)[-size:]

    def _repeated(self, images: Tensor) -> Tensor:
        """The logits [B,C] of the last of the updates on these images, or on each of them."""
        if self.by_image and len(images) > 1:
            rows = []
            for self._image, image in enumerate(images.split(1)):
                rows.append(self._repeated(image))
            self._image = 0
            return torch.cat(rows)
        if self.optimizer is None or "memory" in self.state:  # which repeats its updates itself
            return self.update(images)
        for _ in self.passes():
            logits = self.update(images)
        return logits

    def passes(self) -> Iterator[int]:
        """The number of each of the `steps` passes; `generator` gives different numbers in each."""
        for number in range(self.steps):
            self._pass = number
            yield number
        self._pass = 0

    def descend(self, loss: Tensor) -> None:
        """One optimizer step on `loss`, a scalar that depends on the parameters that adapt."""
        assert self.optimizer is not None
        check_loss(loss, type(self).__name__)
        self.trace["loss"] = loss.detach()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        # Lightning runs the whole test_step in one autocast region, which would go on using its
        # low-precision copies of the weights from before the step.
        torch.clear_autocast_cache()

    def check_images(self, images: Any) -> None:
        """Refuse what `adapt` cannot take: anything but a batch [B,3,H,W] in [0,1], of the model's type."""
        check_images(images, self.backbone, self._expected, first=not self.step_count)

    def generator(self, purpose: str) -> torch.Generator:
        """Random numbers that depend only on the run's seed, the step since the reset and `purpose`."""
        turn = f" pass {self._pass}" if self._pass else ""
        turn += f" image {self._image}" if self._image else ""
        return seeded(f"{self.seed} {self.steps_since_reset} {purpose}{turn}", self.device)

    def _notice_idleness(self) -> None:
        """Warn, once, that the first PATIENCE updates selected no image or changed no parameter."""
        due = self.optimizer is not None and not self.collecting
        if not due or self._due >= PATIENCE or "not_finite" in self.trace:
            return
        self._due += 1
        if "selected" in self.trace:
            self._selected = self.trace["selected"] + (self._selected or 0)
        start = f"{type(self).__name__} %s in the first {PATIENCE} steps. "
        if self._due == PATIENCE and self._selected == 0:
            rank_zero_warn(
                start % "selected no image" + "Relax the limits by which it selects, such as "
                "entropy_factor or confidence, or use a backbone that is more certain of these images."
            )
        elif self._due == PATIENCE and self.never_updated:
            rank_zero_warn(
                start % "changed no parameter" + "Check the optimizer's learning rate and the loss."
            )

    # ---- networks and their predictions ---------------------------------------------------------

    def forward(self, images: Tensor) -> Tensor:
        """The `output` [B,C] of the backbone as it is now."""
        return self.output(self.backbone, images)

    def output(self, network: nn.Module, images: Tensor) -> Tensor:
        """Logits [B,C] that the method makes of a network and images [B,3,H,W]; default: its `logits`."""
        return self.logits(network, images)

    def logits(self, network: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        """Logits [B,C] of a network that is built like the backbone, in float32 at least."""
        if len(images) == 1 and needs_batch(self.backbone):
            rank_zero_warn(
                f"{type(self).__name__}: batch statistics of a single image are unreliable."
            )
            # PyTorch refuses the statistics of a single value; those of two copies are the same.
            return self.logits(network, images.repeat(2, 1, 1, 1))[:1]
        if self.divides:
            return divided(lambda part: full_precision(network(part)), images)
        logits = full_precision(network(images))
        if network is self.backbone and not self._checked:
            self._checked = True
            check_logits(logits)
        return logits

    def together(
        self, network: Callable[[Tensor], Sequence[Tensor]], images: Tensor
    ) -> tuple[Tensor, ...]:
        """All that such a network returns for images, [B,D] each, as `logits` computes it."""
        widths: list[int] = []

        def joined(part: Tensor) -> Tensor:
            found = network(part)
            widths[:] = [rows.shape[1] for rows in found]
            return torch.cat(tuple(found), 1)

        return self.logits(joined, images).split(widths, 1)

    def features(self, network: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
        """Penultimate features [B,D] and logits [B,C] of such a network, in float32 at least."""
        found, logits = self.together(partial(features, network), images)
        return found, logits

    @torch.no_grad()
    def predict(self, images: Tensor) -> Tensor:
        """The logits [B,C] that `adapt` would return for images [B,3,H,W] next; changes nothing.

        The images must be finite: through batch statistics, one that is not affects the others here.
        """
        if self.predicts_by_update:
            return self.corrected(self._tried(images))
        return self.predict_by(self.predictor, images)

    def _tried(self, images: Tensor) -> Tensor:
        """The logits [B,C] that updates on these images would give; all changes are undone."""
        before, trace = Snapshot(self._current, self.optimizer), self.trace
        before.take(self.state)
        self.trace = {}
        with torch.inference_mode(False), torch.enable_grad():
            logits = self._repeated(images.clone() if images.is_inference() else images).detach()
        self.state, self.trace = before.undo(), trace
        return logits

    @torch.no_grad()
    def predict_by(self, network: nn.Module, images: Tensor) -> Tensor:
        """The logits [B,C] of another network of the backbone's kind, computed as `predict` does.

        For example, CoTTA's predictions are means over many views.
        """
        return self.corrected(self.output(network, images))

    @torch.no_grad()
    def source_logits(self, images: Tensor) -> Tensor:
        """The logits [B,C] of the source model, as `prepare` made it, for images [B,3,H,W]."""
        values = {id(now): then for now, then in zip(self._current, self._origin, strict=True)}
        named = (*self.backbone.named_parameters(), *self.backbone.named_buffers())
        source = {name: values[id(now)] for name, now in named if id(now) in values}
        return self.logits(lambda part: functional_call(self.backbone, source, (part,)), images)

    @property
    def predictor(self) -> nn.Module:
        """The network whose predictions are scored; a teacher, in methods that have one."""
        return self.backbone

    def stages(self) -> list[str]:
        """The modules that end the stages of `predictor`, in the order of computation; [] if none."""
        return stage_ends(self.predictor)

    def norm_affine(self) -> list[nn.Parameter]:
        """Scale and shift of the normalisation layers; those of `top_norms` are left out with `skip_top`.

        Raises HoldfastError if there is none.
        """
        if self.skip_top:
            self.skipped_layers = top_norms(self.backbone)
        return norm_affine(self.backbone, self.skipped_layers)

    # ---- source images and recoveries -----------------------------------------------------------

    @final
    def fit(self, batches: Iterable[Any]) -> None:
        """Learn from source images before the stream begins, if the method has anything to learn.

        A Trainer calls it with images of `source_data`, or else with the first ones of the stream.

        Args:
            batches: images [B,3,H,W], or with their labels, as a DataLoader gives them. Images that
                are not finite are ignored.
        """
        if not self.source_images:
            return
        with torch.inference_mode(False), torch.enable_grad():
            found = usable(batches, next(self.backbone.parameters()))
            if (first := next(found, None)) is not None:
                self.learnt = self.learn_source(chain([first], found))

    @property
    def _unfitted(self) -> bool:
        """Whether `fit` must still be called."""
        return bool(self.source_images) and not self.learnt

    @final
    def recover(self) -> None:
        """Reset if the method's own recovery or too many non-finite steps require it."""
        if self.not_finite_in_a_row >= NOT_FINITE_LIMIT:
            self.reset()
        if self.recovery is not None:
            self.recovery.before_step(self)

    @final
    def give_way(self, other: Recovery) -> None:
        """Drop the paper's own recovery, as the Trainer has another; one passed as `recovery` stays."""
        if self.recovery is not None and self._gives_way:
            own, name = type(self.recovery).__name__, type(self).__name__
            rank_zero_warn(
                f"{type(other).__name__} replaces the {own} of {name}. To use both, pass {name} "
                f"recovery={own}(...) explicitly."
            )
            self.recovery = None

    # ---- a test in a Trainer --------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        # Lightning says so of every hook of this kind that a data module does not replace.
        warnings.filterwarnings("ignore", "You have overridden `on_after_batch_transfer`")
        check_trainer(self.trainer)
        self._seen = 0
        self.divides = self.trainer.world_size > 1
        if self.divides:
            self.seed = self.trainer.strategy.broadcast(self.seed)
            self._hooks = [p.register_hook(averaged) for p, _ in self.parameters_with_source()]

    def configure_callbacks(self) -> list[Curves]:  # type: ignore[override]
        """Curves for a Trainer with a logger; a `RunRecord` draws them itself."""
        return curves_for(self.trainer) if self.trainer.testing else []

    def teardown(self, stage: str) -> None:
        for hook in self._hooks:
            hook.remove()
        self.divides = False

    def on_test_start(self) -> None:
        if self._tested and self.step_count:
            rank_zero_warn(
                f"{type(self).__name__} goes on from where its last test ended, after {self.step_count} "
                "steps. To begin with the source model, call its reset() before."
            )
        if self._unfitted:  # else resumed, or fitted by hand
            self.fit(first_batches(self.trainer, self.source_data, self.source_images))

    on_predict_start = on_test_start

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Batch:
        """Make a `Batch` of what a loader gives; a data module that has this hook must do so itself."""
        batch = as_batch(batch, self._seen, dataloader_idx)
        self._seen += len(batch.labels)
        if batch.images.is_floating_point() and self._expected is not None:
            batch = batch._replace(images=batch.images.to(self._expected))
        return batch

    @final
    def predict_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """Adapt to the batch; returns the logits [B,C] of `adapt`."""
        check_batch(batch)
        return self.adapt(batch.images)

    @final
    def test_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> dict[str, Tensor]:
        """Adapt to the batch and score the logits of `adapt`: see `scored`."""
        check_batch(batch)
        outputs = scored(self.adapt(batch.images), batch.labels)
        labels, logits, counted = outputs["labels"], outputs["logits"], outputs["counted"]
        if self.step_count == 1:
            source = getattr(stream_of(self.trainer), "source", None)
            check_labels(labels, logits.shape[1], getattr(source, "classes", None))
        known = labels >= 0
        self.batch_accuracy.update(outputs["accuracy"], known.any())
        self.image_accuracy.update(outputs["correct"], known)
        self.nll.update(outputs["nll"], counted.sum())
        self.calibration.update(outputs["confidence"], outputs["correct"], counted)
        if self.metrics and counted.any():
            self.metrics.update(logits[counted], labels[counted])
        return outputs

    def on_test_epoch_end(self) -> None:
        self._tested = True
        if not self.image_accuracy.weight:
            rank_zero_warn(
                "No image has a known label, so that there is no accuracy. Estimates of it need none: "
                "pass an estimator, such as AETTA(), to the Trainer's callbacks."
            )
            return
        self.log("accuracy", self.batch_accuracy)
        self.log("accuracy_per_image", self.image_accuracy)
        self.log("nll", self.nll)
        self.log("ece", self.calibration)
        self.log_dict(self.metrics)


class WeightedMean(MeanMetric):
    """The weighted mean of values, without torchmetrics' check for NaN, for which the host would wait."""

    def update(self, value: Tensor, weight: Tensor) -> None:  # type: ignore[override]
        weight = weight.to(self.dtype)
        self.mean_value += torch.where(weight > 0, value * weight, 0).sum()
        self.weight += weight.sum()


class CalibrationError(Metric):
    """Expected calibration error in [0,1] (Guo et al. 2017) with torchmetrics' bins.

    It keeps sums over the images of each bin, while torchmetrics keeps the confidence of each image.
    """

    sums: Tensor

    def __init__(self, bins: int = 15) -> None:
        super().__init__()
        # Of images, confidence and correct predictions; the last bin is that of confidence 1.
        self.add_state("sums", torch.zeros(3, bins + 1), dist_reduce_fx="sum")

    def update(self, confidence: Tensor, correct: Tensor, counted: Tensor) -> None:
        """Add images [B], of which those that are not `counted` are left out."""
        bins = torch.arange(self.sums.shape[1], device=confidence.device)
        own = torch.bucketize(confidence, bins / bins[-1], right=True)[:, None] == bins + 1
        values = torch.stack([counted, torch.where(counted, confidence, 0), correct])
        self.sums += (values[:, :, None] * own).sum(1)

    def compute(self) -> Tensor:
        images, confidence, correct = self.sums
        return (confidence - correct).abs().sum() / images.sum()
