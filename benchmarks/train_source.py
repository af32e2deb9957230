"""`holdfast train-source`: trains the source model of an embedded data set, with provenance."""

import argparse
import copy
import datetime
import functools
import hashlib
import json
import os
import platform
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import PIL
import torch
from PIL import features
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from .. import HoldfastError, datamodules
from ..datamodules import ImageSource
from ..datamodules.counter import random_bits
from ..methods.backbones import GlyphNet, normalised

MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
BATCH = 128
PEAK, DECAY = 1e-2, 1e-2


class Recipe(NamedTuple):
    source: type[datamodules.Glyphs] | type[datamodules.Digits]
    steps: int
    calibration: int  # images to measure the accuracy on


RECIPES = {
    "glyphs": Recipe(datamodules.Glyphs, 2000, 20_480),
    "digits": Recipe(datamodules.Digits, 200, 300),
}


def main(argv: list[str]) -> int:
    """Train, measure on the calibration split, and write the weights."""
    options = parse(argv)
    recipe = RECIPES[options.name]
    steps = recipe.steps if options.steps is None else options.steps
    source = recipe.source("train")
    start = time.perf_counter()
    model = train(source, steps, options.seed)
    seconds = time.perf_counter() - start
    calibration, count = recipe.source("calibration"), recipe.calibration
    measure = functools.partial(accuracy, source=calibration, count=count)
    facts = {
        "name": options.name,
        "net": f"GlyphNet({recipe.source.classes})",
        "classes": str(recipe.source.classes),
        "mean": json.dumps(MEAN),
        "std": json.dumps(STD),
        "data": f"{recipe.source.__name__}('train'), first images' SHA-256 {pixels_hash(source)}",
        "optimizer": f"AdamW, OneCycle, peak {PEAK}, weight decay {DECAY}",
        "steps": str(steps),
        "batch": str(BATCH),
        "seed": str(options.seed),
        "evaluation": f"the first {count} images of {recipe.source.__name__}('calibration')",
        "accuracy": f"{measure(model):.4f}",
        "accuracy_batch_statistics": f"{measure(with_batch_statistics(model)):.4f}",
        "seconds": f"{seconds:.0f}",
        "versions": versions(),
        "date": datetime.date.today().isoformat(),
    }
    write(options.out, model.get_submodule("net"), facts)
    print(
        f"{options.out}: accuracy {facts['accuracy']} with running statistics, "
        f"{facts['accuracy_batch_statistics']} with those of batches of 64"
    )
    return 0


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="holdfast train-source", description=__doc__)
    parser.add_argument("name", nargs="?", default="glyphs", choices=RECIPES, help="the data set")
    parser.add_argument("--steps", type=int, help=f"batches of {BATCH} images")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="default: runs/source/NAME.safetensors")
    options = parser.parse_args(argv)
    options.out = options.out or Path("runs") / "source" / f"{options.name}.safetensors"
    if options.steps is not None and options.steps < 4:
        raise HoldfastError("--steps must be at least 4, to rise to the peak rate and fall again.")
    return options


def train(source: ImageSource, steps: int, seed: int) -> nn.Sequential:
    """A normalised net after `steps` batches of the source."""
    torch.manual_seed(seed)
    model = normalised(GlyphNet(source.classes), MEAN, STD)
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK, total_steps=steps)
    with tqdm(total=steps * BATCH, unit="image", desc="training", smoothing=0.05) as bar:
        for step in range(steps):
            images, labels = source.load(*draw(step, seed, len(source)))
            loss = F.cross_entropy(model(images / 255), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
            bar.update(BATCH)
    return model.eval()


def draw(step: int, seed: int, length: int) -> tuple[Tensor, Tensor]:
    """The step's random indices, and as many seeds: two int64 [128]."""
    key = torch.arange(BATCH) + step * BATCH + (seed << 40)
    high, low = random_bits(key, 2).unbind(1)
    return (high << 24 | low) % length, key


@torch.no_grad()
def accuracy(model: nn.Module, source: ImageSource, count: int) -> float:
    """The fraction of the source's first `count` images that is classified rightly."""
    correct = 0
    for index in torch.arange(count).split(64):
        images, labels = source.load(index, index)
        correct += int((model(images / 255).argmax(1) == labels).sum())
    return correct / count


def with_batch_statistics(model: nn.Module) -> nn.Module:
    """A copy whose BatchNorm layers have no running statistics, so use each batch's own."""
    model = copy.deepcopy(model)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean = module.running_var = None
            module.track_running_stats = False
    return model


def pixels_hash(source: ImageSource) -> str:
    """12 hex digits that change when the recipe of the images, or their rasteriser, does."""
    index = torch.arange(64)
    return hashlib.sha256(source.load(index, index)[0].numpy().tobytes()).hexdigest()[:12]


def versions() -> str:
    return (
        f"python {platform.python_version()}, torch {torch.__version__}, "
        f"pillow {PIL.__version__}, freetype {features.version('freetype2')}"
    )


def write(file: Path, net: nn.Module, facts: dict[str, str]) -> None:
    """Weights and their provenance as safetensors; an old file stays until the new one is whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.contiguous() for name, tensor in net.state_dict().items()}
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        whole = Path(folder) / file.name
        save_file(state, whole, facts)
        os.replace(whole, file)
