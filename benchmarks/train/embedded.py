"""Source models for the embedded datasets, small enough to train on a CPU in minutes."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from ... import datamodules
from ...datamodules import ImageSource
from ...datamodules.counter import random_bits
from ...methods.backbones import normalised
from ...methods.backbones.nets import GlyphNet

MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
BATCH = 128
WIDTH = 16
PEAKS = {"batch": 1e-2, "group": 3e-3}  # learning rates by normalisation
DECAY = 1e-2


def optimizer_name(norm: str) -> str:
    """The optimizer for networks with this normalisation, as text."""
    return f"AdamW, OneCycle, peak {PEAKS[norm]}, weight decay {DECAY}"


class Recipe(NamedTuple):
    source: Callable[..., ImageSource]
    steps: int
    depth: int  # blocks per stage
    calibration: int  # number of images for measuring the accuracy


RECIPES = {
    "glyphs": Recipe(datamodules.Glyphs, 8000, 2, 20_480),
    "digits": Recipe(datamodules.Digits, 200, 1, 300),
}


def train(
    source: ImageSource,
    steps: int,
    seed: int,
    width: int = WIDTH,
    norm: str = "batch",
    depth: int = 1,
) -> nn.Sequential:
    """Train a normalised network for `steps` batches of the source."""
    torch.manual_seed(seed)
    model = normalised(GlyphNet(source.classes, width, source.size, norm, depth), MEAN, STD)
    peak = PEAKS[norm]
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak, total_steps=steps)
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
    """Random indices of the step and one seed per image, int64 [128] each."""
    key = torch.arange(BATCH) + step * BATCH + (seed << 40)
    high, low = random_bits(key, 2).unbind(1)
    return (high << 24 | low) % length, key
