"""Source models: the embedded networks, and AETTA's for CIFAR-10 and CIFAR-100 (Lee et al. 2024)."""

import copy
import datetime
import hashlib
import json
import math
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import PIL
import torch
from PIL import features
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from ... import HoldfastError
from ...datamodules import CIFAR, Digits, Glyphs, ImageSource
from ...datamodules.counter import random_bits
from ...files import whole_file
from ...methods.backbones import normalised
from ...methods.backbones.nets import CIFARResNet18, GlyphNet
from ...methods.parts.norm import use_batch_statistics

BATCH, WIDTH, DECAY = 128, 16, 1e-2  # of the embedded networks
PEAKS = {"batch": 1e-2, "group": 3e-3}  # their learning rates by normalisation
MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
EPOCHS, PAD = 200, 4  # AETTA's
SGD: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4, "nesterov": True}
AETTA_OPTIMIZER = "SGD, cosine from 0.1 to 0, Nesterov momentum 0.9, weight decay 0.0005"


class EmbeddedRecipe(NamedTuple):
    """How the network of an embedded data set is trained."""

    source: Callable[..., ImageSource]
    steps: int
    depth: int  # blocks per stage
    calibration: int  # number of images for measuring the accuracy


class CIFARRecipe(NamedTuple):
    """AETTA's settings for a data set."""

    classes: Literal[10, 100]
    batch: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


