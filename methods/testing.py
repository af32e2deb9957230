"""What every method promises, as checks of a method: see `check_method`."""

import gc
import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import torch
import torch.distributed as dist
from lightning.pytorch import Trainer
from timm.models import VisionTransformer
from torch import Tensor, multiprocessing, nn
from torch.utils.data import DataLoader

from .. import HoldfastError
from .backbones.clip import ZeroShot
from .base import TTAMethod
from .distributed import averaged

# A method from a backbone: its class, or a partial of it.
Make = Callable[..., TTAMethod]
Net = Callable[[], nn.Module]
# Largest difference between one device and two, in float64: of rounding only.
_TOLERANCE = 1e-9


def check_method(make: Make, nets: Sequence[str] = (), skip: Sequence[str] = ()) -> None:
    """Check all CHECKS of a method, on each of NETS that it accepts, and raise at the first that fails.

    Args:
        make: the method's class, or a `functools.partial` of it with settings under which a step on six
            8 x 8 images updates the model.
        nets: names of NETS; default: all.
        skip: names of CHECKS to leave out.

    Raises HoldfastError with what is wrong and what to change.

    Example:
        >>> from holdfast.methods import Tent
        >>> check_method(Tent, nets=["bn"], skip=["memory"])
    """
    accepted, refusals = [], []
    for net in nets or NETS:
        try:
            make(NETS[net]())
            accepted.append(net)
        except HoldfastError as error:
            refusals.append(str(error))
    if not accepted:
        raise HoldfastError(f"The method refuses all networks: {refusals[0]}")
    for name, check in CHECKS.items():
        for net in accepted:
            if name not in skip and (net == "bn" or not check.on_bn_only):
                verify(name, make, net)


def verify(check: str, make: Make, net: str, **options: Any) -> None:
    """Check one promise on one network, with the same random numbers at every call.

    Raises HoldfastError with what is wrong and what to change.
    """
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        for wrong in CHECKS[check].wrong(make, NETS[net], **options):
            raise HoldfastError(f"{wrong}. {CHECKS[check].remedy}.")


class _Check(NamedTuple):
    """A promise: what is wrong with a method, what to change, and whether one network suffices."""

    wrong: Callable[..., Iterator[str]]
    remedy: str
    on_bn_only: bool


CHECKS: dict[str, _Check] = {}
Wrong = Callable[..., Iterator[str]]


def promise(remedy: str, on_bn_only: bool = False) -> Callable[[Wrong], Wrong]:
    """Decorates a check, which yields a sentence for everything that is wrong, and enters it in CHECKS."""

    def entered(wrong: Wrong) -> Wrong:
        CHECKS[wrong.__name__] = _Check(wrong, remedy, on_bn_only)
        return wrong

    return entered


# ---- the promises -----------------------------------------------------------------------------------

_STATE = (
    "Return everything that changes between steps from fresh_state and keep it in self.state, or register "
    "it as a parameter or buffer"
)
_BOUND = "Bound what is divided by, and what goes into a logarithm or a root, away from zero"


@promise(
    "Draw random numbers from self.generator only, work with what `adapt` is given, return detached "
    "logits, and leave the backbone that was passed untouched"
)
def deterministic(make: Make, net: Net) -> Iterator[str]:
    """The same steps give the same bits, in a plain loop and in a Trainer."""
    backbone, images = net(), image_batches(4)
    original = {key: value.clone() for key, value in backbone.state_dict().items()}
    bare, trained = make(backbone), make(backbone)
    bare.fit(images[:1])
    images[-1] = images[-1][:4]
    pairs = zip(images, _tested(trained, images), strict=True)
    for step, (batch, expected) in enumerate(pairs):
        torch.rand(1)  # others may use PyTorch's random numbers, too
        logits = bare.adapt(batch)
        if logits.shape != (len(batch), 5) or logits.requires_grad:
            yield (
                f"adapt returned {tuple(logits.shape)} (with gradient: {logits.requires_grad}) for "
                f"{len(batch)} images of 5 classes, not a row of detached logits for each image"
            )
        if not logits.isfinite().all():
            yield f"at step {step} the logits are not finite"
        if not torch.equal(logits, expected):
            yield f"step {step} of the same images has other logits in a Trainer"
    if names := unlike(bare, trained):
        yield f"after the same steps twice, {names} differ"
    if differing(original, dict(backbone.state_dict())):
        yield "the module passed as backbone has changed"


