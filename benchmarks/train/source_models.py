"""Source models: the embedded networks, and for CIFAR AETTA's (Lee et al. 2024) and a ResNet-20."""

import copy
import datetime
import hashlib
import json
import math
import platform
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import PIL
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from PIL import features
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, OneCycleLR

from ... import HoldfastError
from ...datamodules import CIFAR, Digits, Glyphs, ImageSource
from ...datamodules.counter import random_bits
from ...files import whole_file, written
from ...methods.backbones import normalised
from ...methods.backbones.nets import CIFARResNet18, CIFARResNet20, GlyphNet
from ...methods.parts.norm import use_batch_statistics
from ..test import silence_lightning

BATCH, _WIDTH, _DECAY = 128, 16, 1e-2  # of the embedded networks
_PEAKS = {"batch": 1e-2, "group": 3e-3}  # their learning rates by normalisation
PAD = 4  # pixels around a CIFAR image before it is cropped
_EPOCHS = {"resnet18": 200, "resnet20": 50}  # AETTA's, ours

Batches = Iterator[tuple[Tensor, Tensor]]  # images uint8 [B,3,H,W], labels int64 [B]
_Colour = tuple[float, float, float]


class _EmbeddedRecipe(NamedTuple):
    """How the network of an embedded data set is trained."""

    source: Callable[..., ImageSource]
    steps: int
    depth: int  # blocks per stage
    calibration: int  # number of images for measuring the accuracy
    mean: _Colour = (0.5, 0.5, 0.5)
    std: _Colour = (0.25, 0.25, 0.25)


