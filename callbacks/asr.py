"""ASR: adaptive and selective resets, with a pull towards earlier weights."""

import math

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from .. import HoldfastError, in_range
from .functional.scores import agreement, softmax_entropy
from .protocols import Adapting
from .resets import Reset


class ASR(Reset):
    """Resets the layers near the output when predictions concentrate (adaptive selective reset, 2026).

    Each batch has the entropy h of the softmax of its mean logits, and the share f of its images for
    which source and adapted model predict different classes. h below the threshold resets; otherwise
    the threshold follows by threshold <- m threshold + (1 - m) h, m = 1 - `follow` (1 - f), and begins
    at ln(`start` C). A reset leaves the first share max(`keep` - `selectivity` (threshold - h), 0) of
    the adapted tensors as they are. After the first one, the loss of each step has the penalty `pull`
    f^2 sum F (theta - M)^2, f being the previous batch's: F and M are the mean squared gradient and the
    mean value of each weight since the previous reset, averaged over resets (0.9 old, 0.1 new).

    It adds one forward pass of the source model to each step. Defaults are those for a ResNet-50.

    Args:
        follow: m_0, how fast the threshold follows.
        start: a_0.
        pull: p_0.
        keep: r_0.
        selectivity: r_1.
        anchor: as the official code does with ROID: leave the adapted weights alone, and reset selectively
            the copy of the source with which ROID averages them.
        keep_memory: see `Reset`.
    """

    STATE = ("weight", "fisher", "mean", "threshold", "due", "age", "sums")

    def __init__(
        self,
        follow: float = 0.15,
        start: float = 0.5,
        pull: float = 5.0,
        keep: float = 0.5,
        selectivity: float = 20.0,
        anchor: bool = False,
        keep_memory: bool = False,
    ) -> None:
        in_range(0, 1, follow=follow)
        in_range(1e-6, 1, start=start)
        in_range(0, pull=pull, selectivity=selectivity)
        self.follow, self.start, self.pull = follow, start, pull
        self.keep, self.selectivity = keep, selectivity
        self.anchor, self.keep_memory = anchor, keep_memory
        self.handle: RemovableHandle | None = None
        # Of this step: squared gradients, and the weights before it.
        self.seen: tuple[list[Tensor], list[Tensor]] | None = None
        self.forget()

    def forget(self) -> None:
        """Return to the initial state."""
        self.weight = 0.0  # of the penalty
        self.fisher: list[Tensor] = []
        self.mean: list[Tensor] = []
        self.begin()

    def begin(self) -> None:
        """Start a new period after a reset."""
        self.threshold: float | None = None
        self.due: float | None = None  # the share of tensors that a due reset leaves alone
        self.age = 0  # steps since the last reset
        self.sums: list[list[Tensor]] = []  # over these steps, of what `seen` has

    # ---- before a step --------------------------------------------------------------------------

    def should_reset(self, method: Adapting) -> bool:
        return self.due is not None

    def before_step(self, method: Adapting) -> None:
        if self.anchor and "anchor" not in method.state:
            raise HoldfastError(
                f"anchor=True, but {type(method).__name__} does not average with a copy of the "
                "source. Use ROID, or pass anchor=False."
            )
        self.notice(method)
        super().before_step(method)
        self.stop_listening()
        self.seen = None
        if method.optimizer is not None:
            self.handle = method.optimizer.register_step_pre_hook(lambda *_: self.penalise(method))

    def notice(self, method: Adapting) -> None:
        """Return to the initial state if something else has reset the method."""
        if method.steps_since_reset == 0 and self.age:
            self.forget()

    def reset(self, method: Adapting) -> None:
        """Reset the adapted tensors except the first share `due` of them."""
        assert self.due is not None
        squares, values = self.sums
        self.fisher = _averaged(self.fisher, [total / self.age for total in squares])
        self.mean = _averaged(self.mean, [total / self.age for total in values])
        pairs = list(method.parameters_with_source())
        weights = [current.detach().clone() for current, _ in pairs]
        left = math.ceil(self.due * len(pairs))
        mixed = [*weights[:left], *(source.clone() for _, source in pairs[left:])]
        method.reset(self.keep_memory, weights if self.anchor else mixed)
        if self.anchor:
            method.state["anchor"] = mixed
        self.begin()

    def stop_listening(self) -> None:
        """Remove the hook."""
        if self.handle is not None:
            self.handle.remove()
        self.handle = None

    @torch.no_grad()
    def penalise(self, method: Adapting) -> None:
        """Record the gradients, then add those of the penalty."""
        self.notice(method)
        params = [p for p, _ in method.parameters_with_source()]
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in params]
        self.seen = [g**2 for g in grads], [p.clone() for p in params]
        penalty = torch.zeros((), device=params[0].device)
        for p, g, fisher, mean in zip(params, grads, self.fisher, self.mean, strict=False):
            apart = fisher.to(p) * (p - mean.to(p))
            p.grad = g + 2 * self.weight * apart
            penalty = penalty + self.weight * (apart * (p - mean.to(p))).sum()
        method.trace["penalty"] = penalty

    # ---- after it -------------------------------------------------------------------------------

    def observe(self, method: Adapting) -> None:
        self.stop_listening()
        if method.steps_since_reset == 1 and self.age:
            self.forget()

    def learn(self, method: Adapting, images: Tensor, logits: Tensor) -> None:
        params = [p.detach() for p, _ in method.parameters_with_source()]
        if self.seen is None:  # the method skipped its step
            self.seen = [torch.zeros_like(p) for p in params], [p.clone() for p in params]
        old = self.sums or [[torch.zeros_like(p) for p in params] for _ in self.seen]
        self.sums = [
            [a.to(b) + b for a, b in zip(*both, strict=True)]
            for both in zip(old, self.seen, strict=True)
        ]
        self.age += 1
        same = agreement(method.source_logits(images).argmax(1), logits.argmax(1))
        of_mean = softmax_entropy(logits.mean(0))
        entropy, share = torch.stack([of_mean, 1 - same]).tolist()
        self.judge(entropy, share, logits.shape[1])
        method.trace |= {"mean_logits_entropy": entropy, "flipped": share}

    def judge(self, entropy: float, share: float, classes: int) -> None:
        """Whether a reset is due after a batch, and what the next one is compared with."""
        if self.threshold is None:
            self.threshold = math.log(self.start * classes)
        if entropy < self.threshold:
            self.due = max(self.keep - self.selectivity * (self.threshold - entropy), 0.0)
        else:
            self.due = None
            m = 1 - self.follow * (1 - share)
            self.threshold = m * self.threshold + (1 - m) * entropy
        self.weight = self.pull * share**2

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.stop_listening()


def _averaged(before: list[Tensor], new: list[Tensor]) -> list[Tensor]:
    """0.9 of each earlier average, of any shape, plus 0.1 of the new value, which is the first average."""
    pairs = zip(before or new, new, strict=True)
    return [0.9 * average.to(value) + 0.1 * value for average, value in pairs]
