"""`holdfast train`: embedded networks, and AETTA's on small files in CIFAR's own format."""

import hashlib
import json
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torchvision import datasets

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.train import source_models
from holdfast.benchmarks.train.source_models import EMBEDDED, PAD, augmented, by_sgd, cropped, draw
from holdfast.datamodules import ImageSource
from holdfast.methods.backbones import load_backbone, normalised
from holdfast.methods.backbones.load import training_record


def test_draw_is_reproducible_and_does_not_repeat():
    index = torch.cat([draw(step, 0, 2**40)[0] for step in range(50)])
    assert len(index.unique()) == 50 * 128
    assert torch.equal(draw(7, 0, 2**40)[0], index[7 * 128 : 8 * 128])
    assert not torch.equal(draw(7, 1, 2**40)[0], index[7 * 128 : 8 * 128])
    assert draw(0, 0, 10)[0].max() < 10


def test_a_network_for_glyphs(tmp_path, monkeypatch):
    """Its accuracy is measured on 128 glyphs in place of 20,480."""
    monkeypatch.setitem(EMBEDDED, "glyphs", EMBEDDED["glyphs"]._replace(calibration=128))
    file = tmp_path / "new" / "net.safetensors"
    words = ["glyphs", "--steps", "4", "--width", "8", "--norm", "group"]
    assert main(["train", *words, "--out", str(file)]) == 0
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]
    facts = training_record(str(file))
    assert (facts["steps"], facts["size"], facts["norm"]) == ("4", "32", "group")
    net = load_backbone(str(file))
    assert net.get_submodule("net.stem")(torch.rand(1, 3, 32, 32)).shape == (1, 8, 16, 16)


def test_an_interrupt_leaves_the_old_file(tmp_path, monkeypatch, capsys):
    """The same command then needs no training, and one with other settings is refused."""
    file = tmp_path / "net.safetensors"
    file.write_text("old")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(source_models, "accuracy", interrupt)
    assert main(["train", "digits", "--steps", "4", "--out", str(file)]) == 130
    assert file.read_text() == "old"
    monkeypatch.undo()
    (checkpoint,) = set(tmp_path.iterdir()) - {file}
    assert main(["train", "digits", "--steps", "5", "--out", str(file)]) == 2
    assert f"{checkpoint} belongs to a training run with other settings" in capsys.readouterr().err
    monkeypatch.setattr(source_models, "draw", None)
    assert main(["train", "digits", "--steps", "4", "--out", str(file)]) == 0
    assert list(tmp_path.iterdir()) == [file]
    assert training_record(str(file))["steps"] == "4"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with CIFAR-10 made small; only checksums are adapted."""
    kind, folder, sums = datasets.CIFAR10, tmp_path / "cifar" / "cifar-10-batches-py", {}
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    for name, count in (("data_batch_1", 64), ("test_batch", 20), (kind.meta["filename"], 0)):
        content: dict[str, Any] = {"data": random.integers(0, 256, (count, 3072), dtype=np.uint8)}
        content |= {"labels": random.integers(0, 10, count).tolist(), kind.meta["key"]: []}
        (folder / name).write_bytes(pickle.dumps(content))
        sums[name] = hashlib.md5((folder / name).read_bytes()).hexdigest()
    monkeypatch.setattr(kind, "train_list", [["data_batch_1", sums["data_batch_1"]]])
    monkeypatch.setattr(kind, "test_list", [["test_batch", sums["test_batch"]]])
    monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": sums[kind.meta["filename"]]})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_network_for_cifar(place):
    assert main(["train", "cifar10", "--data", "cifar", "--epochs", "1"]) == 0
    file = Path("runs/source/cifar10-seed0.safetensors")
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    facts = training_record(str(file))
    assert (facts["net"], facts["epochs"]) == ("CIFARResNet18(10)", "1")
    assert json.loads(facts["mean"])[0] == 0.4914
    net = load_backbone(str(file))
    assert sum(parameter.numel() for parameter in net.parameters()) == 11_173_962
    assert net(torch.rand(2, 3, 32, 32)).shape == (2, 10)


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


def trained(source: Sixteen, unfinished: Path, seed: int = 5) -> dict[str, Tensor]:
    """The weights after two epochs of two batches."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(3600, 10))
    model = normalised(net, [0.5] * 3, [0.25] * 3)
    training = by_sgd(model, partial(cropped, source, 8, seed), 2, 2, {"seed": seed})
    training.carry_out(unfinished)
    return model.state_dict()


def test_training_goes_on_where_it_was_stopped(tmp_path):
    whole = trained(Sixteen(), tmp_path / "a.ckpt")
    with pytest.raises(KeyboardInterrupt, match="same command"):
        trained(Sixteen(3), tmp_path / "b.ckpt")
    with pytest.raises(HoldfastError, match="other settings"):
        trained(Sixteen(), tmp_path / "b.ckpt", seed=6)
    again = Sixteen(2)
    resumed = trained(again, tmp_path / "b.ckpt")
    assert again.patience == 0  # only the second epoch's two batches
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())


def test_augmentation():
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
