"""Backbones by torchvision's and timm's names, with random weights that the test saves as files."""

import json
import math
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import timm
import torch
from safetensors.torch import save_file
from torch import nn
from torchvision import models

from holdfast import HoldfastError
from holdfast.benchmarks.cli import main
from holdfast.methods import Tent
from holdfast.methods.backbones import load_backbone, weights_hash
from holdfast.methods.backbones.classes import Classes, class_groups
from holdfast.methods.backbones.load import channels_last
from holdfast.methods.backbones.pretrained import builder_options

IMAGES = torch.rand(2, 3, 64, 64)


@pytest.fixture
def shufflenet(tmp_path: Path) -> tuple[nn.Module, Path]:
    net = models.shufflenet_v2_x0_5(num_classes=7).eval()
    torch.save(net.state_dict(), tmp_path / "net.pth")
    return net, tmp_path / "net.pth"


def test_torchvision_from_a_file(shufflenet: tuple[nn.Module, Path]) -> None:
    net, file = shufflenet
    backbone = load_backbone(f"torchvision/shufflenet_v2_x0_5:{file}")
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    expected = net((IMAGES - mean[:, None, None]) / std[:, None, None])
    assert torch.allclose(backbone(IMAGES), expected, atol=1e-5)
    facts = backbone.provenance
    assert facts["mean"] == pytest.approx(mean.tolist())
    assert facts["hash"] == weights_hash(net)
    assert facts["file"] == str(file)
    named = load_backbone(f"torchvision/shufflenet_v2_x0_5.IMAGENET1K_V1:{file}")
    assert named.provenance["weights"] == "ShuffleNet_V2_X0_5_Weights.IMAGENET1K_V1"


def test_the_papers_weights_have_a_name() -> None:
    weights = models.get_model_weights("resnet50")["IMAGENET1K_V1"]
    assert weights.url.endswith("resnet50-0676ba61.pth")


@pytest.mark.parametrize(("model", "mean"), [("test_vit", 0.5), ("test_resnet", 0.5)])
def test_timm_from_a_file_takes_timms_normalisation(
    tmp_path: Path, model: str, mean: float
) -> None:
    net = timm.create_model(model, num_classes=6).eval()
    save_file(net.state_dict(), tmp_path / "net.safetensors")
    backbone = load_backbone(f"timm/{model}:{tmp_path / 'net.safetensors'}")
    assert torch.allclose(backbone.net.get_classifier().bias, net.get_classifier().bias)
    own = timm.get_pretrained_cfg(timm.list_pretrained(model)[0])
    assert backbone.provenance["mean"] == pytest.approx(list(own.mean))
    assert backbone.provenance["mean"] == pytest.approx([mean] * 3)
    size = backbone.provenance["input_size"]
    images = torch.rand(2, *size)
    assert torch.allclose(backbone(images), net((images - mean) / own.std[0]), atol=1e-4)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("regnet_x_400mf", {"num_classes": 7}),
        ("inception_v3.IMAGENET1K_V1", {"transform_input": True, "init_weights": False}),
    ],
)
def test_networks_are_those_of_the_published_weights(
    name: str, options: dict, tmp_path: Path
) -> None:
    """torchvision's builders give some weights another input size or scale."""
    net = models.get_model(name.partition(".")[0], **options).eval()
    torch.save(net.state_dict(), tmp_path / "net.pth")
    backbone = load_backbone(f"torchvision/{name}:{tmp_path / 'net.pth'}")
    images = torch.rand(1, 3, 96, 96)
    assert torch.equal(backbone(images), channels_last(net)(backbone.normalise(images)))
    large = models.get_model_weights("vit_b_16")["IMAGENET1K_SWAG_E2E_V1"]
    assert builder_options("vit_b_16", large) == {"image_size": 384}


def test_wrapped_and_prefixed_checkpoints(shufflenet: tuple[nn.Module, Path]) -> None:
    net, file = shufflenet
    state = {f"module.{name}": tensor for name, tensor in net.state_dict().items()}
    torch.save({"state_dict": state, "epoch": 3}, file)
    assert load_backbone(f"torchvision/shufflenet_v2_x0_5:{file}").provenance["hash"] == (
        weights_hash(net)
    )


def test_a_method_takes_the_name(shufflenet: tuple[nn.Module, Path]) -> None:
    method = Tent(f"torchvision/shufflenet_v2_x0_5:{shufflenet[1]}")
    assert method.adapt(IMAGES).shape == (2, 7)
    assert method.backbone.provenance["library"] == "torchvision"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("torchvision/resnet50", r"resnet50\.IMAGENET1K_V1, .*IMAGENET1K_V2"),
        ("torchvision/resnet50.V1", r"IMAGENET1K_V1"),
        ("torchvision/resnet5", "resnet50"),
        ("timm/test_vit", r"timm/test_vit\.r160_in1k"),
        ("timm/vit_small_patch14_dinov2.lvd142m", "no classifier"),
        ("timm/vit_bas_patch16_224", "vit_base_patch16_224"),
        ("torchvision/resnet18:absent.pth", r"absent\.pth.* does not exist"),
        ("photos/net.pth", "torchvision/ARCHITECTURE"),
        ("glyphs@imagenet-x", "neither imagenet-a nor imagenet-r"),
    ],
)
def test_refusals(name: str, sentence: str) -> None:
    with pytest.raises(HoldfastError, match=sentence) as error:
        load_backbone(name)
    assert "\n" not in str(error.value)


class Forbidden(BaseHTTPRequestHandler):
    """Answers every request with 403."""

    def do_GET(self) -> None:
        self.send_error(403)

    do_HEAD = do_CONNECT = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def refusing() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Forbidden) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("name", ["torchvision/resnet18.IMAGENET1K_V1", "timm/test_vit.r160_in1k"])
def test_a_refused_download_says_where_a_file_may_lie(
    name: str,
    refusing: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(variable, refusing)  # for torchvision, whose address is fixed
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", refusing)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    sentence = f"cannot be downloaded .*{name}:FILE"
    with pytest.raises(HoldfastError, match=sentence) as error:
        load_backbone(name)
    assert "\n" not in str(error.value)
    words = ["--data.source", "Digits", "--model", "Source", "--model.backbone", name]
    assert main(["test", "--data", "Clean", *words, "--out", str(tmp_path / "run")]) == 2
    assert re.search(sentence, capsys.readouterr().err)  # and not that a module is missing


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


def test_groups_of_classes(tmp_path: Path) -> None:
    assert [len(class_groups(name)) for name in ("imagenet-a", "imagenet-r")] == [200, 200]
    (tmp_path / "classes.json").write_text(
        json.dumps({"shark": ["n01484850", "n01491361"], "hen": ["n01514859"]})
    )
    assert class_groups(str(tmp_path / "classes.json")) == [[8], [2, 3]]
    logits = torch.randn(4, 1000)
    ours = Classes([[8], [2, 3]])(logits)
    assert torch.equal(ours[:, 0], logits[:, 8])
    assert torch.allclose(ours[:, 1].exp(), logits[:, 2].exp() + logits[:, 3].exp())
    logits[0, 2] = 5.0
    assert ours.shape == (4, 2)
    assert math.isfinite(float(Classes([[8], [2, 3]])(logits).sum()))
