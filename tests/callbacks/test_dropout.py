"""Dropout passes: where dropout acts, and that passes which share computation equal separate ones."""

from typing import Any

import pytest
import timm
import torch
import torchvision
from common import tiny_net
from torch import Tensor, nn

from holdfast import HoldfastError
from holdfast.callbacks import AETTA
from holdfast.callbacks.dropout import DropoutPasses
from holdfast.methods import Source, Tent
from holdfast.methods.backbones.nets import GlyphNet
from holdfast.methods.backbones.structure import stage_ends

IMAGES = torch.rand(8, 3, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_each_pass_has_its_own_statistics(at_once: int) -> None:
    """What leaves the second dropout is what a pass by itself makes of what left the first."""
    net: Any = Tent(tiny_net()).backbone
    seen: dict[str, list[Tensor]] = {"3": [], "6": []}
    for name, inputs in seen.items():
        net.get_submodule(name).register_forward_pre_hook(
            lambda _, args, to=inputs: to.append(*args)
        )
    images, random = IMAGES, torch.Generator().manual_seed(0)
    passes = DropoutPasses(net, ["2", "5"], at_once)
    with torch.no_grad():
        logits = passes(images, 4, 0.3, random)
        first = torch.cat(seen["3"][1:]).split(8)  # the first one was recorded without dropout
        second = torch.cat(seen["6"][1:]).split(8)
        assert len(first) == len(second) == 4
        for number in range(4):
            alone = net[3:6](first[number])
            kept = second[number] != 0
            torch.testing.assert_close(second[number][kept], alone[kept] / 0.7)
            torch.testing.assert_close(logits[number], net[6:](second[number]))
        assert not torch.equal(first[0], first[1])
        undropped = net[:3](images)
        zeros = [float((x == 0)[undropped != 0].float().mean()) for x in first]
    assert sum(zeros) / 4 == pytest.approx(0.3, abs=0.02)


def test_what_lies_before_the_dropout_is_computed_once() -> None:
    method = Tent(GlyphNet(10))
    net: Any = method.backbone
    layers = {"stem": net.stem[0], "layer1": net.layer1.bn1, "layer3": net.layer3.bn1}
    images = dict.fromkeys(layers, 0)

    def count(layer: nn.Module, args: Any, output: Tensor) -> None:
        name = next(name for name in layers if layers[name] is layer)
        images[name] += len(output)

    for layer in layers.values():
        layer.register_forward_hook(count)
    AETTA(passes=10).watch(method, torch.rand(4, 3, 32, 32))
    assert images == {"stem": 4, "layer1": 4, "layer3": 11 * 4}


@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize(
    ("net", "layers"),
    [
        (torchvision.models.resnet18, None),  # its one ReLU acts before and after the first stage
        (lambda: timm.create_model("resnet10t"), None),
        (lambda: timm.create_model("vit_tiny_patch16_224", img_size=32, depth=4), None),
        (lambda: torchvision.models.mobilenet_v3_small(), ["features.3", "features.8"]),
        (tiny_net, ["1", "4"]),
        (lambda: overwriting_net(), ["0", "3"]),
    ],
)
def test_passes_that_drop_nothing_predict_the_same(net: Any, layers: Any, at_once: int) -> None:
    network, images = net().train(), torch.rand(4, 3, 32, 32)
    for layer in network.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    with torch.no_grad():
        expected = network(images)
        layers = layers or stage_ends(network)
        found = DropoutPasses(network, layers, at_once)(images, 4, 0.0, torch.Generator())
    torch.testing.assert_close(found, expected.expand(4, -1, -1), rtol=1e-3, atol=1e-4)


def overwriting_net() -> nn.Module:
    """One whose activations overwrite what the layers before them return."""
    net: Any = tiny_net()
    net[1], net[5] = nn.Hardswish(inplace=True), nn.Hardswish(inplace=True)
    return net


@pytest.mark.parametrize(
    ("net", "expected"),
    [
        (torchvision.models.resnet18, [f"layer{n}" for n in (1, 2, 3, 4)]),
        (GlyphNet, ["layer1", "layer2", "layer3"]),
        (
            lambda: timm.create_model("vit_tiny_patch16_224", img_size=32),
            [f"blocks.{n}" for n in (2, 5, 8, 11)],
        ),
        (
            lambda: timm.create_model("swin_tiny_patch4_window7_224"),
            [f"layers.{n}" for n in range(4)],
        ),
        (torchvision.models.convnext_tiny, [f"features.{n}" for n in (1, 3, 5, 7)]),
    ],
)
def test_stages_are_found_by_structure(net: Any, expected: list[str]) -> None:
    with torch.device("meta"):
        found = net()
    assert stage_ends(found) == expected


def test_aetta_of_a_single_image() -> None:
    answer = AETTA(passes=3).watch(Tent(GlyphNet(10)), torch.rand(1, 3, 32, 32))
    assert answer is not None
    assert 0 <= answer <= 1


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (None, "Name in `layers` the modules"),
        (["2", "nine"], "no module nine"),
        (["7.spare"], r"does not use its module 7\.spare"),
    ],
)
def test_what_is_refused(layers: Any, words: str) -> None:
    net: Any = tiny_net()
    net[7].spare = nn.Linear(1, 1)
    with pytest.raises(HoldfastError, match=words):
        AETTA(layers=layers).watch(Source(net), IMAGES)