@promise(
    "Yield what a step changes from restorable_tensors, override update instead of adapt, and pass "
    "settings under which a step updates the model: partial(MyMethod, threshold=2)"
)
def changes(make: Make, net: Net) -> Iterator[str]:
    """A step changes weights, and only those that a reset restores."""
    method = make(net())
    method.fit(image_batches(1))
    before = tensors(method)
    for images in image_batches(9):
        method.adapt(images)
    changed = {name for name in differing(before, tensors(method)) if "num_batches" not in name}
    state = {**dict(method.named_parameters()), **dict(method.named_buffers())}
    restored = {id(tensor) for tensor in method.restorable_tensors()}
    if others := sorted(name for name in changed if id(state[name]) not in restored):
        yield f"a step changes {', '.join(others[:3])}, which a reset does not restore"
    if not changed and method.optimizer is not None:
        yield "nine steps on six images have changed no weight, so the other checks show little"
    if method.step_count != 9:
        yield f"nine steps have left step_count={method.step_count}"


@promise("Move what learns or remembers from predict_by and corrected to update")
def predict_changes_nothing(make: Make, net: Net) -> Iterator[str]:
    """Predictions change nothing."""
    method = make(net())
    method.fit(image_batches(1))
    for images in image_batches(3):
        before, state = tensors(method), io_copy(method.get_extra_state())
        method.predict(images)
        names = sorted(differing(before, tensors(method)))
        if names or not same(state, method.get_extra_state()):
            yield f"predict changes {', '.join(names[:3]) or 'the state'}"
        method.adapt(images)


@promise("Return the logits from before the update, and put corrections of them into corrected")
def predict_foretells(make: Make, net: Net) -> Iterator[str]:
    """A prediction has the logits that `adapt` returns next."""
    method = make(net())
    method.fit(image_batches(1))
    for images in image_batches(3):
        if not torch.equal(method.predict(images), method.adapt(images)):
            yield "adapt returns other logits than predict did just before"


@promise(_STATE)
def reset(make: Make, net: Net) -> Iterator[str]:
    """A reset is a fresh start."""
    backbone, first = net(), image_batches(1)
    method, fresh = make(backbone), make(backbone)
    method.fit(first)
    fresh.fit(first)
    for images in image_batches(6):
        method.adapt(images)
    method.reset()
    if unequal := unlike(method, fresh, _COUNTED):
        yield f"after a reset, {unequal} differ from a new method's"
    for step, images in enumerate(image_batches(3)):
        if not torch.equal(method.adapt(images), fresh.adapt(images)):
            yield f"step {step} after a reset is not that of a new method"
    if others := differing(tensors(method), tensors(fresh)):
        yield f"three steps after a reset, {', '.join(sorted(others)[:3])} differ"


@promise(_STATE)
def resume(make: Make, net: Net) -> Iterator[str]:
    """A checkpoint of any step continues with the same bits."""
    backbone, images = net(), image_batches(12)
    method, other = make(backbone), make(backbone)
    begins = 7, 6, 5, 4  # each phase of a memory that learns at every fourth image or step
    saved, logits = {}, []
    for step, batch in enumerate(images):
        if step in begins:
            saved[step] = io_copy(method.state_dict())
        logits.append(method.adapt(batch))
    torch.manual_seed(99)
    other.seed = 99
    other.adapt(torch.rand(2, 3, 8, 8))
    for begin in begins:
        other.load_state_dict(saved[begin])
        for step in range(begin, 12 if begin == 4 else 9):
            if not torch.equal(other.adapt(images[step]), logits[step]):
                yield f"resumed from a checkpoint of step {begin}, step {step} has other logits"
    if names := unlike(method, other):
        yield f"after a resume, {names} differ"