EMBEDDED = {
    "glyphs": EmbeddedRecipe(Glyphs, 8000, 2, 20_480),
    "digits": EmbeddedRecipe(Digits, 200, 1, 300),
}
CIFARS = {
    "cifar10": CIFARRecipe(10, 64, (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)),
    "cifar100": CIFARRecipe(100, 128, (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
}


def write_embedded(
    out: Path,
    name: str,
    seed: int,
    steps: int | None = None,
    width: int = WIDTH,
    size: int | None = None,
    norm: str = "batch",
) -> dict[str, str]:
    """Train a GlyphNet for an embedded data set; returns the facts stored with its weights."""
    recipe, begin = EMBEDDED[name], time.perf_counter()
    steps = steps or recipe.steps
    sizes = {} if size is None else {"size": size}
    source, held = recipe.source("train", **sizes), recipe.source("calibration", **sizes)
    torch.manual_seed(seed)
    net = GlyphNet(source.classes, width, source.size, norm, recipe.depth)
    model = train_steps(normalised(net, MEAN, STD), source, steps, seed, PEAKS[norm])
    kind = recipe.source.__name__
    facts = {
        "name": name,
        "seed": str(seed),
        "mean": json.dumps(MEAN),
        "std": json.dumps(STD),
        "data": f"{kind}('train'), first images' SHA-256 {pixels_hash(source)}",
        "optimizer": f"AdamW, OneCycle, peak {PEAKS[norm]}, weight decay {DECAY}",
        "steps": str(steps),
        "batch": str(BATCH),
        "width": str(width),
        "size": str(source.size),
        "depth": str(recipe.depth),
        "evaluation": f"the first {recipe.calibration} images of {kind}('calibration')",
        "seconds": f"{time.perf_counter() - begin:.0f}",
    }
    facts |= {} if norm == "batch" else {"norm": norm}
    return save_model(out, model, facts, held, recipe.calibration)


def train_steps(
    model: nn.Sequential, source: ImageSource, steps: int, seed: int, peak: float
) -> nn.Sequential:
    """Train for `steps` batches of random images of the source, without augmentation."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak, total_steps=steps)
    with tqdm(total=steps, unit="batch", desc="training") as bar:
        for step in range(steps):
            images, labels = source.load(*draw(step, seed, len(source)))
            train_step(model, images, labels, optimizer, schedule, bar)
    return model.eval()


def train_step(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    bar: tqdm,
) -> None:
    """A step on uint8 images [B,3,H,W] with labels [B]."""
    loss = F.cross_entropy(model(images.float() / 255), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
    bar.update()


def draw(step: int, seed: int, length: int) -> tuple[Tensor, Tensor]:
    """Random indices of the step and one seed per image, int64 [128] each."""
    key = torch.arange(BATCH) + step * BATCH + (seed << 40)
    high, low = random_bits(key, 2).unbind(1)
    return (high << 24 | low) % length, key


def write_cifar(
    out: Path,
    name: str,
    seed: int,
    data: str,
    epochs: int | None = None,
    device: str | None = None,
) -> dict[str, str]:
    """Train AETTA's ResNet-18 on CIFAR, or continue; returns the facts stored with its weights."""
    recipe, begin = CIFARS[name], time.perf_counter()
    source, held = (CIFAR(data, recipe.classes, split) for split in ("train", "test"))
    out.parent.mkdir(parents=True, exist_ok=True)
    unfinished, epochs = out.with_suffix(".unfinished.pt"), epochs or EPOCHS
    torch.manual_seed(seed)
    model = normalised(CIFARResNet18(recipe.classes), recipe.mean, recipe.std)
    model = model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    settings = {"source": repr(source), **recipe._asdict(), "epochs": epochs, "seed": seed}
    train_epochs(model, source, unfinished, settings)
    facts = {
        "name": name,
        "seed": str(seed),
        "mean": json.dumps(recipe.mean),
        "std": json.dumps(recipe.std),
        "data": f"{source!r}, first images' SHA-256 {pixels_hash(source)}",
        "optimizer": AETTA_OPTIMIZER,
        "epochs": str(epochs),
        "batch": str(recipe.batch),
        "evaluation": f"the first {len(held)} images of the test set, {held!r}",
        "seconds": f"{time.perf_counter() - begin:.0f}",
    }
    facts = save_model(out, model, facts, held, len(held))
    unfinished.unlink(missing_ok=True)
    return facts


def train_epochs(
    model: nn.Sequential, source: ImageSource, unfinished: Path, settings: dict[str, Any]
) -> nn.Sequential:
    """Train for whole epochs of the source, with random crops and flips, by SGD with a cosine schedule.

    The state after each epoch is saved to the file `unfinished`, from which the same call resumes
    bit-identically.

    Args:
        settings: `batch`, `epochs`, `seed`, and what else distinguishes the training from others.
    """
    batch, epochs, seed = (settings[key] for key in ("batch", "epochs", "seed"))
    if (steps := len(source) // batch) < 1:
        raise HoldfastError(
            f"{source} has fewer images than one batch of {batch}. Pass more images."
        )
    device = next(model.parameters()).device
    optimizer = torch.optim.SGD(model.parameters(), **SGD)
    cosine = lambda step: (1 + math.cos(math.pi * step / (epochs * steps))) / 2  # noqa: E731
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine)
    parts: dict[str, Any] = {"model": model, "optimizer": optimizer, "schedule": schedule}
    done = resumed(unfinished, settings, parts, device)
    with tqdm(total=epochs * steps, initial=done * steps, unit="batch", desc="training") as bar:
        for epoch in range(done, epochs):
            random = torch.Generator().manual_seed((seed << 20) + epoch)
            order = torch.randperm(len(source), generator=random)[: steps * batch]
            for index in order.split(batch):
                images, labels = source.load(index, index)
                images = augmented(images.to(device), random)
                train_step(model, images, labels.to(device), optimizer, schedule, bar)
            state = {name: part.state_dict() for name, part in parts.items()}
            with whole_file(unfinished) as partial:
                torch.save({"settings": settings, "epochs": epoch + 1, **state}, partial)
    return model.eval()


def augmented(images: Tensor, random: torch.Generator) -> Tensor:
    """Randomly crop each image [B,3,H,W], padded with a black border, and randomly flip it."""
    count, _, height, width = images.shape
    top, left = torch.randint(2 * PAD + 1, (2, count, 1), generator=random)
    rows, columns = top + torch.arange(height), left + torch.arange(width)
    flipped = torch.rand(count, 1, generator=random) < 0.5
    columns = torch.where(flipped, columns.flip(1), columns)
    place = (torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :])
    padded = F.pad(images, (PAD,) * 4).permute(0, 2, 3, 1)
    return padded[tuple(part.to(images.device) for part in place)].permute(0, 3, 1, 2)


def resumed(
    unfinished: Path, settings: dict[str, Any], parts: dict[str, Any], device: torch.device
) -> int:
    """Load the state of an interrupted training, if any; returns the number of finished epochs."""
    if not unfinished.is_file():
        return 0
    state = torch.load(unfinished, map_location=device, weights_only=True)
    if state["settings"] != settings or parts.keys() - state.keys():
        raise HoldfastError(
            f"{unfinished} belongs to a training run with other settings or of another version. Delete "
            "it, or pass another --out."
        )
    for name, part in parts.items():
        part.load_state_dict(state[name])
    return state["epochs"]


def save_model(
    file: Path, model: nn.Sequential, facts: dict[str, str], held: ImageSource, count: int
) -> dict[str, str]:
    """Evaluate a normalised model on the first `count` held-out images, and save its network.

    The facts, of its training and evaluation, become the header of the safetensors file, which replaces
    an existing one atomically.
    """
    net = model.get_submodule("net")
    facts = facts | {
        "net": f"{type(net).__name__}({held.classes})",
        "classes": str(held.classes),
        "accuracy": f"{accuracy(model, held, count):.4f}",
        "accuracy_batch_statistics": f"{accuracy(with_batch_statistics(model), held, count):.4f}",
        "versions": f"python {platform.python_version()}, torch {torch.__version__}, "
        f"pillow {PIL.__version__}, freetype {features.version('freetype2')}",
        "date": datetime.date.today().isoformat(),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    state = {key: tensor.cpu().contiguous() for key, tensor in net.state_dict().items()}
    with whole_file(file) as partial:
        save_file(state, partial, facts)
    return facts


@torch.no_grad()
def accuracy(model: nn.Module, source: ImageSource, count: int) -> float:
    """The accuracy in [0,1] on the source's first `count` images."""
    correct, device = 0, next(model.parameters()).device
    for index in torch.arange(count).split(64):
        images, labels = source.load(index, index)
        correct += int((model(images.to(device) / 255).argmax(1).cpu() == labels).sum())
    return correct / count


def with_batch_statistics(model: nn.Module) -> nn.Module:
    """A copy whose BatchNorm layers use the statistics of each batch."""
    model = copy.deepcopy(model)
    use_batch_statistics(model)
    return model


def pixels_hash(source: ImageSource) -> str:
    """A hash (12 hex digits) of the images' generator and rasteriser."""
    index = torch.arange(64)
    return hashlib.sha256(source.load(index, index)[0].numpy().tobytes()).hexdigest()[:12]
