"""Networks by name: source models with their normalisation and provenance, or untrained ones."""

import hashlib
import json
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.jit import ScriptModule

from ... import HoldfastError
from ...preprocessing import Preprocessing, preprocessing_of
from ..functional import MASKED
from .clip import ZeroShot
from .layers import Classes, class_numbers, normalised
from .libraries import LIBRARIES, Pretrained, filled, lite0, read_checkpoint, untrained
from .nets import NETS

ASSETS = Path(__file__).parent / "assets"
_EMBEDDED = ("glyphs", "digits", "cifar-resnet20", "tiny-imagenet")
# Endings of files with weights, which a class path does not have.
_FILES = (".safetensors", ".pt", ".pth", ".ckpt", ".bin")
_CLASS_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
Network = TypeVar("Network", bound=nn.Module)


def load_backbone(name: str) -> nn.Module:
    """The named source model, normalised and in eval mode.

    Its `provenance` says where it comes from, its `preprocessing` how images were resized and cropped to
    evaluate its weights (None if unknown), which sources take by default.

    Names: "glyphs", "digits", "cifar-resnet20" or "tiny-imagenet", trained by `holdfast train`; a
    .safetensors file of that command; "lite0", an EfficientNet for ImageNet (see `lite0`);
    LIBRARY/ARCHITECTURE.WEIGHTS, as "torchvision/resnet50.IMAGENET1K_V1" and
    "timm/vit_base_patch16_224.augreg_in21k_ft_in1k"; "open_clip/ViT-B-32.openai", a zero-shot classifier
    of ImageNet's classes (see `zero_shot`); the same with ":FILE" for weights from a local file;
    "robustbench/Standard" or "robustbench/cifar100/NAME", of its corruption leaderboards; and a user's
    class or function without arguments, "mynets.Lite0", also with ":FILE". "@imagenet-a", "@imagenet-r"
    or "@FOLDER" after a name keeps only the logits of these ImageNet classes, "@50" those of the first 50
    (see `class_numbers`).

    Raises HoldfastError if there is no such network, or its weights do not fit.
    """
    whole, at, classes = name.partition("@")
    numbers = class_numbers(classes) if at else None
    model, _, rest = whole.partition(":")
    library, slash, architecture = model.partition("/")
    file = Path(rest) if rest else None
    if (_own_path(whole) or library in LIBRARIES) and file is not None and not file.is_file():
        raise HoldfastError(f"{file}, which should contain weights of {model}, does not exist.")
    if _own_path(whole):
        net, preprocessing, facts = _own_network(model, file)
    elif slash and library in LIBRARIES:
        net, preprocessing, facts = LIBRARIES[library](architecture, file)
        facts |= {"library": library, "file": str(file or "")}
    elif whole == "lite0":
        net, preprocessing, facts = lite0()
    else:
        net, preprocessing, facts = _trained(whole)
    facts = {**facts, "name": name, "hash": weights_hash(net)}
    backbone, normalises = net, bool(_own_path(whole)) or isinstance(net, ZeroShot)
    if preprocessing is not None:
        facts |= {"preprocessing": str(preprocessing), "activation": preprocessing.activation}
        facts |= {"mean": list(preprocessing.mean), "std": list(preprocessing.std)}
        if not normalises:
            backbone = normalised(net, preprocessing.mean, preprocessing.std)
    if numbers is not None and isinstance(net, ZeroShot):
        net.only(numbers)
    elif numbers is not None:
        backbone = nn.Sequential(backbone) if normalises else backbone
        backbone.add_module("classes", Classes(numbers))
    _channels_last(backbone).eval()
    backbone.provenance = facts  # type: ignore[assignment]
    if preprocessing is not None:
        backbone.preprocessing = preprocessing  # type: ignore[assignment]
    return backbone


def _own_network(class_path: str, file: Path | None) -> Pretrained:
    """The network that a user's class or function makes, with the state dict in a file if one is given.

    Raises HoldfastError if the call fails or returns no network, or if the file does not fit it.
    """
    module, _, attribute = class_path.rpartition(".")
    try:
        net = getattr(import_module(module), attribute)()
    except HoldfastError:  # which says what to change
        raise
    except Exception as error:  # whatever the user's code may raise
        frames = [f for f in extract_tb(error.__traceback__) if Path(f.filename).is_file()]
        where = "".join(f"; {f.filename}, line {f.lineno}" for f in frames[1:][-1:])
        raise HoldfastError(
            f"{class_path} raises {type(error).__name__} when imported and called "
            f"({' '.join(str(error).split())}{where}). Fix it, or name a function without arguments that "
            "makes the network."
        ) from error
    if not isinstance(net, nn.Module):
        raise HoldfastError(
            f"{class_path} makes a {type(net).__name__}. Pass a class or function that makes a "
            "torch.nn.Module."
        )
    if file is not None:
        filled(net, read_checkpoint(file), f"The weights in {file} do not fit {class_path}")
    facts = {"class_path": class_path, **({"weights": str(file)} if file is not None else {})}
    return Pretrained(with_logits(net), preprocessing_of(net), facts)


