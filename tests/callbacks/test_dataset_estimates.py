"""Estimates of a whole stream in real runs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from common import TensorStream, plain_trainer, tiny_net, trainer_test

from holdfast import HoldfastError
from holdfast.batch import LabelledImages
from holdfast.callbacks import DatasetEstimates, RunRecord, SrcValid
from holdfast.methods import Source

RANDOM = torch.Generator().manual_seed(1)
COLOURS = torch.rand(12, 8, 3, 1, 1, generator=RANDOM)
IMAGES = COLOURS * torch.rand(12, 8, 3, 8, 8, generator=RANDOM)
IMAGES = (IMAGES * 255).round() / 255


class Validation(LabelledImages):
    """Forty images and their labels."""

    images = torch.randint(
        0, 256, (40, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(2)
    )

    def __len__(self) -> int:
        return 40

    def load(self, index: torch.Tensor, seed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.images[index], index % 5


class Sorted(Validation):
    """As in folders: class after class, which the colour tells."""

    def load(self, index: torch.Tensor, seed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        labels = index // 8
        return (labels[:, None, None, None] * 50 * torch.ones(3, 8, 8)).to(torch.uint8), labels


def test_validation_images_are_of_all_classes(tmp_path: Path) -> None:
    collect = DatasetEstimates(Sorted(), images=70, validation_images=20)
    valid = SrcValid(Sorted(), images=20)
    trainer_test(Source(tiny_net()), TensorStream(IMAGES), collect, valid, RunRecord(tmp_path))
    assert len(set(np.load(tmp_path / "outputs.npz")["val_labels"])) == 5
    assert valid._held is not None
    assert len(set(valid._held[1].tolist())) == 5


class Damaged(Validation):
    """A source of which every other image cannot be read."""

    def load(self, index: torch.Tensor, seed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        images, labels = super().load(index, seed)
        return images * (index % 2)[:, None, None, None], torch.where(index % 2 == 1, labels, -1)


class Odd(Validation):
    """Only those that can."""

    def __len__(self) -> int:
        return 20

    def load(self, index: torch.Tensor, seed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return super().load(2 * index + 1, seed)


def test_validation_images_that_cannot_be_read_are_left_out() -> None:
    answers = []
    for source in (Damaged(), Odd()):
        torch.manual_seed(0)
        collect, valid = DatasetEstimates(source, images=70), SrcValid(source)
        trainer = plain_trainer(callbacks=[collect, valid])
        labels = torch.full((12, 8), -1)
        (metrics,) = trainer.test(Source(tiny_net()), TensorStream(IMAGES, labels), verbose=False)
        assert "collected_accuracy" not in metrics
        answers.append({**metrics, "SrcValid": valid.latest})
    assert answers[0] == pytest.approx(answers[1], rel=1e-4)


def test_dataset_estimates_refuse_what_they_cannot_use() -> None:
    for source, images in ((Validation(), 0), (Validation.images[:0], 9)):
        with pytest.raises(HoldfastError, match="at least 1"):
            DatasetEstimates(source, images)
    for settings, words in (
        ({"images": None}, "Pass DatasetEstimates.images=N"),
        ({}, "has labels such as 4"),
    ):
        trainer = plain_trainer(callbacks=[DatasetEstimates(Validation(), **settings)])
        with pytest.raises(HoldfastError, match=words):
            trainer.test(Source(tiny_net(4)), TensorStream(IMAGES), verbose=False)


@pytest.mark.filterwarnings("ignore:DatasetEstimates has no estimate")
def test_a_broken_model_has_no_estimates() -> None:
    trainer = plain_trainer(callbacks=[DatasetEstimates(Validation())])
    broken = TensorStream(IMAGES * torch.nan)
    (metrics,) = trainer.test(Source(tiny_net()), broken, verbose=False)
    assert "COT" not in metrics
    assert "accuracy" in metrics


def test_dataset_estimates(tmp_path: Path) -> None:
    torch.manual_seed(0)
    method: Any = Source(tiny_net())
    labels = torch.arange(96).view(12, 8) % 5
    callbacks = [DatasetEstimates(Validation(), images=70), RunRecord(tmp_path)]
    metrics = trainer_test(method, TensorStream(IMAGES, labels), *callbacks)
    logits = method.predict(IMAGES.flatten(0, 1)[:70])
    right = (logits.argmax(1) == labels.flatten()[:70]).double().mean()
    assert metrics["collected_accuracy"] == pytest.approx(float(right))
    assert metrics["AC"] == pytest.approx(float(logits.softmax(1).amax(1).mean()), rel=1e-5)
    names = ("AC", "DoC", "ATC-MC", "ATC-NE", "COT", "COTT")
    assert all(f"{name}_T" in metrics for name in names)
    assert metrics["AC_T"] != metrics["AC"]
    outputs = np.load(tmp_path / "outputs.npz")
    assert outputs["classes"].tolist() == logits.argmax(1).tolist()
    assert len(outputs["val_classes"]) == 40