EMBEDDED = {
    "glyphs": _EmbeddedRecipe(Glyphs, 8000, 2, 20_480),
    "digits": _EmbeddedRecipe(Digits, 200, 1, 300),
}
# AETTA's numbers of classes and images in a batch, means and deviations.
_CIFARS: dict[str, tuple[Literal[10, 100], int, _Colour, _Colour]] = {
    "cifar10": (10, 64, (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)),
    "cifar100": (100, 128, (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
}


class Training(LightningModule):
    """A training by cross-entropy, which continues from its last epoch if it is interrupted.

    Args:
        model: from images in [0,1] to logits.
        batches: those of an epoch, by its number.
        facts: what identifies the training.
        **options: of the Trainer.
    """

    def __init__(
        self,
        model: nn.Sequential,
        batches: Callable[[int], Batches],
        optimizer: Optimizer,
        schedule: LRScheduler,
        facts: dict[str, Any],
        **options: Any,
    ) -> None:
        super().__init__()
        self.model, self.batches, self.facts = model, batches, facts
        self.optimizer, self.schedule, self.options = optimizer, schedule, options

    def train_dataloader(self) -> Batches:
        return self.batches(self.trainer.current_epoch)

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        images, labels = batch
        loss = F.cross_entropy(self.model(images.float() / 255), labels)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> Any:
        return [self.optimizer], [{"scheduler": self.schedule, "interval": "step"}]

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["facts"] = self.facts

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if checkpoint.get("facts") != self.facts:
            raise HoldfastError(
                f"{self.trainer.ckpt_path} belongs to a training run with other settings or of another "
                "version. Delete it, or pass another --out."
            )

    def carry_out(self, unfinished: Path) -> None:
        """Train, bit-identically from the last epoch in the checkpoint `unfinished` if it exists."""
        silence_lightning()
        warnings.filterwarnings("ignore", "Checkpoint directory .* is not empty")
        trainer = Trainer(
            **self.options,
            devices=1,
            callbacks=[
                ModelCheckpoint(unfinished.parent, unfinished.stem, enable_version_counter=False)
            ],
            reload_dataloaders_every_n_epochs=1,
            logger=False,
            enable_model_summary=False,
        )
        last = unfinished if unfinished.is_file() else None
        try:
            trainer.fit(self, ckpt_path=last, weights_only=True)
        except SystemExit:  # raised by Lightning on Ctrl-C, after which it ignores further ones
            signal.signal(signal.SIGINT, signal.default_int_handler)
            raise KeyboardInterrupt("interrupted; rerun the same command to continue") from None
        self.model.to(trainer.strategy.root_device).eval()


def write_embedded(
    out: Path,
    name: str,
    seed: int = 0,
    steps: int | None = None,
    width: int = _WIDTH,
    norm: str = "batch",
) -> dict[str, str]:
    """Train a GlyphNet for an embedded data set; returns the facts stored with its weights."""
    recipe, peak = EMBEDDED[name], _PEAKS[norm]
    steps = steps or recipe.steps
    source, held = recipe.source("train"), recipe.source("calibration")
    torch.manual_seed(seed)
    net = GlyphNet(source.classes, width, source.size, norm, recipe.depth)
    model = normalised(net, recipe.mean, recipe.std)
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, weight_decay=_DECAY)
    schedule = OneCycleLR(optimizer, peak, total_steps=steps)

    def batches(_: int) -> Batches:
        return (source.load(*draw(step, seed, len(source))) for step in range(steps))

    facts = common_facts(name, seed, recipe.mean, recipe.std, source, norm)
    facts |= {"optimizer": f"AdamW, OneCycle, peak {peak}, weight decay {_DECAY}", "steps": steps}
    facts |= {"batch": BATCH, "width": width, "size": source.size, "depth": recipe.depth}
    options = {"max_epochs": 1, "limit_train_batches": steps, "accelerator": "cpu"}
    training = Training(model, batches, optimizer, schedule, facts, **options)
    return train_and_write(out, training, held, recipe.calibration)


def draw(step: int, seed: int, length: int) -> tuple[Tensor, Tensor]:
    """Random indices of the step and one seed per image, int64 [128] each."""
    key = torch.arange(BATCH) + step * BATCH + (seed << 40)
    high, low = random_bits(key, 2).unbind(1)
    return (high << 24 | low) % length, key


def write_cifar(
    out: Path, name: str, data: str, seed: int = 0, epochs: int | None = None, net: str = "resnet18"
) -> dict[str, str]:
    """Train AETTA's ResNet-18 or a ResNet-20 on CIFAR; returns the facts stored with its weights.

    An interrupted training continues. `data` is torchvision's folder, or has the class folders
    train/CLASS/ and test/CLASS/.
    """
    (classes, batch, mean, std), epochs = _CIFARS[name], epochs or _EPOCHS[net]
    source, held = CIFAR(data, classes, "train"), CIFAR(data, classes, "test")
    torch.manual_seed(seed)
    small = net == "resnet20"
    kind: Callable[[int], nn.Module] = CIFARResNet20 if small else CIFARResNet18
    batch, rate = (BATCH, "OneCycle, peak 0.2") if small else (batch, "cosine from 0.1 to 0")
    model = normalised(kind(classes), mean, std)
    how = f"SGD, {rate}, Nesterov momentum 0.9, weight decay 0.0005" + ", bfloat16" * small
    facts = common_facts(name, seed, mean, std, source)
    facts |= {"optimizer": how, "epochs": epochs, "batch": batch}
    batches = partial(cropped, source, batch, seed)
    training = by_sgd(model, batches, len(source) // batch, epochs, facts, one_cycle=small)
    if small:
        training.options["precision"] = "bf16-mixed"  # half of the time where there is bfloat16
    return train_and_write(out, training, held, len(held))


def by_sgd(
    model: nn.Sequential,
    batches: Callable[[int], Batches],
    steps: int,
    epochs: int,
    facts: dict[str, Any],
    one_cycle: bool = False,
) -> Training:
    """A training by SGD, on a GPU if there is one.

    The learning rate falls as a cosine from 0.1 to 0, as AETTA's; with `one_cycle` it rises to 0.2 first.
    """
    peak, total = 0.2 if one_cycle else 0.1, epochs * steps
    optimizer = torch.optim.SGD(
        model.parameters(), lr=peak, momentum=0.9, weight_decay=5e-4, nesterov=True
    )
    schedule: LRScheduler
    if one_cycle:
        schedule = OneCycleLR(optimizer, peak, total_steps=total + 1, cycle_momentum=False)
    else:
        schedule = LambdaLR(optimizer, lambda step: (1 + math.cos(math.pi * step / total)) / 2)
    options: dict[str, Any] = {"max_epochs": epochs, "limit_train_batches": steps}
    options["accelerator"] = "gpu" if torch.cuda.is_available() else "cpu"
    return Training(model, batches, optimizer, schedule, facts, **options)


def cropped(source: ImageSource, batch: int, seed: int, epoch: int) -> Batches:
    """The whole batches of an epoch, in an order given by the seed, randomly cropped and flipped."""
    random = torch.Generator().manual_seed((seed << 20) + epoch)
    order = torch.randperm(len(source), generator=random)
    for index in order[: len(source) // batch * batch].split(batch):
        images, labels = source.load(index, index)
        yield augmented(images, random), labels


def augmented(images: Tensor, random: torch.Generator) -> Tensor:
    """Randomly crop each image [B,3,H,W], padded with a black border, and randomly flip it."""
    count, _, height, width = images.shape
    top, left = torch.randint(2 * PAD + 1, (2, count, 1), generator=random)
    rows, columns = top + torch.arange(height), left + torch.arange(width)
    flipped = torch.rand(count, 1, generator=random) < 0.5
    columns = torch.where(flipped, columns.flip(1), columns)
    padded = F.pad(images, (PAD,) * 4).permute(0, 2, 3, 1)
    cut = padded[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return cut.permute(0, 3, 1, 2)


def common_facts(
    name: str, seed: int, mean: _Colour, std: _Colour, source: ImageSource, norm: str = "batch"
) -> dict[str, Any]:
    """The facts that all trainings have, with a hash of the first images, which depend on versions."""
    index = torch.arange(64)
    digest = hashlib.sha256(source.load(index, index)[0].numpy().tobytes()).hexdigest()[:12]
    data = f"{type(source).__name__}('train'), first images' SHA-256 {digest}"
    facts = {"name": name, "seed": seed, "mean": json.dumps(mean), "std": json.dumps(std)}
    return facts | {"data": data} | ({} if norm == "batch" else {"norm": norm})


def train_and_write(
    out: Path, training: Training, held: ImageSource, count: int, half: bool = False
) -> dict[str, str]:
    """Carry out a training, evaluate its model on the first `count` held-out images, and save it.

    The facts become the header of the safetensors file, which replaces an existing one atomically.
    half: store convolutions and linear layers in float16, to which they are rounded before the evaluation.

    Raises HoldfastError, before the training, if there is no space for the weights.
    """
    with written(out, "or pass another --out."):
        out.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(out.with_suffix(".space")) as file:
            file.write_bytes(bytes(sum(4 * p.numel() for p in training.model.parameters())))
        out.with_suffix(".space").unlink()
    begin, unfinished, model = time.monotonic(), out.with_suffix(".unfinished.ckpt"), training.model
    training.carry_out(unfinished)
    seconds, net = time.monotonic() - begin, model.get_submodule("net")
    large = {id(p) for p in net.parameters() if half and p.ndim > 1}
    for parameter in (p for p in net.parameters() if id(p) in large):
        parameter.data = parameter.data.half().float()
    facts = training.facts | {
        "seconds": round(seconds),
        "net": f"{type(net).__name__}({held.classes})",
        "classes": held.classes,
        "evaluation": f"the first {count} of the held-out images, {held!r}",
        "accuracy": f"{accuracy(model, held, count):.4f}",
        "accuracy_batch_statistics": f"{accuracy(with_batch_statistics(model), held, count):.4f}",
        "versions": f"python {platform.python_version()}, torch {torch.__version__}, "
        f"pillow {PIL.__version__}, freetype {features.version('freetype2')}",
        "date": datetime.date.today().isoformat(),
    }
    header = {key: str(value) for key, value in facts.items()}
    state = {
        key: (tensor.half() if id(tensor) in large else tensor).cpu().contiguous()
        for key, tensor in net.state_dict(keep_vars=True).items()
    }
    with written(out, "and rerun the same command."), whole_file(out) as file:
        save_file(state, file, header)
    unfinished.unlink(missing_ok=True)
    return header


@torch.no_grad()
def accuracy(model: nn.Module, source: ImageSource, count: int) -> float:
    """The accuracy in [0,1] on the source's first `count` images, in random batches of 64."""
    correct, device = 0, next(model.parameters()).device
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    for index in order.split(64):
        images, labels = source.load(index, index)
        correct += int((model(images.to(device) / 255).argmax(1).cpu() == labels).sum())
    return correct / count


def with_batch_statistics(model: nn.Module) -> nn.Module:
    """A copy whose BatchNorm layers use the statistics of each batch."""
    model = copy.deepcopy(model)
    use_batch_statistics(model)
    return model
