"""What all adaptation methods share: one online step, prediction, reset, complete state."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from inspect import currentframe
from typing import Any, ClassVar, final

import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn
from torch.func import functional_call

from ... import HoldfastError
from ...callbacks.features import features
from ...callbacks.recovery import Recovery
from ..backbones import load_backbone, weights_hash
from ..backbones.structure import stage_ends
from ..backbones.top import no_top, top_norms
from ..backbones.user_network import with_logits
from ..distributed.sync import divided
from ..functional import full_precision, seeded
from ..parts.norm import batch_norms, needs_batch, norm_affine, use_batch_statistics
from .activity import Activity
from .image_checks import check_images, first_dtype
from .online_loop import Metrics, OnlineTest
from .optimizer import OptimizerFactory, check_loss, check_precision, made, sgd
from .passes import check_passes, in_passes
from .snapshot import Before, finite_step
from .source_data import first_batches, usable


class TTAMethod(OnlineTest):
    """A model that adapts to the stream of images on which it is tested.

    A subclass stores its arguments and then calls `super().__init__`, which copies the backbone,
    prepares the copy and stores it as the source. It overrides what its paper changes: `prepare`,
    `adaptable_parameters`, `loss`, `fresh_state`, or `update` as a whole. Everything that adapts is in
    `state_dict`: parameters, buffers, the optimizer and `self.state`. If it sends images through
    networks by `self.logits` only and draws random numbers from `self.generator`, it also works on
    several devices at once (`Trainer(strategy="sync")`).

    Args:
        backbone: logits [B,C] (or a mapping or object that has them as `logits`) from images [B,3,H,W]
            in [0,1], with the normalisation inside; or the name of one, for `load_backbone`. The module
            given is left untouched.
        optimizer: makes the optimizer from the parameters that adapt; default: SGD with learning rate
            2.5e-4 and momentum 0.9.
        metrics: see `OnlineTest`.
        steps: updates on each batch; the logits of the last one's forward pass are scored. Recoveries and
            the trace see the last one only. Methods with a memory repeat their updates on it.
        window: adapt to the last `window` images, for streams of single images. The newest ones' logits are
            scored, with the statistics of the window; an update follows after each `window` images.
        recovery: a reset or restore that belongs to the method, which works with and without a
            Trainer.

    Example:
        >>> from torch import nn
        >>> from holdfast.methods import Tent
        >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(288, 5))
        >>> Tent(net).adapt(torch.rand(4, 3, 8, 8)).shape
        torch.Size([4, 5])
    """

    # Arguments under which a network with random weights makes a step do all its work, for measuring
    # what it costs; the key is what the row is called behind the method's name.
    workloads: ClassVar[dict[str, dict[str, Any]]] = {"": {}}
    not_finite_limit: ClassVar[int] = 5  # steps in a row that are not finite reset the model
    recovery_yields = False  # whether one among the Trainer's callbacks takes its place
    by_image = False  # whether `update` takes one image at a time and scores it after its step
    skipped_layers: Sequence[str] = ()  # normalisation layers at the top that do not adapt
    source_images = 0  # how many `learn_source` looks at, in whole batches; 0: it is not called
    source_data: LightningDataModule | None = None  # theirs; None: the first ones of the stream

    def __init__(
        self,
        backbone: nn.Module | str,
        optimizer: OptimizerFactory = sgd,
        metrics: Metrics | None = None,
        steps: int = 1,
        window: int | None = None,
        recovery: Recovery | None = None,
    ) -> None:
        super().__init__(metrics)
        self.recovery = recovery
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
        self.learnt: dict[str, Any] = {}  # what `learn_source` has returned
        self.steps, self.window, self._pass, self._image = steps, window, 0, 0
        self.state = self.first_state()
        self.seed = torch.initial_seed()
        self.step_count = self.steps_since_reset = self.reset_count = self.not_finite_in_a_row = 0
        self.trace: dict[str, Any] = {}  # what the last step reports, for the run's record
        self.last_step: tuple[Tensor, Tensor] | None = (
            None  # its images and logits, see `corrected`
        )
        self.collecting = False  # whether no update was due in the last step
        self.activity = Activity()
        self.chosen: dict[str, Any] = {}  # what steps took for arguments that are None
        self.remember_arguments(currentframe(), self.optimizer)

    # ---- what a paper changes -------------------------------------------------------------------

    def prepare(self) -> None:
        """Change the backbone before its source state is stored; default: use batch statistics."""
        use_batch_statistics(self.backbone)

    def adaptable_parameters(self) -> Iterable[nn.Parameter]:
        """The parameters that adapt; default: scale and shift of every normalisation layer."""
        return self.norm_affine()

    def fresh_state(self) -> dict[str, Any]:
        """What the method remembers between steps, as at the start: tensors and plain values."""
        return {}

    def learn_source(self, batches: Iterator[tuple[Tensor, Tensor]]) -> dict[str, Any]:
        """The value of `learnt`: what the method learns from source images before the stream
        begins.

        Tensors and plain values; a reset leaves them as they are. `batches` are images [B,3,H,W], all of
        them finite, and labels [B], -1 where they are not known.
        """
        return {}

    def loss(self, logits: Tensor, images: Tensor) -> Tensor | None:
        """The scalar to minimise on this batch; None leaves the model as it is."""
        raise NotImplementedError

    def update(self, images: Tensor) -> Tensor:
        """Forward pass, loss and optimizer step; returns the logits [B,C] from before the step."""
        logits = self(images)
        loss = self.loss(logits, images)
        if loss is not None:
            self.descend(loss)
        return logits

    def corrected(self, logits: Tensor) -> Tensor:
        """The logits [B,C] to score, from those that `update` returned (default: unchanged)."""
        return logits

    def criterion(self, logits: Tensor) -> str:
        """For a warning: the condition for selecting an image, and how the images of logits [B,C]
        compare with it."""
        return ""

    # ---- what all share -------------------------------------------------------------------------

    @final
    def fit(self, batches: Iterable[Any]) -> None:
        """Learn from source images before the stream begins, if the method has anything to learn.

        A Trainer calls it with images of `source_data`, or else with the first ones of the stream.

        Args:
            batches: images [B,3,H,W], or with their labels, as a DataLoader gives them. Images that
                are not finite are ignored.
        """
        if self.source_images:
            with torch.inference_mode(False), torch.enable_grad():
                self.learnt = self.learn_source(usable(batches, next(self.backbone.parameters())))
            self._source = self.learnt.get("weights", self._source)

    def start(self) -> dict[str, Any]:
        """The weights and optimizer state to which resets return, for a `learn_source` that trains."""
        assert self.optimizer is not None
        weights = [tensor.detach().clone() for tensor in self._current]
        return {"weights": weights, "optimizer": deepcopy(self.optimizer.state_dict())}

    @property
    def lacks_source(self) -> bool:
        """Whether `fit` must still be called."""
        return bool(self.source_images) and not self.learnt

    def on_test_start(self) -> None:
        if self.lacks_source:  # else resumed, or fitted by hand
            self.fit(first_batches(self, self.source_data, self.source_images))

    on_predict_start = on_test_start

    def forward(self, images: Tensor) -> Tensor:
        """Logits [B,C] of the backbone as it is now, in float32 at least."""
        return self.logits(self.backbone, images)

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
        return full_precision(network(images))

    def features(self, network: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
        """Penultimate features [B,D] and logits [B,C] of such a network, in float32 at least."""
        width = 0

        def both(images: Tensor) -> Tensor:
            nonlocal width
            found, logits = features(network, images)
            width = found.shape[1]
            return torch.cat([found, logits], 1)

        found, logits = self.logits(both, images).tensor_split([width], 1)
        return found, logits

    @property
    def never_updated(self) -> bool:
        """Whether there are parameters that adapt, and no step so far has changed one."""
        return self.optimizer is not None and not self.activity.has_moved(self)

    @property
    def predictor(self) -> nn.Module:
        """The network whose predictions are scored; a teacher, in methods that have one."""
        return self.backbone

    def stages(self) -> list[str]:
        """The modules that end the stages of `predictor`, in the order of computation; [] if none."""
        return stage_ends(self.predictor)

    def norm_affine(self, skip_top: bool = False) -> list[nn.Parameter]:
        """Scale and shift of the normalisation layers, perhaps without the top layers': `top_norms`.

        Raises HoldfastError if there is none.
        """
        if skip_top:
            self.skipped_layers = top_norms(self.backbone)
        params = list(norm_affine(self.backbone, self.skipped_layers))
        if not params:
            raise HoldfastError(
                f"{type(self).__name__} adapts the scale and shift of normalisation layers, and "
                "this backbone has none. Choose a backbone with such layers, or Source."
            )
        if skip_top and not self.skipped_layers:
            rank_zero_warn(no_top(type(self).__name__))
        return params

    def require_running_statistics(self) -> None:
        """Raise HoldfastError unless the backbone has batch normalisation with running statistics."""
        if not any(batch_norms(self.backbone)) or needs_batch(self.backbone):
            raise HoldfastError(
                f"{type(self).__name__} predicts with running statistics, and this backbone has "
                "none. Choose a backbone with BatchNorm layers that track them."
            )

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

    def adapt(self, images: Tensor) -> Tensor:
        """One online step on images [B,3,H,W] in [0,1]; returns the logits [B,C] that are scored.

        Images that are not finite are left out: the step is that of the others, their own logits are NaN,
        and the trace has their number as `not_finite_images`. A step in which anything else is not finite,
        or all images, changes nothing, and its trace is {"not_finite": 1}.
        """
        with self._turn, torch.inference_mode(False), torch.enable_grad():
            self.recover()
            self.check_images(images)
            if self.lacks_source:
                rank_zero_warn(
                    f"{type(self).__name__} will fit to this batch alone. Call fit with source "
                    "images first."
                )
                self.fit([images])
            logits = finite_step(self, images.clone() if images.is_inference() else images)
            self.activity.after_step(self, logits)
            self.step_count += 1
            self.steps_since_reset += 1
            if self.recovery is not None:
                self.recovery.after_step(self)
        return logits

    def check_images(self, images: Any) -> None:
        """Refuse what `adapt` cannot take: anything but a batch [B,3,H,W] in [0,1], of the model's type."""
        check_images(images, self.backbone, self._expected, first=not self.step_count)

    @torch.no_grad()
    def predict(self, images: Tensor) -> Tensor:
        """The logits [B,C] that `adapt` would return for images [B,3,H,W] next; changes nothing.

        The images must be finite: through batch statistics, one that is not affects the others here.
        """
        return self.corrected(self.tried(images) if self.by_image else self(images))

    def tried(self, images: Tensor) -> Tensor:
        """The logits [B,C] that updates on these images would give; all changes are undone."""
        before, trace = Before(self._current, self.optimizer), self.trace
        before.remember(self.state)
        self.trace = {}
        with torch.inference_mode(False), torch.enable_grad():
            logits = in_passes(self, images.clone() if images.is_inference() else images).detach()
        self.state, self.trace = before.undo(), trace
        return logits

    def predict_by(self, network: nn.Module, images: Tensor) -> Tensor:
        """The logits [B,C] of another network of the backbone's kind, computed as `predict` does.

        For example, CoTTA's predictions are means over many views.
        """
        with torch.no_grad():
            return self.corrected(self.logits(network, images))

    @torch.no_grad()
    def source_logits(self, images: Tensor) -> Tensor:
        """The logits [B,C] of the source model, as `prepare` made it, for images [B,3,H,W]."""
        backbone = self.backbone
        named = (*backbone.named_parameters(), *backbone.named_buffers())
        names = {id(tensor): name for name, tensor in named}
        source = {
            names[id(current)]: value
            for current, value in zip(self._current, self._source, strict=True)
            if id(current) in names
        }

        def network(images: Tensor) -> Tensor:
            return functional_call(backbone, source, (images,))

        return self.logits(network, images)

    def recover_with(self, recovery: Recovery | bool, own: Recovery) -> None:
        """Choose the recovery: the paper's own (True), which a recovery of the Trainer replaces;
        another one; or none.
        """
        self.recovery = recovery if isinstance(recovery, Recovery) else own if recovery else None
        self.recovery_yields = recovery is True

    @final
    def recover(self) -> None:
        """Reset if the method's own recovery or too many non-finite steps require it."""
        if self.not_finite_in_a_row >= self.not_finite_limit:
            self.reset()
        if self.recovery is not None:
            self.recovery.before_step(self)

    @final
    @torch.inference_mode(False)
    @torch.no_grad()
    def reset(self, keep_memory: bool = False, weights: Iterable[Tensor] | None = None) -> None:
        """Return to the source model, with a fresh optimizer and fresh method state.

        keep_memory: leave the state that is neither weights nor optimizer, such as a memory of images.
        weights: values for the parameters of `parameters_with_source`, in place of the source's.
        """
        self.activity.has_moved(self)
        self.to_source()
        for (parameter, _), weight in zip(
            self.parameters_with_source(), weights or (), strict=False
        ):
            parameter.copy_(weight)
        if not keep_memory:
            self.state = self.first_state()
        self.steps_since_reset = self.not_finite_in_a_row = 0
        self.reset_count += 1
        torch.clear_autocast_cache()

    @torch.no_grad()
    def to_source(self) -> None:
        """Put the source's values back, with a fresh optimizer."""
        if self._source:
            torch._foreach_copy_(self._current, self._source)
        self.forget_steps()
        torch.clear_autocast_cache()

    def first_state(self) -> dict[str, Any]:
        """The result of `fresh_state`, with an empty window if the method has one."""
        return check_passes(self, self.fresh_state())

    def passes(self) -> Iterator[int]:
        """The number of each of the `steps` passes; `generator` gives different numbers in each."""
        for number in range(self.steps):
            self._pass = number
            yield number
        self._pass = 0

    def singles(self, images: Tensor) -> Iterator[Tensor]:
        """Each of the images as a batch [1,3,H,W]; `generator` gives different numbers for each."""
        for number, image in enumerate(images.split(1)):
            self._image = number
            yield image
        self._image = 0

    def forget_steps(self) -> None:
        """Replace the optimizer by a fresh one."""
        if self.optimizer is not None:
            self.optimizer.state.clear()
            if "optimizer" in self.learnt:  # after a warm-up
                self.optimizer.load_state_dict(deepcopy(self.learnt["optimizer"]))

    def restorable_tensors(self) -> Iterator[Tensor]:
        """The tensors a step may change and a reset restores, always in the same order."""
        yield from (p for p in self.parameters() if p.requires_grad)
        yield from self.backbone.buffers()

    def parameters_with_source(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Each parameter that the optimizer changes, with its value in the source model."""
        pairs = zip(self._current, self._source, strict=True)
        return ((current, source) for current, source in pairs if current.requires_grad)

    def generator(self, purpose: str) -> torch.Generator:
        """Random numbers that depend only on the run's seed, the step since the reset and `purpose`."""
        turn = f" pass {self._pass}" if self._pass else ""
        turn += f" image {self._image}" if self._image else ""
        return seeded(f"{self.seed} {self.steps_since_reset} {purpose}{turn}", self.device)

    def get_extra_state(self) -> dict[str, Any]:
        return {
            "counters": (self.step_count, self.steps_since_reset, self.reset_count),
            "not_finite_in_a_row": self.not_finite_in_a_row,
            "activity": self.activity.state(),
            "seed": self.seed,
            "state": self.state,
            "learnt": self.learnt,
            "optimizer": self.optimizer.state_dict() if self.optimizer is not None else None,
            "recovery": self.recovery.state_dict() if self.recovery is not None else {},
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        state = deepcopy(state)  # an optimizer would go on using the tensors it is given
        self.step_count, self.steps_since_reset, self.reset_count = state["counters"]
        self.not_finite_in_a_row = state.get("not_finite_in_a_row", 0)
        self.activity.load(state["activity"])
        self.seed = state["seed"]
        self.state = apply_to_collection(state["state"], Tensor, lambda t: t.to(self.device))
        self.learnt = apply_to_collection(state["learnt"], Tensor, lambda t: t.to(self.device))
        self._source = self.learnt.get("weights", self._source)
        if self.optimizer is not None:
            self.optimizer.load_state_dict(state["optimizer"])
        if self.recovery is not None:
            self.recovery.load_state_dict(state["recovery"])

    def _take_stock(self) -> None:
        """Look up what each step needs: the weights' tensors, their copies, the dtype of images."""
        self._current = list(self.restorable_tensors())
        self.before = Before(self._current, self.optimizer)
        self._expected = first_dtype(self.backbone)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "TTAMethod":
        # Moving to a device or to float64 includes tensors that are neither parameters nor buffers.
        super()._apply(fn, recurse)
        self._take_stock()
        self._source = [fn(tensor) for tensor in self._source]
        self.state = apply_to_collection(self.state, Tensor, fn)
        self.learnt = apply_to_collection(self.learnt, Tensor, fn)
        self._source = self.learnt.get("weights", self._source)
        if self.optimizer is not None:
            self.optimizer.load_state_dict(self.optimizer.state_dict())
        return self
