"""AETTA's source models and a cell of its suite, on small files in CIFAR's own formats."""

import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision import datasets

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.run.one_run import run
from holdfast.benchmarks.suites.grid import cells, load
from holdfast.benchmarks.train.cifar_training import PAD, Setting, augmented, train
from holdfast.datamodules import CIFAR, ImageSource
from holdfast.methods.backbones import load_backbone
from holdfast.methods.backbones.nets import CIFARResNet18

RANDOM = np.random.default_rng(0)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with CIFAR-10 and CIFAR-10-C made small; only checksums are adapted."""
    kind, folder, sums = datasets.CIFAR10, tmp_path / "cifar" / "cifar-10-batches-py", {}
    folder.mkdir(parents=True)
    for name, count in (("data_batch_1", 64), ("test_batch", 20), (kind.meta["filename"], 0)):
        content: dict[str, Any] = {"data": RANDOM.integers(0, 256, (count, 3072), dtype=np.uint8)}
        content |= {"labels": RANDOM.integers(0, 10, count).tolist(), kind.meta["key"]: []}
        (folder / name).write_bytes(pickle.dumps(content))
        sums[name] = hashlib.md5((folder / name).read_bytes()).hexdigest()
    monkeypatch.setattr(kind, "train_list", [["data_batch_1", sums["data_batch_1"]]])
    monkeypatch.setattr(kind, "test_list", [["test_batch", sums["test_batch"]]])
    monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": sums[kind.meta["filename"]]})
    corrupted = tmp_path / "CIFAR-10-C"
    corrupted.mkdir()
    np.save(corrupted / "fog.npy", RANDOM.integers(0, 256, (5 * 40, 32, 32, 3), dtype=np.uint8))
    np.save(corrupted / "labels.npy", np.tile(RANDOM.integers(0, 10, 40), 5))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_train_then_run_a_cell_of_the_suite(place: Path) -> None:
    assert main(["train-source", "cifar10", "--data", "cifar", "--epochs", "1"]) == 0
    file = "runs/source/cifar10-seed0.safetensors"
    assert [path.name for path in Path(file).parent.iterdir()] == [Path(file).name]
    backbone = load_backbone(file)
    facts: dict[str, str] = backbone.provenance  # type: ignore[assignment]
    assert (facts["net"], facts["epochs"], facts["mean"][0]) == ("CIFARResNet18(10)", "1", 0.4914)
    assert CIFAR("cifar", split="train").images.shape == (64, 32, 32, 3)
    names = {"method": "TENT", "stream": "Fully CIFAR10-C, fog", "seed": 0, "override": ""}
    cell = next(
        cell for cell in cells(load("aetta-cifar10")) if names.items() <= cell.names.items()
    )
    cell.config["data"]["init_args"] |= {"batch_size": 20, "num_workers": 0}
    run({**cell.config, "out": str(cell.folder)})
    results = json.loads((cell.folder / "summary.json").read_text())
    names = {"AETTA", "AdvPerturb", "GDE", "SoftmaxScore", "SrcValid"}
    assert results["images"] == 40
    assert all(0 <= results[f"{name}_error"] <= 1 for name in names)


def test_what_is_missing_is_said(place: Path, capsys: pytest.CaptureFixture) -> None:
    for words, sentence in (
        (["cifar10"], "--data FOLDER"),
        (["cifar100", "--data", "cifar"], "cifar/cifar-100-python"),
        (["cifar10", "--data", "cifar", "--steps", "9"], "cifar10 has no --steps"),
        (["glyphs", "--data", "cifar"], "glyphs has no --data"),
        (["cifar10", "--data", "cifar", "--epochs", "0"], "at least 1"),
    ):
        assert main(["train-source", *words]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert sentence in line
    assert not Path("runs").exists()


class Sixteen(ImageSource):
    """Sixteen images; Ctrl-C comes when they have been asked for `patience` times."""

    classes, size = 10, 32

    def __init__(self, patience: int = 10**9) -> None:
        self.patience = patience
        random = torch.Generator().manual_seed(3)
        self.images = torch.randint(256, (16, 3, 32, 32), generator=random, dtype=torch.uint8)

    def __len__(self) -> int:
        return 16

    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        if self.patience == 0:
            raise KeyboardInterrupt
        self.patience -= 1
        return self.images[index], index % 10


SMALL = Setting(10, 8, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


def test_training_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    whole = train(Sixteen(), SMALL, 2, 5, tmp_path / "a").state_dict()
    with pytest.raises(KeyboardInterrupt):
        train(Sixteen(3), SMALL, 2, 5, tmp_path / "b")
    again = Sixteen(2)
    resumed = train(again, SMALL, 2, 5, tmp_path / "b").state_dict()
    assert again.patience == 0  # only the second epoch's two batches
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())
    with pytest.raises(HoldfastError, match="other settings"):
        train(Sixteen(), SMALL, 2, 6, tmp_path / "b")


def test_augmentation() -> None:
    """Each image is its padded self, cut out somewhere, perhaps mirrored."""
    images = torch.arange(1, 3 * 8 * 8 + 1).view(1, 3, 8, 8).repeat(200, 1, 1, 1)
    found = augmented(images, torch.Generator().manual_seed(0))
    padded = torch.nn.functional.pad(images[0], (PAD,) * 4)
    cuts = padded.unfold(1, 8, 1).unfold(2, 8, 1).permute(1, 2, 0, 3, 4).flatten(0, 1)
    choices = torch.cat([cuts, cuts.flip(3)])
    same = (found[:, None] == choices).flatten(2).all(2)
    assert (same.sum(1) >= 1).all()
    assert same.any(0).sum() > 100  # of 162
    assert 60 < int(same[:, : len(cuts)].any(1).sum()) < 140


def test_size_and_names() -> None:
    net = CIFARResNet18()
    assert sum(p.numel() for p in net.parameters()) == 11_173_962
    assert {"conv1.weight", "layer4.0.shortcut.1.bias", "fc.bias"} <= net.state_dict().keys()
