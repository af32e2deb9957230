"""What the checks share: tiny networks, images, comparisons and failure messages."""

import io
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

import torch
from lightning.pytorch import Trainer
from timm.models import VisionTransformer
from torch import Tensor, nn
from torch.utils.data import DataLoader

from ... import HoldfastError
from ..engine.base import TTAMethod

Make = Callable[..., TTAMethod]  # a method from a backbone, as a class or a partial of one
Net = Callable[[], nn.Module]


class Check(NamedTuple):
    """A property that every method must have. `verify` raises a HoldfastError that says what is
    wrong and what to change."""

    promise: str
    function: Callable[..., None]
    nets: tuple[str, ...]

    def verify(self, make: Make, net: Net, **options: int) -> None:
        """Check it with the same random numbers at every call."""
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            self.function(make, net, **options)


CHECKS: dict[str, Check] = {}


def promises(promise: str, *nets: str) -> Callable[[Callable], Callable]:
    """Register a function in CHECKS, for networks of these names; default: all of NETS."""

    def entered(function: Callable[[Make, Net], None]) -> Callable:
        CHECKS[function.__name__] = Check(promise, function, nets or tuple(NETS))
        return function

    return entered


def batch_norm_net(classes: int = 5) -> nn.Module:
    """A network with two batch normalisation layers, for images of any size."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, classes),
    )


def group_norm_net() -> nn.Module:
    """The same network with group normalisation."""
    net = cast(nn.Sequential, batch_norm_net())
    net[1], net[4] = nn.GroupNorm(2, 8), nn.GroupNorm(4, 16)
    return net


def vision_transformer() -> nn.Module:
    """A vision transformer of four blocks, for images of 8 x 8 pixels."""
    size: dict[str, Any] = {
        "img_size": 8,
        "patch_size": 4,
        "embed_dim": 16,
        "depth": 4,
        "num_heads": 2,
    }
    return VisionTransformer(num_classes=5, **size).eval()


NETS: dict[str, Net] = {"bn": batch_norm_net, "gn": group_norm_net, "vit": vision_transformer}


def image_batches(count: int, size: int = 6) -> list[Tensor]:
    """Random images [size,3,8,8]."""
    return list(torch.rand(count, size, 3, 8, 8))


def tensors(method: TTAMethod) -> dict[str, Tensor]:
    """A copy of every parameter and buffer of the networks, of any shape, by name."""
    state = {**dict(method.named_parameters()), **dict(method.named_buffers())}
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def differing(a: dict[str, Tensor], b: dict[str, Tensor]) -> set[str]:
    """The names whose tensors, of any shape, differ."""
    assert a.keys() == b.keys()
    return {name for name in a if not torch.equal(a[name], b[name])}


def remembered(method: TTAMethod) -> dict[str, Any]:
    """The method's extra state without its counters."""
    extra = method.get_extra_state()
    del extra["counters"], extra["activity"]
    return extra


def same(a: Any, b: Any) -> bool:
    """Whether two nested structures of dicts, lists and tensors are equal."""
    if isinstance(a, Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def io_copy(state: Any) -> Any:
    """Save to a file and load, as for a checkpoint."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def spoiled(batch: Tensor, value: float = torch.nan, images: slice | int = 1) -> Tensor:
    """The images [B,3,H,W], with a bad pixel in those at `where`."""
    batch = batch.clone()
    batch[images, 2, 4, 4] = value
    return batch


def pass_over(method: TTAMethod) -> None:
    """The method's state after a step that should change nothing."""
    method.recover()
    method.step_count += 1
    method.steps_since_reset += 1


def demand(holds: bool, wrong: str, change: str) -> None:
    """Raise an error of these two sentences unless the condition holds."""
    if not holds:
        raise HoldfastError(f"{wrong}. {change}.")


def demand_alike(method: TTAMethod, other: TTAMethod, when: str, change: str) -> None:
    """Demand that two methods have the same weights and state."""
    names = sorted(differing(tensors(method), tensors(other)))
    demand(not names, f"{when}, these weights differ: {', '.join(names[:3])}", change)
    ours, theirs = method.get_extra_state(), other.get_extra_state()
    names = [key for key in ours if not same(ours[key], theirs[key])]
    demand(not names, f"{when}, the state differs in {', '.join(names)}", change)


def demand_finite(values: Iterable[Tensor], when: str) -> None:
    """Raise HoldfastError unless all tensors, of any shape, are finite."""
    for value in values:
        demand(
            bool(value.isfinite().all()),
            f"{when}, logits or weights are not finite",
            "Bound what is divided by, and what goes into a logarithm or a root, away from zero",
        )


def adapt_finitely(method: TTAMethod, images: Tensor, when: str) -> Tensor:
    """The logits [B,C] of a step, which must be finite; the step must not be undone."""
    logits = method.adapt(images)
    demand(
        "not_finite" not in method.trace,
        f"{when}, a step is undone, as its loss, gradient or logits are not finite",
        "Bound what is divided by, and what goes into a logarithm or a root, away from zero",
    )
    demand_finite([logits], when)
    return logits


def tested(method: TTAMethod, images: list[Tensor], **options: Any) -> list[Tensor]:
    """The logits [B,C] of each batch, from a Trainer."""
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = Trainer(accelerator="cpu", **{"devices": 1, **quiet, **options})
    data = [(batch, torch.zeros(len(batch), dtype=torch.int64)) for batch in images]
    return trainer.predict(method, DataLoader(data, batch_size=None))  # type: ignore
