"""Backbones of one's own: by class path, from factories and files, and what they may return."""

import sys
import warnings
from pathlib import Path

import pytest
import torch
from conftest import tiny_net
from processes import started
from torch import nn

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.methods import Tent, normalised
from holdfast.methods.backbones import load_backbone, weights_hash
from holdfast.methods.backbones.load import find_network

MODULE = """
from torch import nn

class Lite0(nn.Sequential):
    def __init__(self, width: int = 4) -> None:
        super().__init__(nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))

def make(width: int) -> nn.Module:
    return Lite0(width)

def answer() -> int:
    return 42
"""
IMAGES = torch.rand(2, 3, 32, 32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with a module of one's own, which commands and this test find."""
    (tmp_path / "mynets.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mynets", raising=False)
    return tmp_path


def test_a_class_a_factory_and_a_file(folder: Path) -> None:
    net = load_backbone("mynets.Lite0")
    assert net[0].out_channels == 4
    assert not net.training
    assert net.provenance["name"] == "mynets.Lite0"
    assert load_backbone("{class_path: mynets.make, init_args: {width: 6}}")[0].out_channels == 6
    torch.save(net.state_dict(), folder / "net.pt")
    again = load_backbone("mynets.Lite0:net.pt")
    assert again.provenance["hash"] == weights_hash(net) == weights_hash(again)
    assert find_network("mynets.Lite0:net.pt").provenance["weights"] == "net.pt"


def test_names_in_a_file_are_mapped(folder: Path) -> None:
    net = load_backbone("mynets.Lite0")
    state = {f"backbone.{key}": value for key, value in net.state_dict().items()}
    state["head.weight"] = state.pop("backbone.5.weight")
    torch.save({"state_dict": state}, folder / "net.pt")
    with pytest.raises(HoldfastError, match=r"backbone\.0\.bias .* 0\.bias .*keys"):
        load_backbone("mynets.Lite0:net.pt")
    keys = '{"backbone.": "", head.: "5."}'
    mapped = load_backbone(f"{{class_path: mynets.Lite0, weights: net.pt, keys: {keys}}}")
    assert weights_hash(mapped) == weights_hash(net)


def test_normalisation_and_classes_of_ones_own(folder: Path) -> None:
    scale = "mean: [0.5, 0.5, 0.5], std: [0.2, 0.2, 0.2]"
    net = load_backbone(f"{{class_path: mynets.Lite0, {scale}}}")
    assert torch.equal(net(IMAGES), net.net((IMAGES - 0.5) / 0.2))
    assert net.provenance["mean"] == [0.5, 0.5, 0.5]
    with pytest.raises(HoldfastError, match="weights cannot be passed"):
        load_backbone("glyphs", weights="net.pt")
    with pytest.raises(HoldfastError, match="both mean and std"):
        load_backbone("{class_path: mynets.Lite0, mean: [0.5, 0.5, 0.5]}")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("mynets.Lite1", r"mynets\.Lite1 .*Lite1 in mynets\.py"),
        ("nonets.Lite0", r"nonets\.Lite0 cannot be imported"),
        ("mine.safetensors", r"mine\.safetensors does not exist"),
        ("mine.pt", r"Unknown backbone 'mine\.pt'\. Choose"),
        ("mynets.make", r"raises TypeError .*width.*init_args"),
        ("mynets.answer", "returns a int"),
        ("mynets.Lite0:none.pt", r"none\.pt.* does not exist"),
        ("{class_path: mynets.Lite0, weight: net.pt}", r"unknown keys \['weight'\]"),
        ("{class_path: [mynets.Lite0", "is not valid YAML"),
        ("{init_args: {}}", "has no class_path"),
    ],
)
def test_mistakes_get_one_sentence(folder: Path, name: str, sentence: str) -> None:
    with pytest.raises(HoldfastError, match=sentence) as error:
        load_backbone(name)
    assert "\n" not in str(error.value)


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_torchscript_is_refused_in_our_own_words(folder: Path) -> None:
    script = torch.jit.trace(tiny_net().eval(), IMAGES)
    torch.jit.save(script, folder / "net.pt")
    with pytest.raises(HoldfastError, match="TorchScript"):
        Tent(script)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(HoldfastError, match="TorchScript"):
            load_backbone("mynets.Lite0:net.pt")


