"""Dropout passes: where dropout acts, and how passes share computation."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from .. import HoldfastError

# Values after the first module in one large batch: on a CPU what fits into its cache, else 512 MiB.
_CPU_BUDGET, _BUDGET = 2**18, 2**27


def dropout_rate(classes: int) -> float:
    """AETTA's rate: 0.4 for CIFAR-10, 0.3 for CIFAR-100 and ImageNet-R, 0.2 for ImageNet."""
    return 0.4 if classes <= 10 else 0.3 if classes <= 200 else 0.2


def dropped(x: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Zero elements of x, of any shape, with probability `rate` (to 2^-16); scale others by 1 / (1 - rate).

    16 random bits for each element; on a CPU, `bernoulli_` takes twenty times as long.
    """
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)
    bits = bits.random_(-(2**63), None, generator=generator).view(torch.int16)[: x.numel()]
    keep = (bits >= round(rate * 2**16) - 2**15).to(x.dtype)
    if x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last):
        keep = keep.view(x.permute(0, 2, 3, 1).shape).permute(0, 3, 1, 2)
    return keep.view_as(x).mul_(x).mul_(1 / (1 - rate))


class DropoutPasses:
    """Predictions of a network with element-wise dropout after some of its modules.

    The layers before the first dropout are computed once: `record` stores their output during an ordinary
    forward pass, and the passes continue from there, several in one large batch. Layers that use batch
    statistics see each pass separately, so the result equals that of separate passes.

    Args:
        network: logits [B,C] from images [B,3,H,W].
        layers: names of its modules, in the order of computation.
        at_once: passes in one large batch; None: as many as are fast and fit into memory.
    """

    def __init__(
        self, network: nn.Module, layers: Sequence[str], at_once: int | None = None
    ) -> None:
        self.network, self.at_once = network, at_once
        known = dict(network.named_modules())
        if not layers:
            raise HoldfastError(
                f"{type(network).__name__} has no stages such as layer1, blocks.0 or stages.0. "
                "Name in `layers` the modules after which to apply dropout."
            )
        if missing := [name for name in layers if name not in known]:
            raise HoldfastError(
                f"The network has no module {missing[0]}. Its modules are "
                f"{', '.join(list(known)[1:30])}, ..."
            )
        self.first, *self.later = (known[name] for name in layers)
        self.name = layers[0]
        path = layers[0].split(".")
        holders = [self.network.get_submodule(".".join(path[:depth])) for depth in range(len(path))]
        # The largest modules that may lie before the first dropout, and the one that it follows.
        children = (m for h in holders for m in h.children() if m not in holders)
        self.pieces = list(dict.fromkeys(children))  # a layer may have several names
        self.recorder: _Recorder | None = None

    @contextmanager
    def record(self, images: Tensor) -> Iterator[None]:
        """Store the first modules' output for `images` if the network processes them meanwhile."""
        self.recorder = recorder = _Recorder(images, self.first)
        with ExitStack() as stack:
            stack.enter_context(torch.compiler.set_stance("force_eager"))  # which calls hooks
            # First, since a later hook may hand the network a copy of the images.
            first = self.network.register_forward_pre_hook(recorder.enter, prepend=True)
            stack.enter_context(first)
            for piece in self.pieces:
                stack.enter_context(piece.register_forward_hook(recorder.leave))
            yield

    def __call__(
        self, images: Tensor, passes: int, rate: float, generator: torch.Generator
    ) -> Tensor:
        """Logits [N,B,C] of N passes."""
        recorder = self.recorder
        if recorder is None or recorder.images is not images or self.first not in recorder.outputs:
            with self.record(images):
                self.network(images)
        assert self.recorder is not None
        outputs, self.recorder = self.recorder.outputs, None
        if self.first not in outputs:
            raise HoldfastError(
                f"The network does not use its module {self.name}. Name others in `layers`."
            )
        (shared,) = outputs[self.first]
        budget = _CPU_BUDGET if shared.device.type == "cpu" else _BUDGET
        at_once = self.at_once or max(1, budget // max(1, shared.numel()))
        logits = []
        for start in range(0, passes, at_once):
            count = min(at_once, passes - start)
            logits.append(self._together(images, outputs, count, rate, generator))
        return torch.cat(logits)

    def _together(
        self,
        images: Tensor,
        outputs: dict[nn.Module, list[Any]],
        count: int,
        rate: float,
        generator: torch.Generator,
    ) -> Tensor:
        """Logits [count,B,C] of passes in one large batch, from the recorded outputs of modules."""
        (shared,) = outputs[self.first]
        many = shared.repeat(count, *[1] * (shared.dim() - 1)) if count > 1 else shared

        def drop(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
            return dropped(output, rate, generator)

        with ExitStack() as stack:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            for piece, values in outputs.items():
                known = [many] if piece is self.first else list(values)
                stack.enter_context(_instead(piece, _replay(piece.forward, known)))
            for module in (self.first, *self.later):
                stack.enter_context(module.register_forward_hook(drop))
            for layer in self.network.modules():
                if count > 1 and layer not in outputs and _uses_batch(layer):
                    stack.enter_context(_instead(layer, _by_parts(layer.forward, count)))
            logits = self.network(images)
        return logits.unflatten(0, (count, -1))


class _Recorder:
    """Hooks that store the outputs of modules while a network processes some images.

    They end with the output of `last`, the module that the first dropout follows.
    """

    def __init__(self, images: Tensor, last: nn.Module) -> None:
        self.images, self.last, self.recording = images, last, False
        self.outputs: dict[nn.Module, list[Any]] = {}

    def enter(self, network: nn.Module, args: tuple[Any, ...]) -> None:
        """Begin if the network is called with these images, before its forward pass."""
        self.recording = self.last not in self.outputs and bool(args) and args[0] is self.images
        if self.recording:
            self.outputs = {}

    def leave(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """Store a module's output."""
        if self.recording and module is self.last:
            self.recording = False
            # The network may go on to overwrite it, as an activation in place does.
            self.outputs[module] = [*self.outputs.get(module, []), output.clone()]
        elif self.recording:
            self.outputs.setdefault(module, []).append(output)


def _uses_batch(layer: nn.Module) -> bool:
    """Whether this is a normalisation layer whose output for an image may depend on the other ones."""
    if not isinstance(layer, _BatchNorm):
        return False
    plain = type(layer).forward is _BatchNorm.forward
    return layer.training or layer.running_mean is None or not plain


def _by_parts(forward: Callable[[Tensor], Tensor], parts: int) -> Callable[[Tensor], Tensor]:
    """`forward` applied to each of equal parts of the batch [B,...] separately."""
    return lambda x: torch.cat([forward(part) for part in x.chunk(parts)])


def _replay(forward: Callable[..., Any], outputs: list[Any]) -> Callable[..., Any]:
    """`forward` that returns stored outputs for its first calls."""
    return lambda *args, **kwargs: outputs.pop(0) if outputs else forward(*args, **kwargs)


@contextmanager
def _instead(module: nn.Module, forward: Callable[..., Tensor]) -> Iterator[None]:
    """Replace the `forward` of one module temporarily; its hooks still run."""
    assert "forward" not in vars(module), "this module's forward is already replaced"
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
