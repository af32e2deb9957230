"""Networks by name: source models with their normalisation and provenance, or untrained ones."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import nn

from ... import HoldfastError
from .classes import Classes, class_groups
from .clip import OPEN_CLIP
from .nets import NETS
from .normalise import normalised
from .pretrained import TIMM, TORCHVISION, check_architecture
from .user_network import own_network, own_settings
from .zoo import ROBUSTBENCH

ASSETS = Path(__file__).parent / "assets"
EMBEDDED = ("glyphs", "digits")
LIBRARIES = {
    "torchvision": TORCHVISION,
    "timm": TIMM,
    "robustbench": ROBUSTBENCH,
    "open_clip": OPEN_CLIP,
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
    (see `zero_shot`); "robustbench/Standard" or "robustbench/cifar100/NAME", of its corruption
    leaderboards; the same with ":FILE" for weights from a local file; and user networks,
    "mynets.Lite0" or "mynets.Lite0:FILE", the only ones that take the other arguments (see
    `own_settings`). "@CLASSES" after a name keeps only the logits of some ImageNet classes (see
    `class_groups`).

    Raises HoldfastError if there is no such network, or its weights do not fit.
    """
    whole, at, classes = name.partition("@")
    more = {"init_args": init_args, "weights": weights, "keys": keys, "mean": mean, "std": std}
    more = {key: value for key, value in more.items() if value is not None}
    if (own := own_settings(whole)) is not None:
        return load_own(name, own | more, class_groups(classes) if at else None)
    if more:
        raise HoldfastError(
            f"{', '.join(more)} cannot be passed, because {name!r} is not a class of your own. "
            "Remove them."
        )
    library, slash, rest = whole.partition("/")
    model, _, file = rest.partition(":")
    if slash and library in LIBRARIES:
        if file and not Path(file).is_file():
            raise HoldfastError(
                f"{file}, which should contain weights of {library}/{model}, does not exist."
            )
        net, means, stds, facts = LIBRARIES[library].load(model, Path(file) if file else None)
    else:
        facts = dict(provenance(whole))
        sizes = {
            key: int(facts[key]) for key in ("classes", "width", "size", "depth") if key in facts
        }
        norm = {"norm": facts["norm"]} if "norm" in facts else {}
        net = NETS[facts["net"].partition("(")[0]](**sizes, **norm)
        net.load_state_dict(load_file(weights_file(whole)))
        means, stds = json.loads(facts["mean"]), json.loads(facts["std"])
    backbone = channels_last(normalised(net, means, stds)).eval()
    if at:
        backbone.add_module("classes", Classes(class_groups(classes)))
    of_net = {"name": name, "hash": weights_hash(net), "mean": list(means), "std": list(stds)}
    backbone.provenance = {**facts, **of_net}  # type: ignore[assignment]
    return backbone


def load_own(
    name: str, settings: dict[str, Any], groups: Sequence[Sequence[int]] | None = None
) -> nn.Module:
    """A user's network in eval mode, preceded by a normalisation if its settings have one.

    Raises HoldfastError if its file or settings cannot be used.
    """
    mean, std = settings.pop("mean", None), settings.pop("std", None)
    if (mean is None) is not (std is None):
        raise HoldfastError(
            f"Backbone {name!r}: pass both mean and std, or neither if the network normalises its "
            "inputs."
        )
    net = own_network(**settings)
    facts = {"name": name, "hash": weights_hash(net), **settings}
    if mean is not None and std is not None:
        net = normalised(net, mean, std)
        facts |= {"mean": list(mean), "std": list(std)}
    backbone = net if groups is None else nn.Sequential(net, Classes(groups))
    backbone.provenance = facts  # type: ignore[assignment]
    return channels_last(backbone).eval()


def channels_last(net: nn.Module) -> nn.Module:
    """The network in this memory format if it has batch normalisation; a ResNet's step then takes 0.8 of
    the time."""
    if any(isinstance(layer, nn.BatchNorm2d) for layer in net.modules()):
        net.to(memory_format=torch.channels_last)
    return net


def find_network(name: str, size: int = 224) -> nn.Module:
    """The network that `load_backbone` finds by that name, or an untrained architecture for images
    of `size` pixels.

    Untrained and without normalisation are "CIFARResNet18", "torchvision/resnet18" (or
    "torchvision.resnet18") and "timm/vit_tiny_patch16_224"; an architecture without its library is that
    of the first library that has it.

    Raises HoldfastError if there is no network of that name.
    """
    whole = name.partition("@")[0]
    library, slash, architecture = whole.partition("/")
    trained = library in LIBRARIES and ("." in architecture or ":" in architecture)
    if trained or whole in EMBEDDED or whole.endswith(".safetensors"):
        return load_backbone(name)
    if (
        library not in LIBRARIES
        and name.rpartition(".")[0] not in LIBRARIES
        and own_settings(whole)
    ):
        return load_backbone(name)
    if name in NETS:
        return channels_last(NETS[name](10))
    if not slash:
        library, _, architecture = name.rpartition(".")
    if library in LIBRARIES:
        check_architecture(architecture, library, LIBRARIES[library].architectures())
        return channels_last(LIBRARIES[library].untrained(architecture, size))
    for source in LIBRARIES.values():
        if name in source.architectures():
            return channels_last(source.untrained(name, size))
    raise HoldfastError(
        f"Unknown network {name!r}. Choose {', '.join((*EMBEDDED, *NETS))}, a .safetensors file of "
        f"`holdfast train`, {', '.join(f'{own}/ARCHITECTURE' for own in LIBRARIES)}, or a "
        "class of your own, as in mynets.Lite0."
    )


def provenance(name: str) -> dict[str, str]:
    """The training record of the weights, from the header of their file.

    Raises HoldfastError if the file is damaged.
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
    return facts


def weights_file(name: str) -> Path:
    """The path of an embedded network's weights; a path to a .safetensors file is returned unchanged.

    Raises HoldfastError if there is no such name or file.
    """
    if name in EMBEDDED:
        return ASSETS / f"{name}.safetensors"
    if name.endswith(".safetensors"):
        return Path(name)
    raise HoldfastError(
        f"Unknown backbone {name!r}. Choose {', '.join(EMBEDDED)}, a .safetensors file of "
        "`holdfast train`, "
        f"{', '.join(f'{library}/ARCHITECTURE.WEIGHTS' for library in LIBRARIES)}, a class of "
        "your own, as in mynets.Lite0, or one of these followed by :FILE."
    )


def check_name(name: str) -> None:
    """Refuse names that cannot be a backbone's, independent of existing files."""
    whole = name.partition("@")[0]
    if own_settings(whole) is None and whole.partition("/")[0] not in LIBRARIES:
        weights_file(whole)


def weights_hash(module: nn.Module) -> str:
    """12 hex digits of a SHA-256 over the state dict: names, types, shapes and values."""
    digest = hashlib.sha256()
    for name, tensor in module.state_dict().items():
        tensor = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:12]
