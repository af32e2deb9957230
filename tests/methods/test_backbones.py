"""Source models: committed weights reach what their provenance says."""

import math

import pytest
import torch
from torch import nn

from holdfast import HoldfastError
from holdfast.benchmarks.train.source_models import EMBEDDED as RECIPES
from holdfast.benchmarks.train.source_models import accuracy, with_batch_statistics
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