@promise(_BOUND)
def unusual_images(make: Make, net: Net) -> Iterator[str]:
    """Single images, and images of one colour, leave all numbers finite."""
    colours = [torch.full((4, 3, 8, 8), value) for value in (0.0, 0.0, 0.5, 1.0)]
    yield from _not_finite_on(image_batches(5, size=1), make(net()), "single images")
    yield from _not_finite_on(colours, make(net()), "images of one colour")


@promise(_BOUND, on_bn_only=True)
def extremes(make: Make, net: Net) -> Iterator[str]:
    """Probabilities that round to 1, and images of 224 x 224, leave all numbers finite."""
    certain = net()
    certain[-1].weight.data *= 1e4  # type: ignore
    yield from _not_finite_on(image_batches(4), make(certain), "probabilities that round to 1")
    method = make(net())
    method.fit([torch.rand(2, 3, 224, 224)])
    yield from _not_finite_on([torch.rand(2, 3, 224, 224)], method, "images of 224 x 224")


def _not_finite_on(batches: list[Tensor], method: TTAMethod, what: str) -> Iterator[str]:
    """Whether a step on images [B,3,H,W] is undone, or leaves logits or weights that are not finite."""
    for images in batches:
        numbers = (method.adapt(images), *tensors(method).values())
        if "not_finite" in method.trace or not all(n.isfinite().all() for n in numbers):
            yield f"on {what}, the loss, gradient, logits or weights of a step are not finite"


@promise("Send images through networks by self.logits, and make tensors in the type of those given")
def precisions(make: Make, net: Net) -> Iterator[str]:
    """In precision bf16-mixed, weights and logits are finite and float32; in float64, all is float64."""
    method = make(net())
    logits = _tested(method, image_batches(5), precision="bf16-mixed")
    for tensor in (*logits, *tensors(method).values()):
        if tensor.dtype in (torch.float16, torch.bfloat16) or not tensor.isfinite().all():
            yield f"with precision bf16-mixed, weights or logits are {tensor.dtype} or not finite"
    method.double()
    for images in image_batches(4):
        dtype = method.adapt(images.double()).dtype
        if dtype != torch.float64:
            yield f"after method.double() the logits are {dtype}"


@promise(
    "Leave adapt as it is, which undoes such steps, and keep all that changes in self.state",
    on_bn_only=True,
)
def not_finite(make: Make, net: Net) -> Iterator[str]:
    """Images that are not finite are left out, and batches of them change nothing."""
    backbone, good = net(), [0, 2, 3, 4, 5]
    method, other = make(backbone), make(backbone)
    spoilt = {0: torch.nan, 1: torch.inf, 2: -torch.inf}
    ruined = {4: torch.inf, 5: torch.nan}
    for number, batch in enumerate(image_batches(8)):
        if value := ruined.get(number):
            logits = method.adapt(spoiled(batch, value, slice(None)))
            pass_over(other)
            expected = {"not_finite": 1, "not_finite_images": len(batch)}
            if not logits.isnan().all() or method.trace != expected:
                yield f"images of {value} have logits, or the trace {method.trace}"
        elif value := spoilt.get(number):
            logits = method.adapt(spoiled(batch, value))
            if not torch.equal(logits[good], other.adapt(batch[good])):
                yield f"an image of {value} changes the logits of the others"
            expected = {**other.trace, "not_finite_images": 1}
            if not logits[1].isnan().all() or not same(method.trace, expected):
                yield f"an image of {value} has logits, or the trace {method.trace}"
        elif not torch.equal(method.adapt(batch), other.adapt(batch)):
            yield "after images that are not finite, logits differ"
    if names := unlike(method, other):
        yield f"after images that are not finite, {names} differ"


