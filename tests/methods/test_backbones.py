"""Source models: committed weights reach what their provenance says, and can be trained anew."""

import math

import pytest
import torch
from torch import nn

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main as holdfast
from holdfast.benchmarks.train.embedded import RECIPES, draw
from holdfast.benchmarks.train.train_source import accuracy, main, with_batch_statistics
from holdfast.methods.backbones import load_backbone, normalised, weights_hash
from holdfast.methods.backbones.load import ASSETS, EMBEDDED, find_network, provenance
from holdfast.methods.backbones.nets import GlyphNet


def test_glyph_net_size_and_stages():
    net = GlyphNet()
    affine = [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
    assert sum(p.numel() for p in net.parameters()) == 110_660
    assert sum(p.numel() for m in affine for p in m.parameters()) == 672
    assert [name for name, _ in net.named_children()] == [
        "stem",
        "layer1",
        "layer2",
        "layer3",
        "fc",
    ]
    assert net(torch.rand(2, 3, 32, 32)).shape == (2, 500)


def test_normalisation_comes_first_and_stays_out_of_the_state_dict():
    net = GlyphNet(10).eval()
    model = normalised(net, (0.4, 0.5, 0.6), (0.1, 0.2, 0.3)).eval()
    images = torch.rand(2, 3, 32, 32)
    mean, std = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.1, 0.2, 0.3])
    expected = net((images - mean[:, None, None]) / std[:, None, None])
    assert torch.equal(model(images), expected)
    assert model.state_dict().keys() == {f"net.{key}" for key in net.state_dict()}
    assert model.double()(images.double()).dtype == torch.float64


@pytest.mark.parametrize("name", EMBEDDED)
def test_committed_weights_reach_their_stated_accuracy(name):
    model, facts = load_backbone(name), provenance(name)
    assert not model.training
    assert (ASSETS / f"{name}.safetensors").stat().st_size < 2**20
    source = RECIPES[name].source("calibration")
    count = min(2048, len(source))
    for net, key in [
        (model, "accuracy"),
        (with_batch_statistics(model), "accuracy_batch_statistics"),
    ]:
        stated = float(facts[key])
        error = math.sqrt(stated * (1 - stated) / count)
        assert abs(accuracy(net, source, count) - stated) < 3.5 * error + 0.005


def test_weights_hash_sees_every_value():
    net = GlyphNet(10)
    before = weights_hash(net)
    assert before == weights_hash(net)
    with torch.no_grad():
        net.fc.bias[3] += 1e-3
    assert weights_hash(net) != before
    assert len(before) == 12


def test_refusals(tmp_path):
    with pytest.raises(HoldfastError, match=r"'resnet.+glyphs, digits"):
        load_backbone("resnet")
    with pytest.raises(HoldfastError, match="absent"):
        load_backbone(str(tmp_path / "absent.safetensors"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("glyphs", "Sequential"),  # a source model, behind its normalisation
        ("CIFARResNet18", "CIFARResNet18"),
        ("torchvision/resnet18", "ResNet"),
        ("torchvision.resnet18", "ResNet"),
        ("resnet18", "ResNet"),
        ("timm/test_vit", "VisionTransformer"),
        ("test_vit", "VisionTransformer"),
    ],
)
def test_networks_with_and_without_weights_by_name(name, kind):
    net = find_network(name, size=32)
    assert type(net).__name__ == kind
    assert net.eval()(torch.rand(2, 3, 32, 32)).shape[0] == 2


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("resnet", r"'resnet'.+CIFARResNet18.+timm/ARCHITECTURE"),
        ("x/resnet18", r"'x/resnet18'.+timm/ARCHITECTURE"),
        ("torchvision/resnet1", r"torchvision has no model 'resnet1'.*resnet18"),
        ("torchvision.test_vit", r"torchvision has no model 'test_vit'"),
        ("torchvision/resnet18.V1", "IMAGENET1K_V1"),  # weights: what load_backbone says
    ],
)
def test_unknown_networks_are_refused(name, sentence):
    with pytest.raises(HoldfastError, match=sentence):
        find_network(name)


def test_draw_is_reproducible_and_does_not_repeat():
    index = torch.cat([draw(step, 0, 2**40)[0] for step in range(50)])
    assert len(index.unique()) == 50 * 128
    assert torch.equal(draw(7, 0, 2**40)[0], index[7 * 128 : 8 * 128])
    assert not torch.equal(draw(7, 1, 2**40)[0], index[7 * 128 : 8 * 128])
    assert draw(0, 0, 10)[0].max() < 10


@pytest.fixture
def few_images(monkeypatch):
    """The accuracy of what is trained is measured on 640 glyphs in place of 20,480."""
    monkeypatch.setitem(RECIPES, "glyphs", RECIPES["glyphs"]._replace(calibration=640))


def test_train_source_writes_a_loadable_file(tmp_path, few_images, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert holdfast(["train-source", "--steps", "20", "--out", "new/net.safetensors"]) == 0
    file = tmp_path / "new" / "net.safetensors"
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]
    assert provenance(str(file))["steps"] == "20"
    assert load_backbone(str(file))(torch.rand(2, 3, 32, 32)).shape == (2, 500)
    assert "loss=" in capfd.readouterr().err


def test_train_source_makes_a_network_for_glyphs_of_that_size(tmp_path, few_images):
    file = str(tmp_path / "net.safetensors")
    assert main(["glyphs", "--size", "64", "--steps", "4", "--width", "8", "--out", file]) == 0
    net = load_backbone(file)
    assert net.provenance["size"] == "64"
    assert net.get_submodule("net.stem")(torch.rand(1, 3, 64, 64)).shape == (1, 8, 16, 16)
    with pytest.raises(HoldfastError, match=r"--size .*digits"):
        main(["digits", "--size", "64"])


def test_interrupted_training_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "net.safetensors"
    file.write_text("old")
    monkeypatch.setattr("holdfast.benchmarks.train.train_source.accuracy", interrupt)
    with pytest.raises(KeyboardInterrupt):
        main(["digits", "--steps", "4", "--out", str(file)])
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def interrupt(*_, **__):
    raise KeyboardInterrupt


def test_train_source_refuses_nonsense(capsys):
    with pytest.raises(HoldfastError, match="at least 4"):
        main(["--steps", "1"])
    with pytest.raises(SystemExit):
        main(["letters"])
    assert "glyphs" in capsys.readouterr().err