def _own_path(name: str) -> str:
    """The class path in "mynets.Lite0" or "mynets.Lite0:FILE"; "" for any other kind of name."""
    path = name.partition(":")[0]
    other = Path(path).is_file() or Path(path).suffix in _FILES
    return path if _CLASS_PATH.fullmatch(path) and not other else ""


def with_logits(net: Network) -> Network:
    """The network with logits as output, even if it returns a mapping or an object that contains them.

    Raises HoldfastError for TorchScript, whose layers cannot be changed.
    """
    if isinstance(net, ScriptModule):
        raise HoldfastError(
            "A TorchScript network cannot be adapted, because its layers cannot be changed. Pass "
            "the original class with its state dict, as in mynets.Lite0:FILE."
        )
    if _only_logits not in net._forward_hooks.values():
        net.register_forward_pre_hook(_copied_images)
        net.register_forward_hook(_only_logits)
    return net


def _copied_images(net: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """A copy of the images, into which a network may write, as one that normalises in place does."""
    return tuple(images.clone() for images in inputs)


def _only_logits(net: nn.Module, inputs: tuple[Tensor, ...], output: Any) -> Tensor:
    """The logits [B,C] in a network's output: the output itself, or its "logits" (as in transformers).

    Those of masked classes, -inf, become so low that the classes have no probability, and all numbers
    and gradients are finite.

    Raises HoldfastError if there is none.
    """
    logits = output
    if not isinstance(output, Tensor):
        is_mapping = isinstance(output, Mapping)
        logits = output.get("logits") if is_mapping else getattr(output, "logits", None)
    if not isinstance(logits, Tensor):
        raise HoldfastError(
            f"The backbone returns a {type(output).__name__} without logits. Return the logits "
            "[B,C], or an object or mapping that has them as `logits`."
        )
    return logits.clamp_min(MASKED)


def _channels_last(net: nn.Module) -> nn.Module:
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
        return _channels_last(NETS[name](10))
    library, _, architecture = name.rpartition("/")
    bare = library in ("", "torchvision", "timm") and not {".", ":"} & {*architecture}
    if bare and name not in (*_EMBEDDED, "lite0") and not _own_path(name):
        return _channels_last(untrained(architecture, library, size))
    return load_backbone(name)


def check_name(name: str) -> None:
    """Refuse names that cannot be a backbone's, independent of existing files; raises HoldfastError."""
    whole = name.partition("@")[0]
    if not _own_path(whole) and whole.partition("/")[0] not in {*LIBRARIES, "lite0"}:
        _weights_file(whole)


def _trained(name: str) -> Pretrained:
    """A network of `holdfast train`, by the name of an embedded one or its file."""
    facts = training_record(name)
    sizes = {key: int(facts[key]) for key in ("classes", "width", "size", "depth") if key in facts}
    norm = {"norm": facts["norm"]} if "norm" in facts else {}
    net = NETS[facts["net"].partition("(")[0]](**sizes, **norm)
    net.load_state_dict(load_file(_weights_file(name)))
    size = int(facts.get("size", 64 if facts["net"].startswith("TinyResNet") else 32))
    mean, std = (tuple(json.loads(facts[name])) for name in ("mean", "std"))
    return Pretrained(net, Preprocessing(size, size, mean=mean, std=std), facts)


def training_record(name: str) -> dict[str, str]:
    """The training record of such a network's weights, from the header of their file.

    Raises HoldfastError if the file is missing or damaged.
    """
    file = _weights_file(name)
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


def _weights_file(name: str) -> Path:
    """The path of an embedded network's weights; a path to a .safetensors file is returned unchanged.

    Raises HoldfastError for other names.
    """
    if name in _EMBEDDED:
        return ASSETS / f"{name}.safetensors"
    if name.endswith(".safetensors"):
        return Path(name)
    raise HoldfastError(
        f"Unknown backbone {name!r}. Choose {', '.join(_EMBEDDED)}, lite0, a .safetensors file of "
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
