"""What every method promises, as checks of a method: see `check_method`."""

import gc
import io
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
import torch.distributed as dist
from lightning.pytorch import Trainer
from timm.models import VisionTransformer
from torch import Tensor, multiprocessing, nn
from torch.utils.data import DataLoader

from .. import HoldfastError
from .base import TTAMethod
from .distributed import averaged

# A method from a backbone: its class, or a partial of it.
Make = Callable[..., TTAMethod]
Net = Callable[[], nn.Module]
# Largest difference between one device and two, in float64: of rounding only.
TOLERANCE = 1e-9
NO_OTHER_RANDOM = (
    "Draw random numbers from self.generator only, work with what `adapt` is given, and leave the "
    "backbone that was passed untouched"
)
STATE = (
    "Return everything that changes between steps from fresh_state and keep it in self.state, or register "
    "it as a parameter or buffer"
)
BOUND = "Bound what is divided by, and what goes into a logarithm or a root, away from zero"
UNDONE = "Leave adapt as it is, which undoes such steps, and keep all that changes in self.state"


def check_method(make: Make, nets: Sequence[str] = (), skip: Sequence[str] = ()) -> None:
    """Check all CHECKS of a method, on each of NETS that it accepts, and raise at the first that fails.

    Args:
        make: the method's class, or a `functools.partial` of it with settings under which a step on six
            8 x 8 images updates the model.
        nets: names of NETS; default: all.
        skip: names of CHECKS to leave out.

    Raises:
        HoldfastError: with what is wrong and what to change.

    Example:
        >>> from holdfast.methods import Tent
        >>> check_method(Tent, nets=["bn"], skip=["memory"])
    """
    refusals = {net: refusal(make, net) for net in nets or NETS}
    accepted = [net for net, sentence in refusals.items() if not sentence]
    if not accepted:
        raise HoldfastError(f"The method refuses all networks: {next(iter(refusals.values()))}")
    for name, check in CHECKS.items():
        for net in accepted:
            if name not in skip and (net == "bn" or name not in ON_BN):
                verify(check, make, net)


def refusal(make: Make, net: str) -> str:
    """The reason why a method refuses a network; "" if it accepts it."""
    try:
        make(NETS[net]())
    except HoldfastError as error:
        return str(error)
    return ""


