"""Source models from torchvision and timm, with the weights that the name says or from a local file."""

import difflib
import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ... import HoldfastError

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LIBRARIES = ("torchvision", "timm")


class Pretrained(NamedTuple):
    """A network without its normalisation, and where it comes from."""

    net: nn.Module
    mean: Sequence[float]
    std: Sequence[float]
    facts: dict[str, Any]


def pretrained(library: str, model: str, file: Path | None) -> Pretrained:
    """ARCHITECTURE.WEIGHTS of a library, or the weights in `file` (then .WEIGHTS only names mean/std)."""
    if file is not None and not file.is_file():
        raise HoldfastError(f"there is no file {file} with weights of {library}/{model}.")
    return (from_torchvision if library == "torchvision" else from_timm)(model, file)


def from_torchvision(model: str, file: Path | None) -> Pretrained:
    """torchvision's weights enums; mean and std as its own preprocessing of these weights has them."""
    from torchvision import models

    architecture, _, tag = model.partition(".")
    known(architecture, models.list_models(module=models), "torchvision")
    enum = models.get_model_weights(architecture)
    choices = [f"torchvision/{architecture}.{weights.name}" for weights in enum]
    if tag not in enum.__members__ and (tag or file is None):
        raise HoldfastError(
            f"'torchvision/{model}' does not say which weights: choose {', '.join(choices)}."
        )
    weights: Any = enum[tag] if tag else None
    facts: dict[str, Any] = {
        "library": "torchvision",
        "weights": str(weights),
        "file": str(file or ""),
    }
    if file is not None:
        state = checkpoint(file)
    else:
        facts["url"] = weights.url
        place = Path(torch.hub.get_dir(), "checkpoints", weights.url.rpartition("/")[2])
        try:
            state = weights.get_state_dict(progress=True, check_hash=True)
        except (OSError, RuntimeError) as error:
            raise not_downloaded(f"torchvision/{model}", weights.url, place, error) from error
    build = partial(models.get_model, architecture, **published(architecture, weights))
    net = fitted(build, state, file or f"torchvision/{model}")
    transforms = weights.transforms() if weights is not None else None
    mean = getattr(transforms, "mean", IMAGENET_MEAN)
    return Pretrained(net, mean, getattr(transforms, "std", IMAGENET_STD), facts)


def published(architecture: str, weights: Any) -> dict[str, Any]:
    """What torchvision's builders set where they load their own weights, and leave out otherwise."""
    if architecture in ("googlenet", "inception_v3"):  # trained on another scale, made inside
        return {"transform_input": True, "init_weights": False}
    if architecture.startswith("vit_") and weights is not None:
        return {"image_size": weights.meta["min_size"][0]}
    return {}


def from_timm(model: str, file: Path | None) -> Pretrained:
    """timm's pretrained models; mean and std from the model's own data configuration."""
    import timm
    from timm.data import resolve_model_data_config

    architecture, _, tag = model.partition(".")
    known(architecture, timm.list_models(), "timm")
    tags = [name.partition(".")[2] for name in timm.list_pretrained(architecture)]
    if tag not in tags and (tag or file is None):
        choices = ", ".join(f"timm/{architecture}.{name}" for name in tags) or "a local file"
        raise HoldfastError(f"'timm/{model}' does not say which weights: choose {choices}.")
    hosted: Any = timm.get_pretrained_cfg(model)
    if hosted is not None and not hosted.num_classes:
        raise HoldfastError(f"timm/{model} has no classifier: choose weights that have one.")
    facts: dict[str, Any] = {"library": "timm", "weights": tag, "file": str(file or "")}
    if file is not None:
        net = fitted(partial(timm.create_model, model), checkpoint(file), file)
    else:
        where = f"https://huggingface.co/{hosted.hf_hub_id}" if hosted.hf_hub_id else hosted.url
        facts["url"] = where
        try:
            net = timm.create_model(model, pretrained=True)
        except Exception as error:  # each of the libraries below timm has its own kind
            place = f"FILE and say timm/{model}:FILE"
            raise not_downloaded(f"timm/{model}", where, place, error) from error
    config = resolve_model_data_config(net)
    facts["input_size"] = list(config["input_size"])
    return Pretrained(net, config["mean"], config["std"], facts)


