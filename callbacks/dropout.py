"""Many passes with dropout for the price of fewer: where it is put, and how passes are shared."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from .. import HoldfastError

# layer1 of ResNets, layers.0 and stages.0 of hierarchical nets, blocks.0 of timm's ViTs,
# encoder_layer_0 and features.0 of torchvision's
STAGE = re.compile(r"^(|.*\.)(layer|layers\.|stages\.|blocks\.|encoder_layer_|features\.)(\d+)$")
PLACES = 4
# Values after the first module in one large batch: on a CPU what its cache holds, else 512 MiB.
CPU_BUDGET, BUDGET = 2**19, 2**27


def stages(network: nn.Module, places: int = PLACES) -> list[str]:
    """The modules that end `places` equal parts of a network, found by structure, in order.

    These are layer1 to layer4 of a ResNet, blocks 2, 5, 8 and 11 of a ViT-B; a network with fewer
    stages has fewer places.
    """
    groups: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for name, _ in network.named_modules():
        if match := STAGE.match(name):
            groups.setdefault((match[1], match[2]), []).append((int(match[3]), name))
    outermost = sorted((g for g in groups if len(groups[g]) > 1), key=lambda g: g[0].count("."))
    if not outermost:
        raise HoldfastError(
            f"{type(network).__name__} has no stages like layer1, blocks.0 or stages.0: name the "
            "modules after which dropout is to act in `layers`."
        )
    names = [name for _, name in sorted(groups[outermost[0]])]
    count = min(places, len(names))
    return [names[-(-len(names) * part // count) - 1] for part in range(1, count + 1)]


def dropout_rate(classes: int) -> float:
    """AETTA's rate: 0.4 for CIFAR-10, 0.3 for CIFAR-100 and ImageNet-R, 0.2 for ImageNet."""
    return 0.4 if classes <= 10 else 0.3 if classes <= 200 else 0.2


def dropped(x: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Each element zero with probability `rate`, to the nearest 2^-16, else scaled by 1 / (1 - rate).

    16 random bits for each element; on a CPU, `bernoulli_` takes twenty times as long.
    """
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)
    bits = bits.random_(-(2**63), None, generator=generator).view(torch.int16)[: x.numel()]
    keep = bits >= round(rate * 2**16) - 2**15
    return (x * keep.view(x.shape)).mul_(1 / (1 - rate))


class DropoutPasses:
    """Predictions of a network with element-wise dropout after some of its modules.

    What lies before the first of them is computed once: `record` keeps the first one's output during
    an ordinary forward pass, and the passes go on from there, many in one large batch. Layers that
    normalise by the statistics of their batch see each pass by itself, so the result is that of the
    passes one by one.

    Args:
        network: logits [B,C] from images [B,3,H,W].
        layers: names of its modules, in the order of computation; None: `stages(network)`.
        at_once: passes in one large batch; None: as many as are fast and fit into memory.
    """

    def __init__(
        self, network: nn.Module, layers: Sequence[str] | None = None, at_once: int | None = None
    ) -> None:
        self.network, self.at_once = network, at_once
        known = dict(network.named_modules())
        names = stages(network) if layers is None else layers
        if not names or (missing := [name for name in names if name not in known]):
            raise HoldfastError(
                f"the network has no module {missing[0] if names else '(none named)'}: "
                f"its modules are {', '.join(list(known)[1:30])}, ..."
            )
        self.first, *self.later = (known[name] for name in names)
        self.images: Tensor | None = None
        self.shared: Tensor | None = None

    @contextmanager
    def record(self, images: Tensor) -> Iterator[None]:
        """Keep what the first module makes of `images`, should the network meanwhile be given them."""
        self.images, self.shared = images, None
        seen: list[bool] = []

        def entering(module: nn.Module, args: tuple[Any, ...]) -> None:
            seen[:] = [bool(args) and args[0] is images]

        def leaving(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
            if seen and seen[-1]:
                self.shared = output

        with ExitStack() as stack:
            stack.enter_context(_hook(self.network.register_forward_pre_hook(entering)))
            stack.enter_context(_hook(self.first.register_forward_hook(leaving)))
            yield

    def __call__(
        self, images: Tensor, passes: int, rate: float, generator: torch.Generator
    ) -> Tensor:
        """Logits [N,B,C] of N passes."""
        if self.images is not images or self.shared is None:
            with self.record(images):
                self.network(images)
        shared = self.shared
        assert shared is not None
        self.images = self.shared = None
        budget = CPU_BUDGET if shared.device.type == "cpu" else BUDGET
        at_once = self.at_once or max(1, budget // max(1, shared.numel()))
        logits = []
        for start in range(0, passes, at_once):
            count = min(at_once, passes - start)
            logits.append(self._together(images, shared, count, rate, generator))
        return torch.cat(logits)

    def _together(
        self, images: Tensor, shared: Tensor, count: int, rate: float, generator: torch.Generator
    ) -> Tensor:
        many = shared.repeat(count, *(1,) * (shared.dim() - 1))

        def drop(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
            return dropped(output, rate, generator)

        with ExitStack() as stack:
            stack.enter_context(_instead(self.first, lambda *_, **__: many))
            for module in (self.first, *self.later):
                stack.enter_context(_hook(module.register_forward_hook(drop)))
            for layer in self.network.modules():
                if count > 1 and isinstance(layer, _BatchNorm) and uses_batch(layer):
                    stack.enter_context(_instead(layer, by_parts(layer.forward, count)))
            logits = self.network(images)
        return logits.unflatten(0, (count, -1))


def uses_batch(layer: _BatchNorm) -> bool:
    """Whether the layer's output for an image may depend on the rest of the batch."""
    plain = type(layer).forward is _BatchNorm.forward
    return layer.training or layer.running_mean is None or not plain


def by_parts(forward: Callable[[Tensor], Tensor], parts: int) -> Callable[[Tensor], Tensor]:
    """`forward` of each of equal parts of the batch by itself."""
    return lambda x: torch.cat([forward(part) for part in x.chunk(parts)])


@contextmanager
def _hook(handle: Any) -> Iterator[None]:
    with handle:
        yield


@contextmanager
def _instead(module: nn.Module, forward: Callable[..., Tensor]) -> Iterator[None]:
    """Another `forward` of one module for a while; its hooks still run."""
    assert "forward" not in vars(module), "this module's forward is already replaced"
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
