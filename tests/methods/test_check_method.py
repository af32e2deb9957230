"""Each check of `holdfast check-method` fails on a method that is wrong in that respect; the command."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ROOT
from processes import started
from torch import Tensor
from torch.optim import SGD

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.methods import Source, Tent
from holdfast.methods.contract import CHECKS, NETS
from holdfast.methods.contract.devices import compare, outcome


class Noisy(Tent):
    """Draws from PyTorch's random numbers."""

    def loss(self, logits: Tensor, images: Tensor) -> Tensor:
        return super().loss(logits, images) * torch.rand(())


class ChangesTop(Tent):
    """Moves a weight that no reset restores."""

    def update(self, images: Tensor) -> Tensor:
        self.backbone[8].bias.data.add_(1)  # type: ignore
        return super().update(images)


class Learns(Tent):
    """Moves a weight when it predicts."""

    def corrected(self, logits: Tensor) -> Tensor:
        next(self.norm_affine().__iter__()).data.mul_(1.1)
        return logits


class Sharpens(Tent):
    """Scores other logits than it predicts."""

    def update(self, images: Tensor) -> Tensor:
        return 2 * super().update(images)


class Counts(Tent):
    """Remembers its steps in an attribute."""

    count = 0

    def loss(self, logits: Tensor, images: Tensor) -> Tensor:
        self.count += 1
        return super().loss(logits, images) / self.count


class Deviates(Tent):
    """Divides by a deviation over images."""

    def update(self, images: Tensor) -> Tensor:
        return super().update(images) / images.std(0).mean()


class DividesByColour(Tent):
    """Divides by the images' deviation."""

    def update(self, images: Tensor) -> Tensor:
        return super().update(images) / images.std()


class Logarithmic(Tent):
    """Scores the logarithm of probabilities without a bound."""

    def update(self, images: Tensor) -> Tensor:
        return super().update(images).softmax(1).log()


class Small(Tent):
    """Takes 8 x 8 pixels only."""

    def update(self, images: Tensor) -> Tensor:
        return super().update(images.view(len(images), 3, 8, 8))


class Half(Tent):
    """Returns what autocast makes."""

    def update(self, images: Tensor) -> Tensor:
        super().update(images)
        return self.backbone(images)


class Single(Tent):
    """Returns float32 whatever comes."""

    def update(self, images: Tensor) -> Tensor:
        return super().update(images).float()


class Averages(Tent):
    """Replaces what is not finite, so that a bad image is not seen and moves the others."""

    def adapt(self, images: Tensor) -> Tensor:
        return super().adapt(images.nan_to_num(0.5, 0.5, 0.5))


class Hoards(Tent):
    """Remembers all logits."""

    def update(self, images: Tensor) -> Tensor:
        logits = super().update(images)
        self.all = [*getattr(self, "all", []), logits.detach()]
        return logits


class Sums(Tent):
    """Adds up losses with their graphs."""

    total: Any = 0

    def loss(self, logits: Tensor, images: Tensor) -> Tensor:
        self.total = self.total + logits.sum()
        return super().loss(logits, images)


class Whole(Tent):
    """Computes losses from a pass over its own part only."""

    def update(self, images: Tensor) -> Tensor:
        return super().update(images[: (len(images) + 1) // 2 if self.divides else None])


BROKEN = {
    "deterministic": Noisy,
    "changes": ChangesTop,
    "predict_changes_nothing": Learns,
    "predict_foretells": Sharpens,
    "reset": Counts,
    "resume": Counts,
    "one_image": Deviates,
    "constant_images": DividesByColour,
    "certain_predictions": Logarithmic,
    "large_images": Small,
    "half_precision": Half,
    "double_precision": Single,
    "not_finite": Averages,
    "memory": Hoards,
}
EXPECTED = {"large_images": RuntimeError}


@pytest.mark.parametrize("name", CHECKS)
def test_each_check_fails_on_a_method_that_is_wrong_in_this(name: str) -> None:
    options = {"steps": 60} if name == "memory" else {}
    CHECKS[name].verify(partial(Tent, optimizer=partial(SGD, lr=0.05)), NETS["bn"], **options)
    with pytest.raises(EXPECTED.get(name, HoldfastError)):
        CHECKS[name].verify(
            partial(BROKEN[name], optimizer=partial(SGD, lr=0.05)), NETS["bn"], **options
        )


def test_graphs_of_gradients_count_as_memory() -> None:
    with pytest.raises(HoldfastError, match="number of nodes"):
        CHECKS["memory"].verify(Sums, NETS["bn"], steps=60)


def test_other_numbers_of_two_devices_are_seen() -> None:
    found = outcome(Tent, NETS["bn"], 1)
    compare(found, Tent, NETS["bn"])
    with pytest.raises(HoldfastError, match="self\\.logits"):
        compare(found, Source, NETS["bn"])


OWN = """
from holdfast.methods import Tent

class Counts(Tent):
    count = 0
    def __init__(self, backbone, factor=0.0):
        super().__init__(backbone)
        self.factor = factor
    def loss(self, logits, images):
        self.count += 1
        return super().loss(logits, images) * self.factor / self.count
"""


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(OWN)
    words = ["check-method", "mine.Counts", "--nets", "bn", "--only", "one_image", "reset"]
    assert main([*words, "--set", "factor=3"]) == 1
    lines = capsys.readouterr().out.splitlines()
    verdicts = {line.split()[0]: line.split()[1] for line in lines[2:4]}
    assert verdicts == {"reset": "FAILS", "one_image": "holds"}
    assert "fresh_state" in lines[-1]
    assert main(["check-method", "Tent", "--nets", "gn", "--only", "predict_foretells"]) == 0
    for wrong, sentence in (
        (["mine.Count"], "no attribute"),
        (["Tnet"], "RDumb"),
        (["NOTE", "--nets", "gn", "vit"], "Choose a backbone"),
        (["Tent", "--set", "lr"], "lr=VALUE"),
        (["Tent", "--set", "lr=1"], "--set"),
    ):
        assert main(["check-method", *wrong]) == 2
        assert sentence in capsys.readouterr().err


def test_the_example(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(ROOT / "docs" / "examples")
    checks = [name for name in CHECKS if name != "memory"]
    assert main(["check-method", "anchored.Anchored", "--only", *checks]) == 0
    assert capsys.readouterr().out.count("holds") >= len(checks)


@pytest.mark.slow
def test_two_devices_from_the_command_line(tmp_path: Path) -> None:
    with started("check-method", "Tent", "--only", "sync", folder=tmp_path) as process:
        output = process.told(300)
    assert process.returncode == 0, output
    assert output.splitlines()[2].split()[:2] == ["sync", "holds"]