@promise("Bound what is remembered between steps, and detach what is summed up", on_bn_only=True)
def memory(make: Make, net: Net, steps: int = 1000) -> Iterator[str]:
    """Memory does not grow over the steps: numbers of objects, as bytes depend on the allocator."""
    images, counts = image_batches(16), []
    frozen = gc.get_freeze_count()
    gc.collect()
    gc.freeze()  # what was there before is not counted
    try:
        method = make(net())
        for step in range(steps):
            method.adapt(images[step % len(images)])
            if step % 5 == 4:  # out of phase with memories that learn at every fourth step
                counts.append(_alive())
    finally:
        if not frozen:  # else by a caller, for whom it stays so
            gc.unfreeze()
    for name in counts[0]:
        numbers = [count[name] for count in counts]
        half = len(numbers) // 2
        more = max(numbers[half:]) - max(numbers[:half])
        if more >= steps // 4 + 128 * (name == "numbers"):  # a state that appears late
            yield f"from step {steps // 2:,} to {steps:,} the number of {name} grows by {more:,}"


def _alive() -> dict[str, int]:
    """The number of tensors, of their elements, of nodes in gradient graphs, and of all objects."""
    gc.collect()
    objects = gc.get_objects()
    tensors = [thing for thing in objects if isinstance(thing, Tensor)]
    nodes, left = set[Any](), [tensor.grad_fn for tensor in tensors]
    while left:
        if (node := left.pop()) is not None and node not in nodes:
            nodes.add(node)
            left += [below for below, _ in node.next_functions]
    numbers = sum(map(Tensor.numel, tensors))
    counts = len(tensors), numbers, len(nodes), len(objects)
    return dict(zip(("tensors", "numbers", "nodes", "objects"), counts, strict=True))


# ---- two devices ------------------------------------------------------------------------------------


def check_on_two_devices(make: Make, net: str = "bn") -> None:
    """Check that two devices which divide each batch, as `strategy="sync"` has it, give the results of one.

    Starts two processes, which import `make`.

    Raises HoldfastError if logits or weights differ by more than rounding.
    """
    with TemporaryDirectory() as folder:
        multiprocessing.spawn(save_rank, ({"": (make, net)}, folder), nprocs=2)
        (divided,) = torch.load(Path(folder) / "0.pt").values()
    compare(divided, make, net)