def verify(check: Callable[..., None], make: Make, net: str, **options: Any) -> None:
    """Check one promise on one network, with the same random numbers at every call."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        check(make, NETS[net], **options)


# ---- steps, predictions, resets and checkpoints -----------------------------------------------------


def deterministic(make: Make, net: Net) -> None:
    """The same steps give the same bits, in a plain loop and in a Trainer."""
    backbone, images = net(), image_batches(6)
    original = {key: value.clone() for key, value in backbone.state_dict().items()}
    bare, trained = make(backbone), make(backbone)
    bare.fit(images[:1])
    images[-1] = images[-1][:4]
    for step, (batch, found) in enumerate(zip(images, tested(trained, images), strict=True)):
        torch.rand(1)  # others may use PyTorch's random numbers, too
        logits = bare.adapt(batch)
        demand(
            logits.shape == (len(batch), 5) and not logits.requires_grad,
            f"adapt returned {tuple(logits.shape)} (with gradient: {logits.requires_grad}) for "
            f"{len(batch)} images of 5 classes",
            "Return one row of detached logits for each image",
        )
        demand_finite([logits], f"at step {step}")
        demand(
            torch.equal(logits, found),
            f"step {step} of the same images has other logits in a Trainer",
            NO_OTHER_RANDOM,
        )
    demand_alike(bare, trained, "after the same steps twice", NO_OTHER_RANDOM)
    demand(
        not differing(original, dict(backbone.state_dict())),
        "the module passed as backbone has changed",
        "Change self.backbone, which is a copy",
    )


def changes(make: Make, net: Net) -> None:
    """A step changes weights, and only those that a reset restores."""
    method = make(net())
    method.fit(image_batches(1))
    before = tensors(method)
    for images in image_batches(9):
        method.adapt(images)
    changed = {name for name in differing(before, tensors(method)) if "num_batches" not in name}
    state = {**dict(method.named_parameters()), **dict(method.named_buffers())}
    restored = {id(tensor) for tensor in method.restorable_tensors()}
    others = sorted(name for name in changed if id(state[name]) not in restored)
    demand(
        not others,
        f"a step changes {', '.join(others[:3])}, which a reset does not restore",
        "Yield these tensors from restorable_tensors, or leave them as they are",
    )
    demand(
        bool(changed) or method.optimizer is None,
        "nine steps on six images have changed no weight, so the other checks show little",
        "Pass settings under which a step updates the model: partial(MyMethod, threshold=2)",
    )
    demand(
        method.step_count == 9,
        f"nine steps have left step_count={method.step_count}",
        "Leave adapt, which counts, as it is and override update",
    )


def predict_changes_nothing(make: Make, net: Net) -> None:
    """Predictions change nothing."""
    method = make(net())
    method.fit(image_batches(1))
    for images in image_batches(3):
        before, state = tensors(method), io_copy(method.get_extra_state())
        method.predict(images)
        names = sorted(differing(before, tensors(method)))
        demand(
            not names and same(state, method.get_extra_state()),
            f"predict changes {', '.join(names[:3]) or 'the state'}",
            "Move what learns or remembers from forward and corrected to update",
        )
        method.adapt(images)


def predict_foretells(make: Make, net: Net) -> None:
    """A prediction has the logits that `adapt` returns next."""
    method = make(net())
    method.fit(image_batches(1))
    for images in image_batches(3):
        demand(
            torch.equal(method.predict(images), method.adapt(images)),
            "adapt returns other logits than predict did just before",
            "Return the logits from before the update, and put corrections of them into corrected",
        )


def reset(make: Make, net: Net) -> None:
    """A reset is a fresh start."""
    backbone, first = net(), image_batches(1)
    method, fresh = make(backbone), make(backbone)
    method.fit(first)
    fresh.fit(first)
    for images in image_batches(6):
        method.adapt(images)
    method.reset()
    names = sorted(differing(tensors(method), tensors(fresh)))
    # Only a recovery sees later, at the first step, that there was a reset.
    ours, theirs = remembered(method), remembered(fresh)
    names += [key for key in ours if key != "recovery" and not same(ours[key], theirs[key])]
    demand(
        not names, f"a reset leaves {', '.join(names[:3])} other than a new method has it", STATE
    )
    for step, images in enumerate(image_batches(3)):
        demand(
            torch.equal(method.adapt(images), fresh.adapt(images)),
            f"step {step} after a reset is not that of a new method",
            STATE,
        )
    names = sorted(differing(tensors(method), tensors(fresh)))
    demand(not names, f"three steps after a reset, {', '.join(names[:3])} differ", STATE)


def resume(make: Make, net: Net) -> None:
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
        for step in range(begin, 12 if begin == 4 else begin + 4):
            demand(
                torch.equal(other.adapt(images[step]), logits[step]),
                f"resumed from a checkpoint of step {begin}, step {step} has other logits",
                STATE,
            )
    demand_alike(method, other, "after a resume", STATE)


# ---- single, unusual and bad images, other precisions, long runs ------------------------------------


def one_image(make: Make, net: Net) -> None:
    """Single images are adapted to."""
    adapt_finitely(make(net()), image_batches(9, size=1), "on single images")


def constant_images(make: Make, net: Net) -> None:
    """Images of one colour leave all numbers finite."""
    colours = [torch.full((4, 3, 8, 8), value) for value in (0.0, 0.0, 0.5, 0.5, 1.0, 1.0)]
    adapt_finitely(make(net()), colours, "on images of one colour")


def certain_predictions(make: Make, net: Net) -> None:
    """Probabilities that round to 1 leave all numbers finite."""
    certain = net()
    certain[-1].weight.data *= 1e4  # type: ignore
    adapt_finitely(make(certain), image_batches(4), "where the model is certain")


def large_images(make: Make, net: Net) -> None:
    """Images of 224 x 224 are adapted to."""
    method = make(net())
    method.fit([torch.rand(2, 3, 224, 224)])
    adapt_finitely(method, [torch.rand(2, 3, 224, 224)], "on images of 224 x 224")


def half_precision(make: Make, net: Net) -> None:
    """Precision bf16-mixed leaves weights and logits in float32."""
    method = make(net())
    logits = tested(method, image_batches(5), precision="bf16-mixed")
    found = {t.dtype for t in (*logits, *tensors(method).values()) if t.is_floating_point()}
    demand(
        found == {torch.float32},
        f"with precision bf16-mixed there are weights or logits of {', '.join(map(str, found))}",
        "Send images through networks by self.logits, and compute losses in float32",
    )
    demand_finite((*logits, *tensors(method).values()), "with precision bf16-mixed")


def double_precision(make: Make, net: Net) -> None:
    """In float64 all is float64."""
    method = make(net())
    method.adapt(image_batches(1)[0])
    method.double()
    for images in image_batches(4):
        found = method.adapt(images.double()).dtype
        demand(
            found == torch.float64,
            f"after method.double() the logits are {found}",
            "Make tensors in the type and on the device of those that come in",
        )


def not_finite(make: Make, net: Net) -> None:
    """Images that are not finite are left out, and batches of them change nothing."""
    backbone, spoilt, ruined = net(), 0, 3
    for value in (torch.nan, torch.inf, -torch.inf):
        method, other = make(backbone), make(backbone)
        for number, batch in enumerate(image_batches(8)):
            if number == ruined:
                logits = method.adapt(spoiled(batch, value, slice(None)))
                pass_over(other)
                expected = {"not_finite": 1, "not_finite_images": len(batch)}
                demand(bool(logits.isnan().all()), f"images of {value} have logits", UNDONE)
                demand(method.trace == expected, f"the trace is {method.trace}", UNDONE)
            elif number == spoilt:
                logits = method.adapt(spoiled(batch, value))
                good = [k for k in range(len(batch)) if k != 1]
                alone = torch.equal(logits[good], other.adapt(batch[good]))
                demand(alone, f"an image of {value} changes the logits of the others", UNDONE)
                demand(bool(logits[1].isnan().all()), f"an image of {value} has logits", UNDONE)
                counted = method.trace.pop("not_finite_images", 0)
                demand(counted == 1, f"{counted} images were counted as not finite, not 1", UNDONE)
                demand(same(method.trace, other.trace), "the trace counts images left out", UNDONE)
            else:
                equal = torch.equal(method.adapt(batch), other.adapt(batch))
                demand(equal, f"after images of {value}, logits differ", UNDONE)
        demand_alike(method, other, f"after images of {value}", UNDONE)


def memory(make: Make, net: Net, steps: int = 1000) -> None:
    """Memory does not grow over the steps: numbers of objects, as bytes depend on the allocator."""
    images, counts = image_batches(16), []
    gc.collect()
    gc.freeze()  # what was there before is not counted
    try:
        method = make(net())
        for step in range(steps):
            method.adapt(images[step % len(images)])
            if step % 5 == 4:  # out of phase with memories that learn at every fourth step
                counts.append(alive())
    finally:
        gc.unfreeze()
    for name in counts[0]:
        numbers = [count[name] for count in counts]
        half = len(numbers) // 2
        more = max(numbers[half:]) - max(numbers[:half])
        demand(
            more < steps // 4 + 128 * (name == "numbers"),  # a state that appears late
            f"from step {steps // 2:,} to {steps:,} the number of {name} in memory grows by {more:,}",
            "Bound what is remembered between steps, and detach what is summed up",
        )


def alive() -> dict[str, int]:
    """The number of tensors, of their elements, of nodes in gradient graphs, and of all objects."""
    gc.collect()
    objects = gc.get_objects()
    found = [thing for thing in objects if isinstance(thing, Tensor)]
    return {
        "tensors": len(found),
        "numbers": sum(tensor.numel() for tensor in found),
        "nodes": sum(len(nodes(tensor)) for tensor in found if tensor.grad_fn is not None),
        "objects": len(objects),
    }


def nodes(tensor: Tensor) -> set[Any]:
    """The nodes of the graph that computes the gradients of a tensor of any shape."""
    left, seen = [tensor.grad_fn], set[Any]()
    while left:
        if (node := left.pop()) is not None and node not in seen:
            seen.add(node)
            left += [below for below, _ in node.next_functions]
    return seen


CHECKS: dict[str, Callable[..., None]] = {
    check.__name__: check
    for check in (
        *(deterministic, changes, predict_changes_nothing, predict_foretells, reset, resume),
        *(one_image, constant_images, certain_predictions, large_images, half_precision),
        *(double_precision, not_finite, memory),
    )
}
# Checks for which one network suffices.
ON_BN = ("certain_predictions", "large_images", "double_precision", "not_finite", "memory")


# ---- two devices ------------------------------------------------------------------------------------


def check_on_two_devices(make: Make, net: str = "bn") -> None:
    """Check that two devices which divide each batch, as `strategy="sync"` has it, give the results of one.

    Starts two processes, which import `make`.

    Raises:
        HoldfastError: if logits or weights differ by more than rounding.
    """
    with TemporaryDirectory() as folder:
        multiprocessing.spawn(save_rank, ({"": (make, net)}, folder), nprocs=2)
        (found,) = torch.load(Path(folder) / "0.pt").values()
    compare(found, make, net)


def save_rank(rank: int, makes: dict[str, tuple[Make, str]], folder: str) -> None:
    """Save the `outcome` of each method on its network, as one of two ranks."""
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    found = {name: outcome(make, net) for name, (make, net) in makes.items()}
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def outcome(make: Make, net: str) -> dict[str, list[Tensor]]:
    """Logits [B,C] and weights of steps in float64, divided over the ranks of this process if it is one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        method = make(NETS[net]()).double()
        images = [batch.double() for batch in image_batches(6, size=7)]  # not the same for two
        method.divides = dist.is_initialized()
        for parameter, _ in method.parameters_with_source() if method.divides else ():
            parameter.register_hook(averaged)
        method.fit(images[:1])
        logits = [method.adapt(batch) for batch in images]
    return {"logits": logits, "weights": [t.detach() for t in method.restorable_tensors()]}


