"""`holdfast train-source`: train the source model of a dataset, with provenance."""

import argparse
import copy
import datetime
import functools
import hashlib
import json
import platform
import time
from pathlib import Path
from typing import NamedTuple

import PIL
import torch
from PIL import features
from safetensors.torch import save_file
from torch import nn

from ... import HoldfastError, datamodules
from ...command_parser import Parser
from ...datamodules import ImageSource
from ...files import whole_file
from ...methods.backbones.nets import NORMS
from ...methods.parts.norm import use_batch_statistics
from . import cifar_training as train_cifar
from . import embedded as train_embedded
from .cifar_training import SETTINGS
from .embedded import RECIPES


class Trained(NamedTuple):
    """A normalised network in eval mode, its evaluation images, and facts about its training."""

    model: nn.Sequential
    held: ImageSource
    num_images: int  # number of evaluation images
    held_name: str
    facts: dict[str, str]


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("train-source", __doc__, "glyphs --seed 1")
    names = (*RECIPES, *SETTINGS)
    parser.add("name", nargs="?", default="glyphs", choices=names, help="dataset (default: glyphs)")
    parser.add("--seed", type=int, default=0)
    parser.add("--out", type=Path, help="file of the weights (default: in runs/source)")
    embedded = parser.add_argument_group("glyphs, digits")
    embedded.add_argument(
        "--steps", type=int, help=f"number of batches of {train_embedded.BATCH} images"
    )
    embedded.add_argument("--width", type=int, help="channels of the first layer (default: 16)")
    embedded.add_argument("--size", type=int, help="pixels per side of glyphs (default: 32)")
    embedded.add_argument("--norm", choices=NORMS, help="normalisation layers (default: batch)")
    cifar = parser.add_argument_group(
        "cifar10, cifar100 (AETTA's recipe; resumes after each epoch)"
    )
    cifar.add_argument("--data", help="folder with cifar-10-batches-py/ or cifar-100-python/")
    cifar.add_argument("--epochs", type=int, help="default: 200")
    cifar.add_argument("--device", help="default: cuda if available, otherwise cpu")
    return parser


def main(argv: list[str]) -> int:
    """Train, evaluate on held-out images, and write the weights."""
    options = parse(argv)
    start = time.perf_counter()
    made = for_embedded(options) if options.name in RECIPES else for_cifar(options)
    seconds = time.perf_counter() - start
    measure = functools.partial(accuracy, source=made.held, count=made.num_images)
    net = made.model.get_submodule("net")
    facts = {
        "name": options.name,
        "net": f"{type(net).__name__}({made.held.classes})",
        "classes": str(made.held.classes),
        "seed": str(options.seed),
        **made.facts,
        "evaluation": f"the first {made.num_images} images of {made.held_name}",
        "accuracy": f"{measure(made.model):.4f}",
        "accuracy_batch_statistics": f"{measure(with_batch_statistics(made.model)):.4f}",
        "seconds": f"{seconds:.0f}",
        "versions": versions(),
        "date": datetime.date.today().isoformat(),
    }
    write(options.out, net, facts)
    unfinished(options.out).unlink(missing_ok=True)
    print(
        f"{options.out}: accuracy {facts['accuracy']} with running statistics, "
        f"{facts['accuracy_batch_statistics']} with those of batches of 64"
    )
    return 0


def parse(argv: list[str]) -> argparse.Namespace:
    """Parse the options; raises HoldfastError for options of another dataset."""
    options = parser().parse_args(argv)
    own, foreign = ["--data", "--epochs", "--device"], ["--steps", "--width", "--size", "--norm"]
    if options.name in RECIPES:
        own, foreign = foreign, own
    if given := [option for option in foreign if getattr(options, option[2:]) is not None]:
        raise HoldfastError(f"{options.name} has no {given[0]}. Choose from {', '.join(own)}.")
    if options.name in SETTINGS and options.data is None:
        raise HoldfastError(
            f"{options.name} needs its images. Pass --data FOLDER, in torchvision's layout."
        )
    if options.steps is not None and options.steps < 4:
        raise HoldfastError("--steps must be at least 4, for the learning rate to rise and fall.")
    if options.width is not None and options.width < 1:
        raise HoldfastError("--width must be at least 1.")
    if options.name == "digits" and options.size is not None:
        raise HoldfastError("--size does not apply to digits, which have 32 pixels. Remove it.")
    if options.epochs is not None and options.epochs < 1:
        raise HoldfastError("--epochs must be at least 1.")
    seed = f"-seed{options.seed}" if options.name in SETTINGS else ""
    name = f"{options.name}{seed}.safetensors"
    options.out = options.out or Path("runs") / "source" / name
    return options


def unfinished(out: Path) -> Path:
    """The file with the state of an unfinished training."""
    return out.with_suffix(".unfinished.pt")


def for_cifar(options: argparse.Namespace) -> Trained:
    """Train AETTA's source model with this seed."""
    setting, epochs = SETTINGS[options.name], options.epochs or train_cifar.EPOCHS
    source = datamodules.CIFAR(options.data, setting.classes, "train")
    held = datamodules.CIFAR(options.data, setting.classes, "test")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    state = unfinished(options.out)
    model = train_cifar.train(source, setting, epochs, options.seed, state, device)
    facts = {
        "mean": json.dumps(setting.mean),
        "std": json.dumps(setting.std),
        "data": f"{source!r}, first images' SHA-256 {pixels_hash(source)}",
        "optimizer": train_cifar.OPTIMIZER,
        "epochs": str(epochs),
        "batch": str(setting.batch),
    }
    return Trained(model, held, len(held), f"the test set, {held!r}", facts)


def for_embedded(options: argparse.Namespace) -> Trained:
    """Train a GlyphNet for an embedded dataset."""
    recipe = RECIPES[options.name]
    steps = recipe.steps if options.steps is None else options.steps
    width = train_embedded.WIDTH if options.width is None else options.width
    sizes = {} if options.size is None else {"size": options.size}
    source, held = recipe.source("train", **sizes), recipe.source("calibration", **sizes)
    norm = options.norm or "batch"
    model = train_embedded.train(source, steps, options.seed, width, norm, recipe.depth)
    name = recipe.source.__name__
    facts = {
        "mean": json.dumps(train_embedded.MEAN),
        "std": json.dumps(train_embedded.STD),
        "data": f"{name}('train'), first images' SHA-256 {pixels_hash(source)}",
        "optimizer": train_embedded.optimizer_name(norm),
        "steps": str(steps),
        "batch": str(train_embedded.BATCH),
        "width": str(width),
        "size": str(source.size),
        "depth": str(recipe.depth),
        **({} if norm == "batch" else {"norm": norm}),
    }
    return Trained(model, held, recipe.calibration, f"{name}('calibration')", facts)


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


def versions() -> str:
    """The versions of packages that may affect the weights or the training images."""
    return (
        f"python {platform.python_version()}, torch {torch.__version__}, "
        f"pillow {PIL.__version__}, freetype {features.version('freetype2')}"
    )


def write(file: Path, net: nn.Module, facts: dict[str, str]) -> None:
    """Save weights with provenance as safetensors, atomically replacing an existing file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.cpu().contiguous() for name, tensor in net.state_dict().items()}
    with whole_file(file) as partial:
        save_file(state, partial, facts)
