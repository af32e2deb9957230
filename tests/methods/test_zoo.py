"""Networks of other people's zoos: RobustBench's by name and file, open_clip's zero-shot classifiers."""

from pathlib import Path

import pytest
import torch
from torch import nn

from holdfast import HoldfastError
from holdfast.methods import Tent, load_backbone
from holdfast.methods.backbones.clip import ZeroShot
from holdfast.methods.backbones.load import channels_last, check_name, find_network
from holdfast.methods.backbones.structure import stage_ends
from holdfast.methods.backbones.top import top_norms
from holdfast.methods.backbones.zoo import ZOO

IMAGES = torch.rand(2, 3, 32, 32)
PARAMETERS = {  # of RobustBench's own classes, and some of the names in its files
    "Standard": (36_479_194, "block2.layer.0.convShortcut.weight"),
    "Hendrycks2020AugMix_WRN": (2_243_546, "block3.layer.5.bn2.running_var"),
    "Hendrycks2020AugMix_ResNeXt": (6_807_882, "stage_2.0.downsample.1.weight"),
}


@pytest.mark.parametrize("name", ZOO)
def test_robustbench_from_a_file(tmp_path: Path, name: str) -> None:
    with torch.device("meta" if name == "Standard" else "cpu"):
        net = ZOO[name].build()
    count, key = PARAMETERS[name]
    assert sum(p.numel() for p in net.parameters()) == count
    assert key in net.state_dict()
    if name == "Standard":
        return
    state = {f"module.{k}": v for k, v in net.state_dict().items()} | {
        "mu": torch.zeros(1, 3, 1, 1)
    }
    torch.save({"state_dict": state, "epoch": 7}, tmp_path / "net.pt")
    loaded = load_backbone(f"robustbench/{name}:{tmp_path / 'net.pt'}")
    assert torch.equal(loaded(IMAGES), channels_last(net).eval()((IMAGES - 0.5) / 0.5))
    assert loaded.provenance["library"] == "robustbench"


def test_as_many_classes_as_the_file_has(tmp_path: Path) -> None:
    torch.save(
        ZOO["Hendrycks2020AugMix_WRN"].build(num_classes=100).state_dict(), tmp_path / "n.pt"
    )
    net = load_backbone(f"robustbench/cifar100/Hendrycks2020AugMix_WRN:{tmp_path / 'n.pt'}")
    assert Tent(net).adapt(IMAGES).shape == (2, 100)
    assert find_network("robustbench/Hendrycks2020AugMix_WRN")(IMAGES).shape == (2, 10)


def test_without_its_package_robustbench_needs_a_file() -> None:
    check_name("robustbench/Kireev2021Effectiveness_RLAT")
    with pytest.raises(HoldfastError, match=r"the package robustbench.*robustbench/Standard:FILE"):
        load_backbone("robustbench/Kireev2021Effectiveness_RLAT")


class Words(nn.Module):
    """Two encoders, as open_clip's models have them."""

    def __init__(self) -> None:
        super().__init__()
        self.visual = nn.Sequential(
            nn.Flatten(), nn.LayerNorm(3 * 32 * 32), nn.Linear(3 * 32 * 32, 8)
        )
        self.logit_scale = nn.Parameter(torch.tensor(2.0))
        self.table = nn.Embedding(300, 8)

    def encode_text(self, texts: torch.Tensor, normalize: bool) -> torch.Tensor:
        features = self.table(texts).sum(1)
        return nn.functional.normalize(features, dim=-1) if normalize else features


def tokens(texts: list[str]) -> torch.Tensor:
    return torch.tensor([[*text.encode().ljust(30)] for text in texts])


def test_a_zero_shot_classifier() -> None:
    model, names, prompts = Words(), ["dog", "cat", "fox"], ["a {}", "the {}!"]
    net = ZeroShot(model, tokens, names, prompts)
    unit = nn.functional.normalize
    means = [
        unit(unit(model.encode_text(tokens([f"a {n}", f"the {n}!"]), False), dim=-1).mean(0), dim=0)
        for n in names
    ]
    expected = model.logit_scale.exp() * unit(model.visual(IMAGES), dim=-1) @ torch.stack(means).T
    assert torch.allclose(net(IMAGES), expected, atol=1e-5)
    method = Tent(net)
    before = method.adapt(IMAGES)
    assert not torch.equal(method.predict(IMAGES), before)
    with pytest.raises(HoldfastError, match=r"templates with \{\}"):
        ZeroShot(model, tokens, names, ["a dog"])


def test_open_clip_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clip = pytest.importorskip("open_clip", reason="needs the extra clip")
    small = {
        "embed_dim": 16,
        "vision_cfg": {
            "image_size": 32,
            "layers": 4,
            "width": 32,
            "head_width": 16,
            "patch_size": 8,
        },
        "text_cfg": {
            "context_length": 77,
            "vocab_size": 49408,
            "width": 16,
            "heads": 2,
            "layers": 1,
        },
    }
    monkeypatch.setitem(clip.factory._MODEL_CONFIGS, "tiny", small)
    monkeypatch.setattr(clip, "IMAGENET_CLASSNAMES", ["dog", "cat", "fox"])
    model = clip.create_model("tiny")
    torch.save(model.state_dict(), tmp_path / "tiny.pt")
    net = load_backbone(f"open_clip/tiny:{tmp_path / 'tiny.pt'}")
    assert Tent(net).adapt(IMAGES).shape == (2, 3)
    assert net.provenance["mean"] == pytest.approx([0.481, 0.458, 0.408], abs=1e-3)
    assert any("resblocks.3" in name for name in top_norms(net))
    assert not any("resblocks.0" in name for name in top_norms(net))
    assert len(stage_ends(net)) == 4
    with pytest.raises(HoldfastError, match=r"'open_clip/tiny\.laion' does not say which weights"):
        load_backbone("open_clip/tiny.laion")