def save_rank(rank: int, makes: dict[str, tuple[Make, str]], folder: str) -> None:
    """Save the `_outcome` of each method on its network, as one of two ranks."""
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    outcomes = {name: _outcome(make, net) for name, (make, net) in makes.items()}
    torch.save(outcomes, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def _outcome(make: Make, net: str) -> dict[str, list[Tensor]]:
    """Logits [B,C] and weights of steps in float64, divided over the ranks of this process if it is one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        method = make(NETS[net]()).double()
        images = [batch.double() for batch in image_batches(4, size=7)]  # not the same for two
        method.divides = dist.is_initialized()
        for parameter, _ in method.parameters_with_source() if method.divides else ():
            parameter.register_hook(averaged)
        method.fit(images[:1])
        logits = [method.adapt(batch) for batch in images]
    return {"logits": logits, "weights": [t.detach() for t in method.restorable_tensors()]}


def compare(divided: dict[str, list[Tensor]], make: Make, net: str) -> None:
    """Raise HoldfastError unless two ranks give the same logits [B,C] and weights as one device."""
    for name, expected in _outcome(make, net).items():
        pairs = zip(divided[name], expected, strict=True)
        apart = max((float((a - b).abs().max()) for a, b in pairs), default=0.0)
        if not apart <= _TOLERANCE:
            raise HoldfastError(
                f"On two devices that divide each batch, {name} differ from one device's by {apart:.1g}. "
                "Send images through networks by self.logits, and draw random numbers from self.generator."
            )


# ---- small networks and images ----------------------------------------------------------------------


def batch_norm_net(classes: int = 5) -> nn.Module:
    """A network with two batch normalisation layers, for images of any size."""
    layers = [nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()]
    layers += [nn.Conv2d(8, 16, 3, 2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes)]
    return nn.Sequential(*layers)


def _group_norm_net() -> nn.Module:
    """The same network with group normalisation."""
    net = cast(nn.Sequential, batch_norm_net())
    net[1], net[4] = nn.GroupNorm(2, 8), nn.GroupNorm(4, 16)
    return net


def vision_transformer(classes: int = 5) -> nn.Module:
    """A vision transformer of four blocks, for images of 8 x 8 pixels."""
    size = {"img_size": 8, "patch_size": 4, "embed_dim": 16, "depth": 4, "num_heads": 2}
    return VisionTransformer(num_classes=classes, **size).eval()  # type: ignore[arg-type]


class Towers(nn.Module):
    """A model of images of 8 x 8 pixels and of texts of bytes, as CLIP is one."""

    def __init__(self) -> None:
        super().__init__()
        self.visual, self.embedding = vision_transformer(classes=8), nn.Embedding(256, 8)
        self.norm, self.logit_scale = nn.LayerNorm(8), nn.Parameter(torch.tensor(3.0))

    def encode_text(self, tokens: Tensor) -> Tensor:
        """Features [N,8] of tokens [N,L]."""
        return self.norm(self.embedding(tokens)).mean(1)


def byte_tokens(texts: list[str]) -> Tensor:
    """A 1, the bytes of a text, and 255 to the end, for each text: [N,40]."""
    return torch.tensor([[1, *text.encode().ljust(38, b"\xff"), 255] for text in texts])


def zero_shot_net() -> ZeroShot:
    """A zero-shot classifier of five classes."""
    names, half = ["oak", "elm", "ash", "yew", "fir"], [0.5] * 3
    return ZeroShot(Towers(), byte_tokens, names, ["a photo of a {}."], half, half).eval()


NETS: dict[str, Net] = {
    "bn": batch_norm_net,
    "gn": _group_norm_net,
    "vit": vision_transformer,
    "clip": zero_shot_net,
}


def image_batches(count: int, size: int = 6) -> list[Tensor]:
    """Random images [size,3,8,8]."""
    return list(torch.rand(count, size, 3, 8, 8))


def spoiled(batch: Tensor, value: float = torch.nan, images: slice | int = 1) -> Tensor:
    """The images [B,3,H,W] with a bad pixel in some of them."""
    batch = batch.clone()
    batch[images, 2, 4, 4] = value
    return batch


def _tested(method: TTAMethod, images: list[Tensor], **options: Any) -> list[Tensor]:
    """The logits [B,C] of each batch, from a Trainer."""
    quiet = ("logger", "enable_progress_bar", "enable_model_summary")
    options |= dict.fromkeys(quiet, False)
    trainer = Trainer(accelerator="cpu", devices=1, **options)
    data = [(batch, torch.zeros(len(batch), dtype=torch.int64)) for batch in images]
    return trainer.predict(method, DataLoader(data, batch_size=None))  # type: ignore


def pass_over(method: TTAMethod) -> None:
    """The method's state after a step that should change nothing."""
    method.recover()
    method.step_count += 1
    method.steps_since_reset += 1


# ---- comparisons ------------------------------------------------------------------------------------

# What a reset leaves in the extra state: counts, and a recovery that notices the reset at the next step.
_COUNTED = ("counters", "activity", "recovery")


def tensors(method: TTAMethod) -> dict[str, Tensor]:
    """A copy of every parameter and buffer of the networks, of any shape, by name."""
    state = {**dict(method.named_parameters()), **dict(method.named_buffers())}
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def differing(a: dict[str, Tensor], b: dict[str, Tensor]) -> set[str]:
    """The names whose tensors, of any shape, differ."""
    assert a.keys() == b.keys()
    return {name for name in a if not torch.equal(a[name], b[name])}


def unlike(method: TTAMethod, other: TTAMethod, ignored: Iterable[str] = ()) -> str:
    """The names of the weights and of the extra state in which two methods differ: three at most."""
    names = sorted(differing(tensors(method), tensors(other)))
    ours, theirs = method.get_extra_state(), other.get_extra_state()
    names += [key for key in ours.keys() - set(ignored) if not same(ours[key], theirs[key])]
    return ", ".join(names[:3])


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
