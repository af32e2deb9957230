"""What a step may change: undone if it is not finite, reset to the source, saved in checkpoints."""

import math
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any, final

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn
from torch.optim import Optimizer

from ..callbacks.recovery import Recovery
from ..tensors import on_host
from .activity import Activity
from .checks import Buffers, check_logits, check_range, fixed_buffers
from .distributed import agreed


class Resettable(LightningModule):
    """A module that undoes steps, returns to its source, and continues from checkpoints with the same bits.

    All that adapts is among `restorable_tensors`, in the optimizer or in `state`. `learnt` contains what
    comes from source images, which resets preserve.
    """

    # The value of `state` at the start and after a reset.
    fresh_state: Callable[[], dict[str, Any]]
    backbone: nn.Module
    optimizer: Optimizer | None
    state: dict[str, Any]
    # The paper's gives way to a Trainer's; one that was passed to the constructor does not.
    recovery: Recovery | None
    recovery_is_the_papers: bool
    # What a step may change, and its values in the source model.
    restorable: list[Tensor]
    source_values: list[Tensor]
    fixed_buffers: Buffers
    snapshot: "Snapshot"

    def __init__(self) -> None:
        super().__init__()
        # A larger one is PyTorch's default, which differs between processes: then the seed is 0.
        seed = torch.initial_seed()
        self.seed = seed if seed < 2**32 else 0
        self.step_count = self.steps_since_reset = self.reset_count = self.not_finite_in_a_row = 0
        self.activity = Activity()
        self.learnt: dict[str, Any] = {}
        # What the last step reports, for the run's record.
        self.trace: dict[str, Any] = {}
        # What the next step should read of its batch, for which the host does not wait a second time.
        self.batch_facts: dict[str, Any] = {}
        # Whether several ranks share the work on each batch.
        self.divides = False

    def restorable_tensors(self) -> Iterator[Tensor]:
        """The tensors, of any shape, a step may change and a reset restores, always in the same order."""
        yield from (p for p in self.parameters() if p.requires_grad)
        yield from self.backbone.buffers()

    def look_up(self) -> None:
        """Look up what each step needs: the tensors that it may change or not, and the dtype of images."""
        self.restorable = list(self.restorable_tensors())
        self.snapshot = Snapshot(self.restorable, self.optimizer)
        self.fixed_buffers = fixed_buffers(self)
        self.image_dtype = next((p.dtype for p in self.backbone.parameters()), None)

    def parameters_with_source(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Each parameter, of any shape, that the optimizer changes, with its value in the source model."""
        pairs = zip(self.restorable, self.origin, strict=True)
        return ((current, source) for current, source in pairs if current.requires_grad)

    @property
    def origin(self) -> list[Tensor]:
        """The values, of any shape, to which resets return: the source's, or those after a warm-up."""
        return self.learnt.get("weights", self.source_values)

    @property
    def never_updated(self) -> bool:
        """Whether there are parameters that adapt, and no step so far has changed one."""
        if self.optimizer is not None and not self.activity.moved:
            differ = [(now != source).any() for now, source in self.parameters_with_source()]
            self.activity.moved = bool(torch.stack(differ).any())
        return self.optimizer is not None and not self.activity.moved

    # ---- whether a step was finite --------------------------------------------------------------

    def all_finite(self, logits: Tensor, images: Tensor) -> bool:
        """Whether a step and its logits [B,C] are finite; scalars of the trace become numbers.

        So do those of `batch_facts`. On an accelerator the host waits once, for all of them.

        Raises HoldfastError if the images [B,3,H,W] are not in [0,1], or the backbone's outputs are
        probabilities.
        """
        total = self.snapshot.magnitude([logits, images.sum()], self.trace.get("loss"))
        if self.divides:
            total = torch.where(agreed(total.isfinite()), total, torch.nan)
        scalars = [
            (facts, name, value.reshape(()))
            for facts in (self.trace, self.batch_facts)
            for name, value in facts.items()
            if isinstance(value, Tensor) and value.device == total.device and value.numel() == 1
        ]
        of_images = images.aminmax()
        answer, lowest, highest, *values = on_host(total, *of_images, *(s[2] for s in scalars))
        check_range(float(lowest), float(highest), self.backbone)
        for (facts, name, _), value in zip(scalars, values, strict=True):
            facts[name] = value.item()
        check_logits(self.batch_facts.pop("unlike_probabilities", math.inf))
        return math.isfinite(float(answer))

    # ---- resets and recoveries ------------------------------------------------------------------

    @final
    @torch.inference_mode(False)
    @torch.no_grad()
    def reset(self, keep_memory: bool = False, weights: Iterable[Tensor] | None = None) -> None:
        """Return to the source model, with a fresh optimizer and fresh method state.

        keep_memory: leave the state that is neither weights nor optimizer, such as a memory of images.
        weights: values, shaped like the parameters of `parameters_with_source`, in place of the source's.
        """
        _ = self.never_updated  # which notices weights that differ, before they are reset
        self.to_source()
        pairs = zip(self.parameters_with_source(), weights or (), strict=False)
        for (parameter, _), weight in pairs:
            parameter.copy_(weight)
        if not keep_memory:
            self.state = self.fresh_state()
        self.steps_since_reset = self.not_finite_in_a_row = 0
        self.reset_count += 1
        torch.clear_autocast_cache()

    @torch.no_grad()
    def to_source(self) -> None:
        """Put the source's values back, with a fresh optimizer."""
        if self.restorable:
            torch._foreach_copy_(self.restorable, self.origin)
        self.forget_steps()
        torch.clear_autocast_cache()

    def forget_steps(self) -> None:
        """Replace the optimizer by a fresh one."""
        if self.optimizer is not None:
            self.optimizer.state.clear()
            if "optimizer" in self.learnt:
                self.optimizer.load_state_dict(deepcopy(self.learnt["optimizer"]))

    @final
    def give_way(self, other: Recovery) -> None:
        """Drop the paper's recovery, as the Trainer has another; one passed as `recovery` stays."""
        if self.recovery is not None and self.recovery_is_the_papers:
            recovery, name = type(self.recovery).__name__, type(self).__name__
            rank_zero_warn(
                f"{type(other).__name__} replaces the {recovery} of {name}. To use both, pass {name} "
                f"recovery={recovery}(...) explicitly."
            )
            self.recovery = None

    # ---- checkpoints and devices ----------------------------------------------------------------

    def get_extra_state(self) -> dict[str, Any]:
        activity = self.activity
        return {
            "counters": (self.step_count, self.steps_since_reset, self.reset_count),
            "not_finite_in_a_row": self.not_finite_in_a_row,
            "activity": (activity.updates, activity.selected, activity.moved),
            "seed": self.seed,
            "state": self.state,
            "learnt": self.learnt,
            "optimizer": self.optimizer.state_dict() if self.optimizer is not None else None,
            "recovery": self.recovery.state_dict() if self.recovery is not None else {},
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        activity, state = self.activity, deepcopy(state)  # an optimizer would use its tensors
        self.step_count, self.steps_since_reset, self.reset_count = state["counters"]
        self.not_finite_in_a_row = state["not_finite_in_a_row"]
        activity.updates, activity.selected, activity.moved = state["activity"]
        self.seed = state["seed"]
        self.state = apply_to_collection(state["state"], Tensor, lambda t: t.to(self.device))
        self.learnt = apply_to_collection(state["learnt"], Tensor, lambda t: t.to(self.device))
        if self.optimizer is not None:
            self.optimizer.load_state_dict(state["optimizer"])
        if self.recovery is not None:
            self.recovery.load_state_dict(state["recovery"])

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Resettable":
        # Moving to a device or to float64 includes tensors that are neither parameters nor buffers.
        super()._apply(fn, recurse)
        self.look_up()
        self.source_values = [fn(tensor) for tensor in self.source_values]
        self.state = apply_to_collection(self.state, Tensor, fn)
        self.learnt = apply_to_collection(self.learnt, Tensor, fn)
        if self.optimizer is not None:
            self.optimizer.load_state_dict(self.optimizer.state_dict())
        return self


class Snapshot:
    """Copies of `tensors`, of an optimizer's state and of a method's, to undo a step.

    The copies of tensors are reused: allocating them for each step would cost a small network a tenth of
    its forward pass, because memory would be returned to the system and faulted in again.
    """

    def __init__(self, tensors: list[Tensor], optimizer: Optimizer | None) -> None:
        self.tensors, self.optimizer = tensors, optimizer
        self.values = [torch.empty_like(tensor, requires_grad=False) for tensor in tensors]
        self.momenta: dict[Any, Any] = {}
        self.layout: list[Any] = []
        self.state: dict[str, Any] = {}

    @torch.no_grad()
    def take(self, state: dict[str, Any]) -> None:
        """Copy the current tensors, optimizer and state."""
        if self.values:
            torch._foreach_copy_(self.values, self.tensors)
        if self.optimizer is not None:
            # If only values have changed since the last copy, that one's memory is used again.
            momenta = self.optimizer.state
            layout = [(id(owner), *values) for owner, values in momenta.items()]
            now, then = _all_values(momenta), _all_values(self.momenta)
            if layout != self.layout or not all(isinstance(value, Tensor) for value in now):
                self.momenta, self.layout = _copied(momenta), layout
            elif now:
                torch._foreach_copy_(then, now)
        self.state = _copied(state)

    @torch.no_grad()
    def undo(self) -> dict[str, Any]:
        """Put tensors and optimizer back; returns the state."""
        for tensor, value in zip(self.tensors, self.values, strict=True):
            tensor.copy_(value)
        if self.optimizer is not None:
            self.optimizer.state.clear()
            self.optimizer.state.update(self.momenta)
            self.optimizer.zero_grad()
            self.momenta, self.layout = {}, []  # these tensors now belong to the optimizer
        torch.clear_autocast_cache()
        return self.state

    @torch.no_grad()
    def magnitude(self, more: list[Tensor], loss: Any = None) -> Tensor:
        """The sum of the absolute values of all that a step may have changed, of `more` and the loss.

        A scalar on their device; it is not finite if a value is not, or beyond 1e38.
        """
        device = more[0].device
        tensors = [*more, *self.tensors, *(t.grad for t in self.tensors if t.grad is not None)]
        if loss is not None:
            tensors.append(torch.as_tensor(loss, device=device))
        if self.optimizer is not None:
            tensors += [v for v in _all_values(self.optimizer.state) if isinstance(v, Tensor)]
        tensors = [t for t in tensors if t.is_floating_point() and t.device == device]
        # On a CPU, sums take a fifth of the time of the largest absolute value.
        return torch.stack(torch._foreach_norm(tensors, 1)).sum()


def _all_values(state: dict[Any, dict[str, Any]]) -> list[Any]:
    """An optimizer's state, parameter by parameter."""
    return [value for values in state.values() for value in values.values()]


def _copied(value: Any) -> Any:
    """A copy of nested dicts and lists of tensors and plain values."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return deepcopy(value)
