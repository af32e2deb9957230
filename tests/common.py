"""What several tests share: tiny networks, a stream made of tensors, and one of scanned digits."""

import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader

from holdfast.datamodules import Batch
from holdfast.methods.testing import batch_norm_net
from holdfast.run_folder import read_rows

ROOT = Path(__file__).parent.parent
PARTS = ("agents", "benchmarks", "callbacks", "datamodules", "methods")
GOLDEN = Path(__file__).parent / "golden"
STEPS, BATCH = 12, 16
DATA: dict[str, Any] = {
    "class_path": "CCC",
    "init_args": {
        "source": "Digits",
        "calibration": "digits",
        "corruptions": ["gaussian_noise", "fog", "contrast"],
        "difficulty": 30,
        "table": "imagenet",
        "quality": None,
        "speed": 20,
        "images": STEPS * BATCH - 5,
        "batch_size": BATCH,
        "num_workers": 0,
    },
}


def model(name: str, **init_args: object) -> dict[str, Any]:
    return {"class_path": name, "init_args": {"backbone": "digits", **init_args}}


def without_times(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run, but for what differs when it is run again."""
    times = ("seconds", "waited", "logits_ready", "update_ended")
    return [{k: v for k, v in row.items() if k not in times} for row in read_rows(folder)]


def own_modules() -> dict[str, Path]:
    """The file of each module of the package, by its full name."""
    found = {}
    for part in ("core", *PARTS):
        for path in (ROOT / part).rglob("*.py"):
            words = path.relative_to(ROOT).with_suffix("").parts
            names = ("holdfast", *words[part == "core" :])
            found[".".join(names[:-1] if names[-1] == "__init__" else names)] = path
    return found


def linked_package(folder: Path, root: Path = ROOT) -> Path:
    """A folder `holdfast` of links to the modules of a checkout, for tools that follow no mapping."""
    package = folder / "holdfast"
    package.mkdir(parents=True)
    for path in [*(root / "core").glob("*.py"), *(root / part for part in PARTS)]:
        (package / path.name).symlink_to(path)
    return package


tiny_net = batch_norm_net


def golden_network() -> nn.Module:
    """The network of tests/golden/tta, with its weights."""
    net = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 1000)),
    )
    weights = np.load(GOLDEN / "tta" / "weights.npz")
    net.load_state_dict({name: torch.from_numpy(weights[name]) for name in weights})
    return net.eval()


class TensorStream(LightningDataModule):
    """Given images [N,B,3,H,W] and labels [N,B] as a stream of N batches."""

    def __init__(self, images: Tensor, labels: Tensor | None = None) -> None:
        super().__init__()
        if labels is None:
            labels = torch.zeros(images.shape[:2], dtype=torch.int64)
        index = torch.arange(labels.numel()).view_as(labels)
        self.batches = [
            Batch(x, y, i, torch.zeros_like(i))
            for x, y, i in zip(images, labels, index, strict=True)
        ]

    def test_dataloader(self) -> DataLoader:
        return DataLoader(self.batches, batch_size=None)  # type: ignore[arg-type]


def joined(batches: Iterable[Batch]) -> Batch:
    """All batches as one."""
    return Batch(*(torch.cat(parts) for parts in zip(*batches, strict=True)))


def same(ours: Batch, expected: Batch) -> bool:
    """Whether two batches are equal in every part."""
    return all(torch.equal(a, b) for a, b in zip(ours, expected, strict=True))


def last_bits(seed: int, ulps: int) -> Callable[[Tensor], Tensor]:
    """Changes floating-point numbers at random by up to so many units in the last place."""
    random = torch.Generator().manual_seed(seed)

    def moved(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        noise = torch.rand(tensor.shape, generator=random, dtype=torch.float64) * 2 - 1
        eps = torch.finfo(tensor.dtype).eps
        return (tensor.double() * (1 + ulps * eps * noise)).to(tensor.dtype)

    return moved


def plain_trainer(**kwargs: object) -> Trainer:
    """A real Trainer on the CPU that writes nothing."""
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return Trainer(**{"accelerator": "cpu", "devices": 1, **quiet, **kwargs})  # type: ignore[arg-type]


def trainer_test(method: LightningModule, data: Any, *callbacks: Callback) -> dict[str, float]:
    """What a plain Trainer with these callbacks logs of a test."""
    return dict(plain_trainer(callbacks=[*callbacks]).test(method, data, verbose=False)[0])


def interruptible() -> None:
    """For `Popen(preexec_fn=...)`: Ctrl-C interrupts the child, even where a shell has us ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