def compare(found: dict[str, list[Tensor]], make: Make, net: str) -> None:
    """Demand that two ranks give the same logits [B,C] and weights as one device."""
    for name, expected in outcome(make, net).items():
        pairs = zip(found[name], expected, strict=True)
        apart = max((float((a - b).abs().max()) for a, b in pairs), default=0.0)
        demand(
            apart <= TOLERANCE,
            f"on two devices that divide each batch, {name} differ from one device's by {apart:.1g}",
            "Send images through networks by self.logits, and draw random numbers from self.generator",
        )


# ---- small networks and images ----------------------------------------------------------------------


def batch_norm_net(classes: int = 5) -> nn.Module:
    """A network with two batch normalisation layers, for images of any size."""
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()),
        *(nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes)),
    )


def group_norm_net() -> nn.Module:
    """The same network with group normalisation."""
    net = cast(nn.Sequential, batch_norm_net())
    net[1], net[4] = nn.GroupNorm(2, 8), nn.GroupNorm(4, 16)
    return net


def vision_transformer() -> nn.Module:
    """A vision transformer of four blocks, for images of 8 x 8 pixels."""
    size = {"img_size": 8, "patch_size": 4, "embed_dim": 16, "depth": 4, "num_heads": 2}
    return VisionTransformer(num_classes=5, **size).eval()  # type: ignore[arg-type]