def not_downloaded(name: str, url: str, place: Any, error: Exception) -> HoldfastError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return HoldfastError(
        f"the weights of {name} cannot be downloaded ({reason}): "
        f"download {url} elsewhere and put it at {place}, or give {name}:FILE as the backbone."
    )


def known(architecture: str, names: Iterable[str], library: str) -> None:
    """Refuse an architecture that the library does not have, naming similar ones."""
    names = list(names)
    if architecture not in names:
        near = difflib.get_close_matches(architecture, names) or ["see its list of models"]
        raise HoldfastError(f"{library} has no model '{architecture}': {', '.join(near)}.")


def checkpoint(file: Path) -> dict[str, Tensor]:
    """The state dict in a .safetensors or PyTorch file; nothing in the file is executed."""
    try:
        if file.suffix == ".safetensors":
            return load_file(file)
        state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # pickle, zip and safetensors errors of many kinds
        reason = (str(error).splitlines() or [""])[0]
        raise HoldfastError(f"{file} cannot be read as a checkpoint ({reason}).") from error
    for key in ("state_dict", "model"):
        state = state.get(key, state) if isinstance(state, dict) else state
    if not isinstance(state, dict) or not all(isinstance(v, Tensor) for v in state.values()):
        raise HoldfastError(f"{file} holds no state dict: save `model.state_dict()`.")
    return {name.removeprefix("module."): tensor for name, tensor in state.items()}


def fitted(build: Callable[..., nn.Module], state: dict[str, Tensor], file: Any) -> nn.Module:
    """The network that `build` makes, with as many classes as the state dict has, and its weights."""
    net = build()
    last = [name for name in net.state_dict() if name.endswith("bias")][-1]
    if last in state and len(state[last]) != len(net.state_dict()[last]):
        net = build(num_classes=len(state[last]))
    try:
        net.load_state_dict(state)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise HoldfastError(f"{file} does not fit this architecture: {reason}") from error
    return net


# ---- fewer classes than the network has ----------------------------------------------------------


class Classes(nn.Module):
    """Logits [B,1000] -> [B,G]: the log-sum-exp of each group of ImageNet classes."""

    member: Tensor

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        super().__init__()
        width = max(len(group) for group in groups)
        member = torch.full((len(groups), width), -1)
        for row, group in zip(member, groups, strict=True):
            row[: len(group)] = torch.tensor(group)
        self.register_buffer("member", member, persistent=False)

    def forward(self, logits: Tensor) -> Tensor:
        chosen = logits[:, self.member.clamp(min=0)]
        return chosen.masked_fill(self.member < 0, -torch.inf).logsumexp(2)


def class_groups(where: str) -> list[list[int]]:
    """ImageNet class numbers of "imagenet-a" or "imagenet-r", or of the sorted classes in a file or folder.

    A folder has class folders named by synsets; a .txt file one synset a line; a .json file maps each
    class to its list of synsets.
    """
    info = files("timm.data") / "_info"
    numbers = {s: i for i, s in enumerate((info / "imagenet_synsets.txt").read_text().split())}
    path = Path(where)
    if where in ("imagenet-a", "imagenet-r"):
        named = (info / f"{where.replace('-', '_')}_synsets.txt").read_text().split()
        classes = {synset: [synset] for synset in named}
    elif path.is_dir():
        classes = {folder.name: [folder.name] for folder in path.iterdir() if folder.is_dir()}
    elif path.is_file() and path.suffix == ".json":
        classes = json.loads(path.read_text())
    elif path.is_file():
        classes = {synset: [synset] for synset in path.read_text().split()}
    else:
        raise HoldfastError(
            f"unknown classes '{where}': imagenet-a, imagenet-r, a file or a folder."
        )
    unknown = {s for synsets in classes.values() for s in synsets} - numbers.keys()
    if unknown or not all(classes.values()):
        raise HoldfastError(
            f"{where} has classes that are not ImageNet synsets: {sorted(unknown)[:3]}."
        )
    return [[numbers[synset] for synset in classes[name]] for name in sorted(classes)]
