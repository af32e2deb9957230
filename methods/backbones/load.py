"""Source models by name, with their normalisation as first layer and their provenance."""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from ... import HoldfastError
from .pretrained import LIBRARIES, Classes, class_groups, pretrained

ASSETS = Path(__file__).parent / "assets"
EMBEDDED = ("glyphs", "digits")


class Normalise(nn.Module):
    """(images - mean) / std per channel; [B,3,H,W] in [0,1] in, the same shape out."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std


def normalised(net: nn.Module, mean: Sequence[float], std: Sequence[float]) -> nn.Sequential:
    """`net` behind its normalisation, as children `normalise` and `net`; images in [0,1] in."""
    return nn.Sequential(OrderedDict(normalise=Normalise(mean, std), net=net))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with BatchNorm around a shortcut, [B,C,H,W] -> [B,C',H/s,W/s]."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class GlyphNet(nn.Module):
    """A ResNet-8, [B,3,32,32] -> logits [B,classes]; 110,660 parameters for 500 classes."""

    def __init__(self, classes: int = 500, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 5, 2, 2, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.layer1 = BasicBlock(width, width, 1)
        self.layer2 = BasicBlock(width, 2 * width, 2)
        self.layer3 = BasicBlock(2 * width, 4 * width, 2)
        self.fc = nn.Linear(4 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer3(self.layer2(self.layer1(self.stem(x))))
        return self.fc(x.mean((2, 3)))


class CIFARResNet18(nn.Module):
    """AETTA's ResNet-18 (Lee et al. 2024), [B,3,32,32] -> logits [B,classes]: a 3x3 stem without pooling.

    11,173,962 parameters for 10 classes, with the names that they have in AETTA's checkpoints.
    """

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(BasicBlock(64, 64, 1), BasicBlock(64, 64, 1))
        self.layer2 = nn.Sequential(BasicBlock(64, 128, 2), BasicBlock(128, 128, 1))
        self.layer3 = nn.Sequential(BasicBlock(128, 256, 2), BasicBlock(256, 256, 1))
        self.layer4 = nn.Sequential(BasicBlock(256, 512, 2), BasicBlock(512, 512, 1))
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


NETS: dict[str, Callable[..., nn.Module]] = {
    "GlyphNet": GlyphNet,
    "CIFARResNet18": CIFARResNet18,
}


def load_backbone(name: str) -> nn.Module:
    """The named source model, normalised and in eval mode; its `provenance` says where it comes from.

    Names: "glyphs" or "digits"; a .safetensors file of `holdfast train-source`;
    "torchvision/resnet50.IMAGENET1K_V1" and "timm/vit_base_patch16_224.augreg_in21k_ft_in1k", that is
    LIBRARY/ARCHITECTURE.WEIGHTS; the same with ":FILE" for weights from a local file. "@CLASSES" behind
    a name keeps the logits of some ImageNet classes only (see `class_groups`).
    """
    whole, at, classes = name.partition("@")
    library, slash, rest = whole.partition("/")
    model, _, file = rest.partition(":")
    if slash and library in LIBRARIES:
        net, mean, std, facts = pretrained(library, model, Path(file) if file else None)
    else:
        facts = dict(provenance(whole))
        sizes = {key: int(facts[key]) for key in ("classes", "width") if key in facts}
        net = NETS[facts["net"].partition("(")[0]](**sizes)
        net.load_state_dict(load_file(weights_file(whole)))
        mean, std = json.loads(facts["mean"]), json.loads(facts["std"])
    backbone = normalised(net, mean, std).eval()
    if at:
        backbone.add_module("classes", Classes(class_groups(classes)))
    own = {"name": name, "hash": weights_hash(net), "mean": list(mean), "std": list(std)}
    backbone.provenance = {**facts, **own}  # type: ignore[assignment]
    return backbone


def provenance(name: str) -> dict[str, str]:
    """How the weights came about, from the header of their file."""
    file = weights_file(name)
    if not file.is_file():
        raise HoldfastError(f"there is no file {file}: make it with `holdfast train-source`.")
    try:
        with safe_open(file, "pt") as weights:
            facts = weights.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise HoldfastError(f"{file} cannot be read as safetensors ({error}).") from error
    if facts.get("net", "").partition("(")[0] not in NETS:
        raise HoldfastError(
            f"{file} is not of `holdfast train-source`: give the architecture too, as in "
            f"timm/ARCHITECTURE:{file}."
        )
    return facts


def weights_file(name: str) -> Path:
    """Where the weights of an embedded name lie; a path to a .safetensors file stays what it is."""
    if name in EMBEDDED:
        return ASSETS / f"{name}.safetensors"
    if name.endswith(".safetensors"):
        return Path(name)
    raise HoldfastError(
        f"unknown backbone {name!r}: choose {', '.join(EMBEDDED)}, "
        "a .safetensors file of `holdfast train-source`, torchvision/ARCHITECTURE.WEIGHTS, "
        "timm/ARCHITECTURE.WEIGHTS, or one of these two with :FILE behind it."
    )


def weights_hash(module: nn.Module) -> str:
    """12 hex digits of a SHA-256 over the state dict: names, types, shapes and values."""
    digest = hashlib.sha256()
    for name, tensor in module.state_dict().items():
        tensor = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:12]
