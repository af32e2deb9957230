"""Source models for CIFAR-10 and CIFAR-100 by AETTA's recipe (Lee et al. 2024)."""

import math
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from ... import HoldfastError
from ...datamodules import ImageSource
from ...files import whole_file
from ...methods.backbones import normalised
from ...methods.backbones.nets import CIFARResNet18

EPOCHS = 200
PEAK, MOMENTUM, DECAY = 0.1, 0.9, 5e-4
PAD = 4
OPTIMIZER = f"SGD, cosine from {PEAK} to 0, Nesterov momentum {MOMENTUM}, weight decay {DECAY}"


class Setting(NamedTuple):
    """AETTA's settings for a dataset."""

    classes: Literal[10, 100]
    batch: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


SETTINGS = {
    "cifar10": Setting(10, 64, (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)),
    "cifar100": Setting(100, 128, (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
}


def train(
    source: ImageSource,
    setting: Setting,
    epochs: int,
    seed: int,
    unfinished: Path,
    device: str | torch.device = "cpu",
) -> nn.Sequential:
    """Train a normalised ResNet-18 for `epochs` epochs of the source.

    The state after each epoch is saved to the file `unfinished`, from which the same call resumes
    bit-identically.
    """
    steps = len(source) // setting.batch
    if steps < 1:
        raise HoldfastError(
            f"{source} has fewer images than one batch of {setting.batch}. Pass more images."
        )
    torch.manual_seed(seed)
    model = normalised(CIFARResNet18(setting.classes), setting.mean, setting.std).to(device)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=PEAK, momentum=MOMENTUM, weight_decay=DECAY, nesterov=True
    )
    settings = {"source": repr(source), **setting._asdict(), "epochs": epochs, "seed": seed}
    done = resumed(unfinished, settings, model, optimizer)
    with tqdm(total=epochs * steps, initial=done * steps, unit="batch", desc="training") as bar:
        for epoch in range(done, epochs):
            random = torch.Generator().manual_seed((seed << 20) + epoch)
            order = torch.randperm(len(source), generator=random)[: steps * setting.batch]
            for step, index in enumerate(order.split(setting.batch), start=epoch * steps):
                images, labels = source.load(index, index)
                for group in optimizer.param_groups:
                    group["lr"] = PEAK * (1 + math.cos(math.pi * step / (epochs * steps))) / 2
                loss = F.cross_entropy(
                    model(augmented(images.to(device), random).float() / 255), labels.to(device)
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                bar.update()
            bar.set_postfix(epoch=epoch + 1, loss=f"{loss.item():.3f}")
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
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
    unfinished: Path, settings: dict[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer
) -> int:
    """Load the state of an interrupted training, if any; returns the number of finished epochs."""
    if not unfinished.is_file():
        return 0
    device = next(model.parameters()).device
    state = torch.load(unfinished, map_location=device, weights_only=True)
    if state["settings"] != settings:
        raise HoldfastError(
            f"{unfinished} belongs to a training run with other settings. Delete it, or pass another --out."
        )
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["epochs"]
