"""A method in a Trainer with anybody's data: loaders of tensors and mappings, predictions, metrics."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from common import TensorStream, plain_trainer, tiny_net, trainer_test
from lightning.pytorch import LightningDataModule
from lightning.pytorch.loggers import CSVLogger
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim import SGD, AdamW
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score
from torchmetrics.functional.classification import multiclass_calibration_error

from holdfast import HoldfastError
from holdfast import callbacks as cb
from holdfast.batch import as_batch
from holdfast.datamodules import Clean, Corrupted, Digits
from holdfast.methods import EATA, RDumb, RoTTA, Source, Tent, TTAMethod
from holdfast.methods.backbones import load_backbone
from holdfast.run_folder import PROVENANCE, ROWS

BYTES = torch.randint(256, (24, 3, 8, 8), dtype=torch.uint8, generator=torch.manual_seed(1))
X, Y = BYTES.float() / 255, torch.arange(24) % 5


class Rows(Dataset):
    """Samples of any kind, made from images and labels by `make`."""

    def __init__(self, make: Callable[[Tensor, Tensor], Any], images: Tensor = X) -> None:
        self.make, self.images = make, images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        return self.make(self.images[index], Y[index])


def loader(
    make: Callable[[Tensor, Tensor], Any] = lambda x, y: (x, y), images: Tensor = X
) -> DataLoader:
    return DataLoader(Rows(make, images), batch_size=8)


def online(method: TTAMethod) -> Tensor:
    """Logits of an online run over the images, in a loop without a Trainer."""
    return torch.cat([method.adapt(images) for images in X.split(8)])


KINDS: dict[str, tuple[Callable[[Tensor, Tensor], Any], Tensor]] = {
    "two": (lambda x, y: (x, y), X),
    "more": (lambda x, y: [x, y, "a word", 3.0], X),
    "columns of labels": (lambda x, y: (x, y[None]), X),
    "image, label": (lambda x, y: {"label": int(y), "image": x, "path": "a.png"}, X),
    "pixel_values, labels": (lambda x, y: {"pixel_values": x, "labels": y}, X),
    "bytes": (lambda x, y: (x, y), BYTES),
    "doubles": (lambda x, y: (x, y), X.double()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_ordinary_batches(kind: str) -> None:
    method, alone = Tent(tiny_net()), Tent(tiny_net())
    alone.load_state_dict(method.state_dict())
    make, images = KINDS[kind]
    found = trainer_test(method, loader(make, images))
    logits = online(alone)
    assert found["accuracy_per_image"] == pytest.approx(
        float((logits.argmax(1) == Y).float().mean())
    )
    for name, value in alone.backbone.state_dict().items():
        assert torch.equal(value, method.backbone.state_dict()[name]), name


def test_images_that_a_loader_leaves_out() -> None:
    """As in many forecasting benchmarks (Autoformer#104)."""
    rows = DataLoader(TensorDataset(X, Y), batch_size=10, drop_last=True)
    with pytest.warns(UserWarning, match="leaves out the last 4 images"):
        trainer_test(Source(tiny_net()), rows)


WRONG: dict[str, tuple[Callable[[Tensor, Tensor], Any], str]] = {
    "other keys": (lambda x, y: {"pictures": x, "label": y}, "keys 'pictures', 'label'"),
    "words": (lambda x, y: (x, f"class {y}"), "not class numbers"),
    "two views": (lambda x, y: (x, x + 1), r"float32 \[8, 3, 8, 8\], float32 .* not class numbers"),
    "one-hot": (lambda x, y: (x, torch.eye(5)[y]), r"float32 \[8, 5\].*labels.argmax\(1\)"),
    "one-hot integers": (
        lambda x, y: (x, torch.eye(5).long()[y]),
        r"Pass class numbers .*labels.argmax\(1\)",
    ),
    "vectors": (lambda x, y: (x.flatten(), y), r"float32 \[8, 192\]"),
    "labels first": (lambda x, y: (y, x), r"int64 \[8\]"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_other_batches_are_refused(kind: str) -> None:
    make, sentence = WRONG[kind]
    with pytest.raises(HoldfastError, match=sentence) as error:
        trainer_test(Source(tiny_net()), loader(make))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("way", ["Watch", "Trainer"])
def test_bytes_are_refused_in_every_batch(way: str) -> None:
    """As floats, in the second batch; nothing has changed then."""
    method, wrong = Tent(tiny_net()), torch.cat([X[:8], BYTES[8:].float()])
    watch = cb.Watch(method, [cb.SoftmaxScore()])
    method.adapt(X[:8])
    before = {name: value.clone() for name, value in method.backbone.state_dict().items()}
    if way == "Trainer":
        method.reset()
    ways: dict[str, Callable[[], Any]] = {
        "Watch": lambda: watch.step(wrong[8:16]),
        "Trainer": lambda: trainer_test(method, loader(images=wrong)),
    }
    with pytest.raises(HoldfastError, match=r"values up to 255\..* divide bytes by 255"):
        ways[way]()
    assert method.step_count == 1 + (way == "Trainer")
    assert watch.estimators[0].latest is None
    for name, value in method.backbone.state_dict().items():
        assert torch.equal(value, before[name])


def test_a_second_test_says_that_it_goes_on() -> None:
    method = Tent(tiny_net())
    trainer_test(method, loader())
    with pytest.warns(UserWarning, match=r"Tent continues .* after 3 steps.* reset\(\)"):
        trainer_test(method, loader())
    assert method.step_count == 6


def test_without_labels_nothing_is_scored(tmp_path: Path) -> None:
    trainer = plain_trainer(callbacks=[cb.RunRecord(tmp_path)])
    with pytest.warns(UserWarning, match="No image has a known label"):
        assert trainer.test(Tent(tiny_net()), DataLoader(X, batch_size=8), verbose=False) == [{}]
    rows = [json.loads(line) for line in (tmp_path / ROWS).read_text().splitlines()]
    assert [row["images"] for row in rows] == [8, 16, 24]
    assert "accuracy" not in rows[0]


def test_two_loaders_are_two_segments(tmp_path: Path) -> None:
    score, reset = cb.SoftmaxScore(), cb.AccuracyReset("SoftmaxScore", floor=0.0)
    watch = [cb.RunRecord(tmp_path), score, cb.AETTA(layers=["2"]), cb.SegmentReset(), reset]
    method = RoTTA(tiny_net(), every=8)
    trainer = plain_trainer(callbacks=watch)
    trainer.test(method, [loader(), loader(lambda x, y: {"image": x, "label": y})], verbose=False)
    rows = [json.loads(line) for line in (tmp_path / ROWS).read_text().splitlines()]
    assert [row["segment"] for row in rows] == [0, 0, 0, 1, 1, 1]
    assert [row["reset"] for row in rows] == [0, 0, 0, 1, 0, 0]
    assert all(0 <= row["SoftmaxScore"] <= 1 and 0 <= row["AETTA_error"] <= 1 for row in rows)
    assert json.loads((tmp_path / PROVENANCE).read_text())["stream"] == "Rows, Rows"
    assert trainer.callback_metrics["accuracy"] >= 0


def test_a_checkpoint_needs_a_stream(tmp_path: Path) -> None:
    trainer = plain_trainer(callbacks=[cb.StreamCheckpoint(tmp_path)])
    with pytest.raises(HoldfastError, match="StreamCheckpoint needs a stream"):
        trainer.test(Source(tiny_net()), loader(), verbose=False)


class OwnTransfer(LightningDataModule):
    """A data module with a transform on the device, as Lightning's documentation has them."""

    def test_dataloader(self) -> DataLoader:
        return loader(images=BYTES)

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        images, labels = batch
        return self.wrap((images.float() / 255, labels))

    @staticmethod
    def wrap(batch: Any) -> Any:
        return as_batch(batch, first=0, segment=0)


def test_hooks_of_a_data_module_come_first() -> None:
    plain, own = Tent(tiny_net()), Tent(tiny_net())
    own.load_state_dict(plain.state_dict())
    trainer_test(plain, loader())
    trainer_test(own, OwnTransfer())
    assert torch.equal(own.predict(X), plain.predict(X))
    OwnTransfer.wrap = staticmethod(lambda batch: batch)  # type: ignore[method-assign]
    with pytest.raises(HoldfastError, match=r"returned a tuple.*as_batch"):
        trainer_test(own, OwnTransfer())


def test_eata_looks_ahead_in_any_loader() -> None:
    net = tiny_net()
    of_stream, of_loader = EATA(net, fisher_images=16), EATA(net, fisher_images=16)
    stream = TensorStream(X.view(3, 8, 3, 8, 8), Y.view(3, 8))
    trainer_test(of_stream, stream)
    trainer_test(of_loader, loader(images=BYTES))
    assert of_loader.learnt["batches"] == 2
    for one, other in zip(*(m.learnt["fisher"] for m in (of_stream, of_loader)), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("data", ["tensors", "pairs", "stream"])
def test_predict_adapts_and_returns_logits(data: str) -> None:
    net = tiny_net(10)
    stream = Corrupted(Digits(), ["fog"], each=24, batch_size=8, num_workers=0)
    images = torch.cat([batch.images for batch in stream.predict_dataloader()])
    pairs = TensorDataset(images, Y)
    trainer = plain_trainer(callbacks=[cb.SoftmaxScore(), cb.PeriodicReset(every=2)])
    method, alone = Tent(net), RDumb(net, every=2)
    alone.loss = method.loss  # type: ignore[method-assign]
    if data == "stream":
        found = trainer.predict(method, datamodule=stream)
    else:
        found = trainer.predict(method, DataLoader(images if data == "tensors" else pairs, 8))
    assert found is not None
    expected = [alone.adapt(part).detach() for part in images.split(8)]
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert method.step_count == 3
    assert method.reset_count == 1


@pytest.mark.parametrize(("images", "start", "batches"), [(50, 0, 4), (50, 32, 2)])
def test_a_stream_knows_its_length(images: int, start: int, batches: int) -> None:
    stream = Clean(Digits(), images=images, start=start, batch_size=16, num_workers=0)
    trainer = plain_trainer()
    trainer.test(Source("digits"), datamodule=stream, verbose=False)
    assert trainer.num_test_batches == [batches]
    endless = Clean(Digits(), epochs=None, batch_size=16, num_workers=0)
    stream.start = 50  # nothing left, as where a run was killed before its summary
    for without in (endless, stream):
        with pytest.raises(TypeError):
            len(without.test_dataloader())


def test_metrics_of_ones_own() -> None:
    f1 = MulticlassF1Score(5)
    labels = Y.clone()
    labels[:3] = -1
    method = RDumb(net := tiny_net(), metrics={"f1": f1, "top3": MulticlassAccuracy(5, top_k=3)})
    data = DataLoader(TensorDataset(X, labels), batch_size=8)
    found = trainer_test(method, data)
    logits = online(RDumb(net)).detach()
    both = MetricCollection({"f1": MulticlassF1Score(5), "top3": MulticlassAccuracy(5, top_k=3)})
    for name, value in both(logits[3:], labels[3:]).items():
        assert found[name] == pytest.approx(float(value))
    assert found["nll"] == pytest.approx(float(cross_entropy(logits[3:], labels[3:])))
    error = multiclass_calibration_error(logits[3:], labels[3:], num_classes=5)
    assert found["ece"] == pytest.approx(float(error))
    assert f1 not in set(method.modules())


# ---- what a logger and a checkpoint know ----------------------------------------------------------


def test_a_checkpoint_knows_the_arguments_that_have_names(tmp_path: Path) -> None:
    def factory(params: Any) -> AdamW:
        return AdamW(params, lr=3e-3)

    method = RDumb("digits", factory, every=7)
    logger = CSVLogger(tmp_path, name="", version="")
    trainer = plain_trainer(logger=logger)
    data = Clean(Digits(), images=48, batch_size=16, num_workers=0)
    trainer.test(method, datamodule=data, verbose=False)
    config = yaml.safe_load((tmp_path / "hparams.yaml").read_text().replace("!!python/tuple", ""))
    assert config["backbone"] == "digits"
    assert config["every"] == 7
    assert config["optimizer"]["class_path"].endswith("AdamW")
    trainer.save_checkpoint(tmp_path / "run.ckpt")
    again = RDumb.load_from_checkpoint(tmp_path / "run.ckpt", weights_only=True)
    assert again.step_count == 3
    assert again.recovery.every == 7
    images = torch.rand(8, 3, 32, 32)
    for _ in range(2):
        assert torch.equal(again.adapt(images), method.adapt(images))


def test_arguments_without_a_name_are_asked_for(tmp_path: Path) -> None:
    class Own(SGD):
        pass

    net = load_backbone("digits")
    method = RDumb(net, lambda params: Own(params, lr=0.1), metrics=MulticlassF1Score(10))
    assert {"entropy_factor", "redundancy", "every"} <= set(method.hparams)
    assert not {"backbone", "metrics"} & set(method.hparams)
    trainer = plain_trainer()
    trainer.test(method, loader(), verbose=False)
    trainer.save_checkpoint(tmp_path / "run.ckpt")
    again = partial(RDumb.load_from_checkpoint, tmp_path / "run.ckpt", weights_only=True)
    with pytest.raises(HoldfastError, match=r"Own.* Pass optimizer="):
        again(backbone=net)
    more = {"optimizer": lambda params: Own(params, lr=0.1), "metrics": MulticlassF1Score(10)}
    assert torch.equal(again(backbone=net, **more).predict(X), method.predict(X))