class Answer:
    """Like the outputs of transformers' classifiers."""

    def __init__(self, logits: torch.Tensor) -> None:
        self.logits = logits


class Wrapped(nn.Module):
    """A network that returns more than its logits."""

    def __init__(self, how: type) -> None:
        super().__init__()
        self.how, self.net = how, tiny_net()

    def forward(self, images: torch.Tensor) -> object:
        return self.how(logits=self.net(images))


@pytest.mark.parametrize("how", [Answer, dict])
def test_a_network_may_return_its_logits_by_name(how: type) -> None:
    net = Wrapped(how)
    plain, method = Tent(net.net), Tent(net)
    for _ in range(2):
        assert torch.equal(method.adapt(IMAGES), plain.adapt(IMAGES))
    assert isinstance(net(IMAGES), how), "the network given is left untouched"
    scaled = Tent(normalised(net, [0.5] * 3, [0.2] * 3))
    assert scaled.predict(IMAGES).shape == (2, 5)


def test_a_network_without_logits_is_told() -> None:
    with pytest.raises(HoldfastError, match="returns a list without logits"):
        Tent(Wrapped(lambda logits: [logits])).adapt(IMAGES)


def test_commands_find_them_in_the_current_folder(folder: Path) -> None:
    torch.save(load_backbone("mynets.Lite0").state_dict(), folder / "net.pt")
    words = "calibrate --source digits --images 1 --corruptions contrast brightness --out c.npz"
    for backbone in ("mynets.Lite0:net.pt", "{class_path: mynets.make, init_args: {width: 4}}"):
        (folder / "c.npz").unlink(missing_ok=True)
        environment = {"PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"}
        given = [*words.split(), "--backbone", backbone]
        with started(*given, environment=environment) as process:
            output = process.told(300)
        assert process.returncode == 0, output
        assert (folder / "c.npz").exists()


@pytest.mark.parametrize(
    "backbone",
    [
        "mynets.Lite0",
        "mynets.Lite0:net.pt",
        "{class_path: mynets.make, init_args: {width: 5}}",
        "{class_path: holdfast.methods.load_backbone, init_args: "
        '{name: mynets.Lite0, weights: net.pt, keys: {"0.": "0."}}}',
    ],
)
def test_holdfast_test_takes_them(folder: Path, backbone: str) -> None:
    torch.save(load_backbone("mynets.Lite0").state_dict(), folder / "net.pt")
    words = "test --data CCC --data.source Digits --data.calibration digits --data.images 32"
    more = "--data.batch_size 16 --data.num_workers 0 --progress false --out run --model Source"
    assert main([*words.split(), *more.split(), "--model.backbone", backbone]) == 0
    assert (folder / "run" / "summary.json").exists()


@pytest.mark.parametrize(
    ("mean", "std", "sentence"),
    [
        ([123.7, 116.3, 103.5], [58.4, 57.1, 57.4], "Divide values .* by 255"),
        ([0.5], [0.2, 0.2, 0.2], "three values for each"),
        ([0.5] * 3, [0.2, 0.0, 0.2], r"deviations in \(0,1\]"),
        ([0.5, float("nan"), 0.5], [0.2] * 3, r"means in \[0,1\]"),
    ],
)
def test_a_normalisation_that_cannot_be_right(mean: list, std: list, sentence: str) -> None:
    with pytest.raises(HoldfastError, match=sentence) as error:
        normalised(tiny_net(), mean, std)
    assert "\n" not in str(error.value)
