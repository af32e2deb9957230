"""Users' networks: by class path, with arguments, and with weights from a file."""

import re
from collections.abc import Mapping
from importlib import import_module
from inspect import isclass, isfunction
from pathlib import Path
from typing import Any, TypeVar

import yaml
from torch import Tensor, nn
from torch.jit import ScriptModule

from ... import HoldfastError
from ...files import reason
from .pretrained import read_checkpoint

FILES = (".safetensors", ".pt", ".pth", ".ckpt", ".bin")  # of weights, there or not
SETTINGS = {"class_path", "init_args", "weights", "keys", "mean", "std"}
CLASS_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
Network = TypeVar("Network", bound=nn.Module)


def own_settings(name: str) -> dict[str, Any] | None:
    """The user's network that a name refers to; None for any other kind of name.

    "mynets.Lite0", "mynets.Lite0:FILE" with a state dict, or YAML, `{class_path: mynets.make,
    init_args: {width: 2}, weights: FILE, keys: {"backbone.": ""}, mean: [...], std: [...]}`.

    Raises HoldfastError if the name is incomplete.
    """
    if name.lstrip().startswith("{"):
        try:
            settings = yaml.safe_load(name)
        except (ValueError, yaml.YAMLError) as error:
            raise HoldfastError(
                f"Backbone {name!r} is not valid YAML ({reason(error)})."
            ) from error
        if not isinstance(settings, dict):
            raise HoldfastError(
                f"Backbone {name!r} is not a mapping. Pass a mapping with class_path."
            )
        if unknown := set(map(str, settings)) - SETTINGS:
            raise HoldfastError(
                f"Backbone {name!r} has unknown keys {sorted(unknown)}. Choose from "
                f"{', '.join(sorted(SETTINGS))}."
            )
        if not CLASS_PATH.fullmatch(str(settings.get("class_path", ""))):
            raise HoldfastError(
                f"Backbone {name!r} has no class_path. Pass one, such as mynets.Lite0."
            )
        return settings
    path, _, file = name.partition(":")
    if not CLASS_PATH.fullmatch(path) or Path(path).is_file() or Path(path).suffix in FILES:
        return None
    return {"class_path": path} | ({"weights": file} if file else {})


def own_network(
    class_path: str,
    init_args: Mapping[str, Any] | None = None,
    weights: str | None = None,
    keys: Mapping[str, str] | None = None,
) -> nn.Module:
    """The network that a class or a factory makes, with the state dict in a file if one is given.

    `keys` maps the beginnings of the file's names to the network's: {"backbone.": ""} removes a prefix.

    Raises HoldfastError if it cannot be made, or is no network.
    """
    make = imported(class_path)
    if not (isfunction(make) or (isclass(make) and issubclass(make, nn.Module))):
        raise HoldfastError(
            f"{class_path} is not a torch.nn.Module class. Pass one, or a function that returns one."
        )
    try:
        net = make(**(init_args or {}))
    except Exception as error:  # whatever the user's code may raise
        raise HoldfastError(
            f"{class_path} raises {type(error).__name__} when called with {dict(init_args or {})} "
            f"({reason(error)}). Fix it, or pass its arguments, as in {{class_path: {class_path}, "
            "init_args: {...}}."
        ) from error
    if not isinstance(net, nn.Module):
        raise HoldfastError(
            f"{class_path} returns a {type(net).__name__}. Pass a class or function that returns a "
            "torch.nn.Module."
        )
    if weights is not None:
        if not Path(weights).is_file():
            raise HoldfastError(
                f"{weights}, which should contain weights of {class_path}, does not exist."
            )
        state = {renamed(key, keys or {}): v for key, v in read_checkpoint(Path(weights)).items()}
        fill(net, state, f"{weights} does not fit {class_path}")
    return with_logits(net)


def imported(class_path: str) -> Any:
    """The object that a class path names.

    Raises:
        HoldfastError: if it cannot be imported.
    """
    module, _, name = class_path.rpartition(".")
    try:
        return getattr(import_module(module), name)
    except Exception as error:  # whatever the user's module may raise
        raise HoldfastError(
            f"{class_path} cannot be imported ({type(error).__name__}: {reason(error)}). It must "
            f"be {name} in {module.replace('.', '/')}.py, in the current folder or installed."
        ) from error


def renamed(key: str, keys: Mapping[str, str]) -> str:
    """The key with the first beginning that `keys` has replaced."""
    for old, new in keys.items():
        if key.startswith(old):
            return new + key[len(old) :]
    return key


def fill(net: nn.Module, state: Mapping[str, Tensor], problem: str) -> None:
    """Load a state dict, or say which names do not match and how to map them.

    Raises HoldfastError if they do not match.
    """
    try:
        net.load_state_dict(state)
    except RuntimeError as error:
        own, hint = net.state_dict(), ""
        theirs, ours = sorted(set(state) - set(own)), sorted(set(own) - set(state))
        if theirs and ours:
            hint = f", such as {theirs[0]} in the file and {ours[0]} in the network: map its names"
            hint += " by keys: {OLD: NEW}"
        raise HoldfastError(f"{problem} ({' '.join(str(error).split())[:150]}){hint}.") from error


def with_logits(net: Network) -> Network:
    """The network with logits as output, even if it returns a mapping or an object that contains them.

    Raises HoldfastError for TorchScript, whose layers cannot be changed.
    """
    if isinstance(net, ScriptModule):
        raise HoldfastError(
            "A TorchScript network cannot be adapted, because its layers cannot be changed. Pass "
            "the original class with its state dict, as in mynets.Lite0:FILE."
        )
    net.register_forward_hook(only_logits)
    return net


def only_logits(net: nn.Module, inputs: Any, output: Any) -> Tensor:
    """The logits [B,C] in a network's output: the output itself, or its "logits" (as in transformers).

    Raises HoldfastError if there is none.
    """
    if isinstance(output, Tensor):
        return output
    logits = (
        output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    )
    if not isinstance(logits, Tensor):
        raise HoldfastError(
            f"The backbone returns a {type(output).__name__} without logits. Return the logits "
            "[B,C], or an object or mapping that has them as `logits`."
        )
    return logits
