"""Networks by name: source models with their normalisation and provenance, or untrained ones."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import nn

from ... import HoldfastError
from .classes import Classes, class_groups
from .clip import open_clip_load
from .libraries import Pretrained, robustbench_load, timm_load, torchvision_load, untrained
from .nets import NETS
from .normalise import normalised
from .user_network import own_network, own_path

ASSETS = Path(__file__).parent / "assets"
EMBEDDED = ("glyphs", "digits")
LIBRARIES = {
    "torchvision": torchvision_load,
    "timm": timm_load,
    "robustbench": robustbench_load,
    "open_clip": open_clip_load,
}


def load_backbone(
    name: str,
    init_args: dict[str, Any] | None = None,
    weights: str | None = None,
    keys: dict[str, str] | None = None,
    mean: list[float] | None = None,
    std: list[float] | None = None,
) -> nn.Module:
    """The named source model, normalised and in eval mode; its `provenance` says where it comes from.

    Names: "glyphs" or "digits"; a .safetensors file of `holdfast train`;
    "torchvision/resnet50.IMAGENET1K_V1" and "timm/vit_base_patch16_224.augreg_in21k_ft_in1k", that is
    LIBRARY/ARCHITECTURE.WEIGHTS; "open_clip/ViT-B-32.openai", a zero-shot classifier of ImageNet's classes
    (see `zero_shot`); the same with ":FILE" for weights from a local file; "robustbench/Standard" or
    "robustbench/cifar100/NAME", of its corruption leaderboards; and users' networks, "mynets.Lite0" or
    "mynets.Lite0:FILE", the only ones that take the other arguments. "@CLASSES" after a name keeps only
    the logits of some ImageNet classes (see `class_groups`).

    Args:
        name: see above.
        init_args: arguments of the user's class or function.
        weights: a file with the state dict of the user's network.
        keys: how beginnings of the names in that file change: {"backbone.": ""} removes a prefix.
        mean: of the images in [0,1], per channel, if the user's network does not normalise them itself.
        std: their standard deviation.

    Raises:
        HoldfastError: if there is no such network, or its weights do not fit.
    """
    whole, at, classes = name.partition("@")
    groups = class_groups(classes) if at else None
    given = {"init_args": init_args, "weights": weights, "keys": keys, "mean": mean, "std": std}
    given = {key: value for key, value in given.items() if value is not None}
    if path := own_path(whole):
        file = whole.partition(":")[2]
        settings = {"class_path": path} | ({"weights": file} if file else {}) | given
        backbone = own_backbone(name, settings)
        if groups is not None:
            facts, backbone = backbone.provenance, nn.Sequential(backbone, Classes(groups))
            backbone.provenance = facts
        return channels_last(backbone).eval()
    if given:
        raise HoldfastError(
            f"{', '.join(given)} cannot be passed, because {name!r} is not a class of your own. "
            "Remove them."
        )
    library, slash, rest = whole.partition("/")
    model, _, file = rest.partition(":")
    if slash and library in LIBRARIES:
        if file and not Path(file).is_file():
            raise HoldfastError(
                f"{file}, which should contain weights of {library}/{model}, does not exist."
            )
        net, means, stds, facts = LIBRARIES[library](model, Path(file) if file else None)
    else:
        net, means, stds, facts = trained(whole)
    backbone = channels_last(normalised(net, means, stds)).eval()
    if groups is not None:
        backbone.add_module("classes", Classes(groups))
    of_net = {"name": name, "hash": weights_hash(net), "mean": list(means), "std": list(stds)}
    backbone.provenance = {**facts, **of_net}  # type: ignore[assignment]
    return backbone


def own_backbone(name: str, settings: dict[str, Any]) -> Any:
    """A user's network, preceded by a normalisation if its settings have one; raises HoldfastError."""
    scale = {key: list(settings.pop(key)) for key in ("mean", "std") if key in settings}
    if len(scale) == 1:
        raise HoldfastError(
            f"Backbone {name!r}: pass both mean and std, or neither if the network normalises its "
            "inputs."
        )
    net = own_network(**settings)
    facts = {"name": name, "hash": weights_hash(net), **settings, **scale}
    backbone: Any = normalised(net, **scale) if scale else net
    backbone.provenance = facts
    return backbone


