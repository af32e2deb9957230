"""What all adaptation methods share: what a paper changes, one online step, and predictions."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, SupportsFloat, final

import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD
from torch.utils.checkpoint import CheckpointError

from .. import HoldfastError, in_range
from ..callbacks.recovery import Recovery
from ..features import features
from ..networks import check_shape, copied, named_tensors
from ..tensors import finite_images
from .backbones import load_backbone, weights_hash
from .backbones.load import with_logits
from .backbones.structure import stage_ends, top_norms
from .checks import (
    buffer_versions,
    check_buffers,
    check_gradient,
    check_images,
    check_loss,
    check_size,
    check_weights,
    unlike_probabilities,
)
from .clock import Clock
from .construction import BuiltLast
from .distributed import divided
from .functional import full_precision, seeded
from .online_test import Metrics, OnlineTest
from .optimizers import OptimizerCallable, is_plain, make_optimizer, settings_of
from .parts.norm import needs_batch, norm_affine, use_batch_statistics
from .window import Window

# Steps in a row that are not finite, after which the model is reset.
NOT_FINITE_LIMIT = 5


class TTAMethod(OnlineTest, metaclass=BuiltLast):
    """A model that adapts to the stream of images on which it is tested.

    A subclass calls `super().__init__` and then stores its arguments. Once its constructor has returned,
    the backbone is copied, prepared and stored as the source. It overrides what its paper changes:
    `prepare`, `adaptable_parameters`, `loss`, `fresh_state`, or `update` as a whole. Everything that adapts
    is in `state_dict`: parameters, buffers, the optimizer and `self.state`. If it sends images through
    networks by `self.logits` only and draws random numbers from `self.generator`, it also works on
    several devices at once (`Trainer(strategy="sync")`).

    In a Trainer, a test adapts to each batch, scores it, and logs `accuracy`, the mean of the batches'
    accuracies as in the papers, `accuracy_per_image`, the negative log-likelihood `nll` in nats per image,
    and the expected calibration error `ece`; none counts images without a known label.
    The data are a stream, or any loader of (images, labels) or of mappings: see `as_batch`.
    `Trainer.predict` adapts as a test does, and returns the logits of each batch.

    Args:
        backbone: logits [B,C] (or a mapping or object that has them as `logits`) from images [B,3,H,W]
            in [0,1], with the normalisation inside, left untouched; or a name for `load_backbone`.
        optimizer: makes an optimizer of the parameters that adapt; the default of each method is its
            paper's.
        metrics: torchmetrics' metrics, updated by the logits [B,C] and labels [B] of images whose label
            is known, and logged at the end. The ones that are passed are left untouched.
        steps: updates on each batch; the logits of the last one's forward pass are scored. Recoveries and
            the trace see the last one only. Methods with a memory repeat their updates on it.
        window: adapt to the last `window` images, for streams of single images. The newest ones' logits are
            scored, with the statistics of the window; an update follows after each `window` images.
        recovery: a reset or restore that works with and without a Trainer, and beside those of the
            Trainer; "paper": the paper's, if it has one, which a Trainer's replaces; None: none.

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
    # How many images `learn_source` looks at, in whole batches; 0: it is not called.
    source_images = 0
    # A data module with these images; None: the first ones of the stream.
    source_data: LightningDataModule | None = None
    # Why there is no window, for methods that take images one by one.
    no_window: ClassVar[str] = ""
    # An argument that papers tune besides the learning rate, and the factor between the values to try.
    tunable: ClassVar[tuple[str, float] | None] = None
    # Arguments with which no image is skipped, for measurements of a step, by the end of the row's name.
    workloads: ClassVar[dict[str, dict[str, Any]]] = {"": {}}

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: SGD(params, lr=2.5e-4, momentum=0.9),
        metrics: Metrics | None = None,
        steps: int = 1,
        window: int | None = None,
        recovery: Recovery | Literal["paper"] | None = "paper",
    ) -> None:
        super().__init__(metrics)
        in_range(1, steps=steps)
        self.steps, self.window, self.recent = steps, window, Window(window)
        if window is not None and self.no_window:
            raise HoldfastError(
                f"{type(self).__name__} already {self.no_window}. Leave window out."
            )
        if not (isinstance(recovery, Recovery) or recovery in ("paper", None)):
            raise HoldfastError(
                f'recovery={recovery!r}: pass "paper" for the recovery of the method\'s paper, None for '
                "none, or a Recovery such as PeriodicReset(1000)."
            )
        # Which of the `steps` updates on a batch this is.
        self.repetition = 0
        # The images and logits of the last step, before `corrected`; None if no update was due in it.
        self.last_step: tuple[Tensor, Tensor] | None = None
        # What steps took for arguments that are None.
        self.chosen: dict[str, Any] = {}
        # Seconds from the start of the last step until its logits were ready and its update had ended.
        self.times: Mapping[str, SupportsFloat] = {}
        self.clock = Clock()
        # Whether steps only predict, and recoveries do nothing.
        self.frozen = False
        # Lightning reads the arguments of all constructors that are running.
        self.save_hyperparameters(ignore=[] if isinstance(backbone, str) else ["backbone"])
        self._arguments = backbone, optimizer, recovery

    def build(self) -> None:
        """Prepare a copy of the backbone and store it as the source, after the last constructor."""
        backbone, optimizer, recovery = self._arguments
        source = load_backbone(backbone) if isinstance(backbone, str) else copied(backbone)
        if isinstance(source, nn.DataParallel | DistributedDataParallel):
            rank_zero_warn(
                f"The backbone is used without its {type(source).__name__}, on one device. For several, "
                "pass the Trainer strategy='sync'."
            )
            source = source.module
        check_weights(source := with_logits(source))
        self.source_hash = weights_hash(source)
        self.backbone = source.requires_grad_(False)
        del self._arguments
        self.prepare()
        self.eval()
        for parameter in self.adaptable_parameters():
            parameter.requires_grad_(True)
        params = [p for p in self.parameters() if p.requires_grad]
        self.optimizer = make_optimizer(optimizer, params) if params else None
        self.look_up()
        self.source_values = [tensor.detach().clone() for tensor in self.restorable]
        self.state = self.fresh_state()
        self.recovery_is_the_papers = recovery == "paper"
        self.recovery = self.paper_recovery() if recovery == "paper" else recovery
        hparams = {name: value for name, value in self.hparams.items() if is_plain(value)}
        self.hparams.clear()
        self.save_hyperparameters(hparams | {"optimizer": settings_of(self.optimizer)})

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

    def paper_recovery(self) -> Recovery | None:
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
        logits = self.logits(self.backbone, images)
        loss = self.loss(logits, images)
        if loss is not None:
            self.descend(loss)
        return logits

    def corrected(self, logits: Tensor) -> Tensor:
        """The logits [B,C] to score, from those that `update` returned (default: unchanged)."""
        return logits

    # ---- one step: adapt -> guarded -> update -> logits -----------------------------------------

    def adapt(self, images: Tensor) -> Tensor:
        """One online step on images [B,3,H,W] in [0,1]; returns the logits [B,C] that are scored.

        Images that are not finite are left out: the step uses the others, their logits are NaN, and the
        trace has their number as `not_finite_images`. If all images or anything else is not finite, the
        step changes nothing, and its trace is {"not_finite": 1}.
        """
        with torch.inference_mode(False), torch.enable_grad():
            self.clock.start(self.device)
            self.recover()
            self.check_images(images)
            if self.unfitted:
                rank_zero_warn(
                    f"{type(self).__name__} is fitted to this batch alone. Call fit with source "
                    "images first."
                )
                self.fit([images])
            logits = self.guarded(images.detach())
            self.activity.count(self)
            self.step_count += 1
            self.steps_since_reset += 1
            if self.recovery is not None and not self.frozen:
                self.recovery.after_step(self)
            self.times = self.clock.stop(logits)
        return logits

    @final
    def recover(self) -> None:
        """Reset if the method's recovery or too many non-finite steps require it."""
        if self.frozen:
            return
        if self.not_finite_in_a_row >= NOT_FINITE_LIMIT:
            self.reset()
        if self.recovery is not None:
            self.recovery.before_step(self)

    def guarded(self, images: Tensor) -> Tensor:
        """The logits [B,C] of the updates on the images.

        They are undone if anything is not finite, or if they raise a HoldfastError.
        """
        self.trace, self.last_step = {}, None
        self.snapshot.take(self.state)
        try:
            logits = self.scored_logits(images)
            finite = self.all_finite(logits, images)
        except HoldfastError:
            self.repetition, self.last_step, self.state = 0, None, self.snapshot.undo()
            raise
        if finite:
            self.not_finite_in_a_row = 0
            return logits
        self.state = self.snapshot.undo()
        return self.without_bad_images(images)

    def scored_logits(self, images: Tensor) -> Tensor:
        """The logits [B,C] of the updates on the images, or of a prediction if no update is due."""
        batch, due = self.recent.add(images, self.state)
        self.activity.waiting = not due
        if due and not self.unfitted and not self.frozen:
            for repetition in range(self.repetitions):
                self.repetition = repetition
                logits = self.update(batch).detach()
            self.repetition, self.last_step = 0, (batch, logits)
            logits = self.corrected(logits)
        else:
            logits = self.predict(batch)
        return logits[-len(images) :].detach()

    def without_bad_images(self, images: Tensor) -> Tensor:
        """The logits [B,C] of a step on the images that are finite, or of none, after one was undone."""
        good = finite_images(images)
        bad = len(images) - int(good.sum())
        if 0 < bad < len(images):
            rank_zero_warn(
                "Some images are not finite. They are skipped, their logits are NaN, and the record "
                "counts them as not_finite_images."
            )
            rest = self.guarded(images[good])
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

    @property
    def repetitions(self) -> int:
        """How often `guarded` calls `update` on a batch."""
        return self.steps if self.optimizer is not None else 1

    def descend(self, loss: Tensor) -> None:
        """One optimizer step on `loss`, a scalar that depends on the parameters that adapt.

        Raises HoldfastError if it is none, or activation checkpointing prevents the backward pass.
        """
        assert self.optimizer is not None
        check_loss(loss, type(self).__name__)
        self.trace["loss"] = loss.detach()
        self.optimizer.zero_grad()
        try:
            loss.backward()
        except CheckpointError as error:
            raise HoldfastError(
                "The backbone computes activations again in the backward pass, in another mode. Switch its "
                "activation checkpointing off, as by set_grad_checkpointing(False) in timm."
            ) from error
        self.optimizer.step()
        # Lightning runs the whole test_step in one autocast region, which would go on using its
        # low-precision copies of the weights from before the step.
        torch.clear_autocast_cache()

    def check_images(self, images: Any) -> None:
        """Refuse what `adapt` cannot take: anything but a batch [B,3,H,W] in [0,1], of the model's type."""
        check_images(images, self.backbone, self.image_dtype, first=not self.step_count)
        for content in self.state.values():  # a memory or a window
            check_size(images, content, type(self).__name__)

    def generator(self, purpose: str) -> torch.Generator:
        """Random numbers that depend only on the run's seed, the step since the reset and `purpose`."""
        turn = f" pass {self.repetition}" if self.repetition else ""
        return seeded(f"{self.seed} {self.steps_since_reset} {purpose}{turn}", self.device)

    # ---- networks and their predictions ---------------------------------------------------------

    def forward(self, images: Tensor) -> Tensor:
        """The `logits` [B,C] of the backbone as it is now."""
        return self.logits(self.backbone, images)

    def logits(self, network: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        """Logits [B,C] of a network that is built like the backbone, in float32 at least."""
        if len(images) == 1 and needs_batch(self.backbone):
            rank_zero_warn(
                f"{type(self).__name__}: batch statistics of a single image are unreliable."
            )
            # PyTorch refuses the statistics of a single value; those of two copies are the same.
            return self.logits(network, images.repeat(2, 1, 1, 1))[:1]
        checked = partial(self.checked, network)
        if self.divides:
            logits = divided(checked, images)
        else:
            logits = checked(images)
            if network is self.backbone:
                if self.optimizer is not None and torch.is_grad_enabled():
                    check_gradient(logits, self.backbone)
                self.batch_facts["unlike_probabilities"] = unlike_probabilities(logits.detach())
        self.clock.output(logits)
        return logits

    def checked(self, network: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        """A network's logits [B,C]; raises HoldfastError if they are none, or it changes its buffers."""
        before = buffer_versions(self.fixed_buffers)
        logits = full_precision(network(images))
        check_buffers(self.fixed_buffers, before)
        check_shape(logits, len(images))
        return logits

    def together(
        self, network: Callable[[Tensor], Sequence[Tensor]], images: Tensor
    ) -> tuple[Tensor, ...]:
        """All that such a network returns for images, [B,D] each, as `logits` computes it."""
        widths: list[int] = []

        def joined(part: Tensor) -> Tensor:
            outputs = network(part)
            widths[:] = [output.shape[1] for output in outputs]
            return torch.cat(tuple(outputs), 1)

        return self.logits(joined, images).split(widths, 1)

    def features(self, network: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
        """Penultimate features [B,D] and logits [B,C] of such a network, in float32 at least."""
        penultimate, logits = self.together(partial(features, network), images)
        return penultimate, logits

    @torch.no_grad()
    def predict(self, images: Tensor, network: nn.Module | None = None) -> Tensor:
        """The logits [B,C] that `adapt` would return for images [B,3,H,W] next; changes nothing.

        The images must be finite: through batch statistics, one that is not affects the others here.
        network: another of the backbone's kind, in place of the one whose predictions are scored.
        """
        network = self.predictor if network is None else network
        return self.corrected(self.predict_by(network, images))

    def predict_by(self, network: nn.Module, images: Tensor) -> Tensor:
        """The logits [B,C] that the method makes of a network and images, such as a mean over views."""
        return self.logits(network, images)

    @property
    def predictor(self) -> nn.Module:
        """The network whose predictions are scored; a teacher, in methods that have one."""
        return self.backbone

    @torch.no_grad()
    def source_logits(self, images: Tensor) -> Tensor:
        """The logits [B,C] of the source model, as `prepare` made it, for images [B,3,H,W]."""
        values = {id(now): then for now, then in zip(self.restorable, self.origin, strict=True)}
        named = named_tensors(self.backbone)
        source = {name: values[id(now)] for name, now in named if id(now) in values}
        # Not by PyTorch's tie_weights, after which a layer under two names keeps the source's tensors.
        call = partial(functional_call, self.backbone, source, tie_weights=False)
        return self.logits(lambda part: call((part,)), images)

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

    def __getattr__(self, name: str) -> Tensor | nn.Module:
        if name in ("backbone", "optimizer", "state", "recovery") and "_arguments" in vars(self):
            raise HoldfastError(
                f"{type(self).__name__}.__init__ uses self.{name}, which exists once the constructor has "
                "returned. Move what needs it to prepare, or to fresh_state for self.state."
            )
        return super().__getattr__(name)
