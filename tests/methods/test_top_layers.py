"""Which layers SAR, SLR and SoTTA leave alone, in families whose names tell the stages and in others."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import timm
import torch
from common import TensorStream, tiny_net, trainer_test
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torchvision import models
from torchvision.models import resnet18

from holdfast.callbacks import RunRecord
from holdfast.methods import SAR, Tent
from holdfast.methods.backbones.structure import NORMS, top_norms
from holdfast.run_folder import PROVENANCE


def affine(layer: nn.Module) -> bool:
    return isinstance(layer, NORMS) and layer.weight is not None


def norms(network: nn.Module) -> list[str]:
    return [name for name, layer in network.named_modules() if affine(layer)]


def test_top_layers_are_those_of_sar() -> None:
    names = top_norms(resnet18())
    assert {name.split(".")[0] for name in names} == {"layer4"}
    assert len(names) == 5
    vit = VisionTransformer(img_size=8, patch_size=4, embed_dim=16, depth=12, num_heads=2)
    expected = {f"blocks.{block}.norm{norm}" for block in (9, 10, 11) for norm in (1, 2)}
    assert set(top_norms(vit)) == expected | {"norm"}
    wrapped = nn.Sequential(nn.Identity(), vit)
    assert set(top_norms(wrapped)) == {f"1.{n}" for n in expected | {"norm"}}
    assert top_norms(tiny_net()) == []


def test_the_order_of_execution_tells_the_same_as_the_names() -> None:
    resnet = resnet18()
    net = nn.Sequential(*list(resnet.children())[:-1], nn.Flatten(), resnet.fc)
    assert {name.split(".")[0] for name in top_norms(net)} == {"7"}
    assert len(top_norms(net)) == 5
    vit = VisionTransformer(img_size=32, patch_size=8, embed_dim=16, depth=12, num_heads=2)
    net = nn.Sequential(vit.patch_embed, *vit.blocks, vit.norm)
    assert set(top_norms(net)) == {f"{n}.norm{m}" for n in (10, 11, 12) for m in (1, 2)} | {"13"}


FAMILIES: dict[str, tuple[Callable[[], nn.Module], set[str]]] = {
    "EfficientNet": (models.efficientnet_b0, {"features.6", "features.7", "features.8"}),
    "MobileNetV3": (models.mobilenet_v3_small, {f"features.{n}" for n in range(9, 13)}),
    "ConvNeXt": (models.convnext_tiny, {"features.7", "classifier.0"}),
    "DenseNet": (models.densenet121, {"features.denseblock4", "features.norm5"}),
    "Swin": (models.swin_t, {"features.6", "features.7", "norm"}),
    "GoogLeNet": (lambda: models.googlenet(init_weights=False), {"inception5a", "inception5b"}),
    "timm's DPN": (lambda: timm.create_model("dpn48b"), {"features.conv5"}),
    "timm's Visformer": (lambda: timm.create_model("visformer_small"), {"stage3", "norm"}),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_a_top(family: str) -> None:
    make, expected = FAMILIES[family]
    with torch.device("meta"):
        net = make()
    top = top_norms(net)
    assert 0 < len(top) <= len(norms(net)) / 2
    outside = [name for name in top if not name.startswith(tuple(expected))]
    assert len(outside) <= 1, "at most the layer that brings the image to its last size"
    for part in expected:
        inside = [name for name in norms(net) if name.startswith(part)]
        assert len(set(inside) & set(top)) >= 0.5 * len(inside) > 0


@pytest.mark.parametrize(
    "name", ["convnext_atto", "xcit_nano_12_p16_224", "levit_128s", "mixer_s32_224", "ghostnet_050"]
)
def test_all_that_runs_after_the_first_top_layer_is_top(name: str) -> None:
    with torch.device("meta"):
        net = timm.create_model(name)
    top, order = top_norms(net), []
    for layer_name, layer in net.named_modules():
        if affine(layer):
            layer.register_forward_hook(lambda *_, name=layer_name: order.append(name))
    net.eval()(torch.zeros(2, 3, 224, 224, device="meta"))
    assert order[-len(top) :] == top
    assert 0 < len(top) <= len(order) / 2


class Blocks(nn.Module):
    """Blocks called as in efficientnet-pytorch, the last layer made first, for images of one size."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._last = nn.BatchNorm2d(4)
        self._blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(4 if k else 3, 4, 3, 1 + k % 2, 1), nn.BatchNorm2d(4))
            for k in range(6)
        )
        self._fc = nn.Linear(4 * (size // 8) ** 2, 5)
        self.scale = torch.ones(4, 1, 1)  # neither parameter nor buffer, so it has data everywhere

    def forward(self, images: Tensor) -> Tensor:
        for block in self._blocks:
            images = block(images).relu()
        return self._fc((self._last(images) * self.scale).flatten(1))


def test_the_order_is_that_of_execution_not_of_construction() -> None:
    net = Blocks(32)
    assert top_norms(net) == ["_blocks.5.1", "_last"]
    assert not net._last._forward_hooks


def test_without_an_image_that_fits_construction_tells_the_order() -> None:
    assert top_norms(Blocks(40)) == ["_blocks.4.1", "_blocks.5.1"]


def test_the_record_says_which_layers_are_left_alone(tmp_path: Path) -> None:
    net = models.mobilenet_v3_small(num_classes=5)
    record, data = RunRecord(tmp_path), TensorStream(torch.rand(1, 4, 3, 32, 32))
    tta = SAR(net)
    trainer_test(tta, data, record)
    written = json.loads((tmp_path / PROVENANCE).read_text())["skipped_layers"]
    adapting = {
        name
        for name, layer in tta.backbone.named_modules()
        if affine(layer) and layer.weight.requires_grad
    }
    assert {name.split(".")[1] for name in written} == {"9", "10", "11", "12"}
    assert adapting == set(norms(tta.backbone)) - set(written)
    assert Tent(net).skipped_layers == ()


def test_a_network_without_a_top_is_told() -> None:
    with pytest.warns(UserWarning, match="skip_top has no effect.* skip_top=False"):
        SAR(tiny_net())