def channels_last(net: nn.Module) -> nn.Module:
    """The network in this memory format if it has batch normalisation; a ResNet's step then takes 0.8 of
    the time."""
    if any(isinstance(layer, nn.BatchNorm2d) for layer in net.modules()):
        net.to(memory_format=torch.channels_last)
    return net


def find_network(name: str, size: int = 224) -> nn.Module:
    """The network that `load_backbone` finds by that name, or an untrained architecture for images
    of `size` pixels.

    Untrained and without normalisation are "CIFARResNet18", "torchvision/resnet18" and
    "timm/vit_tiny_patch16_224"; "resnet18" is torchvision's if that has it, else timm's.

    Raises HoldfastError if there is no network of that name.
    """
    if name in NETS:
        return channels_last(NETS[name](10))
    library, _, architecture = name.rpartition("/")
    bare = library in ("", "torchvision", "timm") and not {".", ":"} & {*architecture}
    if bare and name not in EMBEDDED and not own_path(name):
        return channels_last(untrained(architecture, library, size))
    return load_backbone(name)


def check_name(name: str) -> None:
    """Refuse names that cannot be a backbone's, independent of existing files; raises HoldfastError."""
    whole = name.partition("@")[0]
    if not own_path(whole) and whole.partition("/")[0] not in LIBRARIES:
        weights_file(whole)


def trained(name: str) -> Pretrained:
    """A network of `holdfast train`, by the name of an embedded one or its file."""
    facts = provenance(name)
    sizes = {key: int(facts[key]) for key in ("classes", "width", "size", "depth") if key in facts}
    norm = {"norm": facts["norm"]} if "norm" in facts else {}
    net = NETS[facts["net"].partition("(")[0]](**sizes, **norm)
    net.load_state_dict(load_file(weights_file(name)))
    return Pretrained(net, json.loads(facts["mean"]), json.loads(facts["std"]), facts)


def provenance(name: str) -> dict[str, str]:
    """The training record of such a network's weights, from the header of their file.

    Raises HoldfastError if the file is missing or damaged.
    """
    file = weights_file(name)
    if not file.is_file():
        raise HoldfastError(f"{file} does not exist. Make it with `holdfast train`.")
    try:
        with safe_open(file, "pt") as weights:
            facts = weights.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise HoldfastError(f"{file} cannot be read as a safetensors file ({error}).") from error
    if facts.get("net", "").partition("(")[0] not in NETS:
        raise HoldfastError(
            f"{file} was not written by `holdfast train`. Name its architecture, as in "
            f"timm/ARCHITECTURE:{file}."
        )
    return dict(facts)


def weights_file(name: str) -> Path:
    """The path of an embedded network's weights; a path to a .safetensors file is returned unchanged.

    Raises HoldfastError for other names.
    """
    if name in EMBEDDED:
        return ASSETS / f"{name}.safetensors"
    if name.endswith(".safetensors"):
        return Path(name)
    raise HoldfastError(
        f"Unknown backbone {name!r}. Choose {', '.join(EMBEDDED)}, a .safetensors file of "
        f"`holdfast train`, {', '.join(f'{library}/ARCHITECTURE.WEIGHTS' for library in LIBRARIES)}, "
        "a class of your own, as in mynets.Lite0, or one of these followed by :FILE."
    )


def weights_hash(module: nn.Module) -> str:
    """12 hex digits of a SHA-256 over the state dict: names, types, shapes and values."""
    digest = hashlib.sha256()
    for name, tensor in module.state_dict().items():
        tensor = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:12]