NETS: dict[str, Net] = {"bn": batch_norm_net, "gn": group_norm_net, "vit": vision_transformer}


def image_batches(count: int, size: int = 6) -> list[Tensor]:
    """Random images [size,3,8,8]."""
    return list(torch.rand(count, size, 3, 8, 8))


def spoiled(batch: Tensor, value: float = torch.nan, images: slice | int = 1) -> Tensor:
    """The images [B,3,H,W] with a bad pixel in some of them."""
    batch = batch.clone()
    batch[images, 2, 4, 4] = value
    return batch


def tested(method: TTAMethod, images: list[Tensor], **options: Any) -> list[Tensor]:
    """The logits [B,C] of each batch, from a Trainer."""
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = Trainer(accelerator="cpu", devices=1, **quiet, **options)
    data = [(batch, torch.zeros(len(batch), dtype=torch.int64)) for batch in images]
    return trainer.predict(method, DataLoader(data, batch_size=None))  # type: ignore


def pass_over(method: TTAMethod) -> None:
    """The method's state after a step that should change nothing."""
    method.recover()
    method.step_count += 1
    method.steps_since_reset += 1


# ---- comparisons ------------------------------------------------------------------------------------


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


def demand(holds: bool, wrong: str, change: str) -> None:
    """Raise an error of these two sentences unless the condition holds."""
    if not holds:
        raise HoldfastError(f"{wrong}. {change}.")


def demand_alike(method: TTAMethod, other: TTAMethod, when: str, change: str) -> None:
    """Demand that two methods have the same weights and state."""
    names = sorted(differing(tensors(method), tensors(other)))
    ours, theirs = method.get_extra_state(), other.get_extra_state()
    names += [key for key in ours if not same(ours[key], theirs[key])]
    demand(not names, f"{when}, {', '.join(names[:3])} differ", change)


def demand_finite(values: Iterable[Tensor], when: str) -> None:
    """Demand that all tensors, of any shape, are finite."""
    finite = all(bool(value.isfinite().all()) for value in values)
    demand(finite, f"{when}, logits or weights are not finite", BOUND)


def adapt_finitely(method: TTAMethod, batches: list[Tensor], when: str) -> None:
    """Demand that steps on images [B,3,H,W] are not undone, and leave logits and weights finite."""
    for images in batches:
        logits = method.adapt(images)
        undone = "not_finite" in method.trace
        demand(not undone, f"{when}, a step's loss, gradient or logits are not finite", BOUND)
        demand_finite([logits], when)
    demand_finite(tensors(method).values(), when)
