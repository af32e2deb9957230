"""Users' networks: by class path, with arguments, and with weights from a file."""

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.jit import ScriptModule

from ... import HoldfastError
from ...files import reason
from .libraries import read_checkpoint

# Endings of files with weights, which a class path does not have.
FILES = (".safetensors", ".pt", ".pth", ".ckpt", ".bin")
CLASS_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
Network = TypeVar("Network", bound=nn.Module)


def own_path(name: str) -> str:
    """The class path in "mynets.Lite0" or "mynets.Lite0:FILE"; "" for any other kind of name."""
    path = name.partition(":")[0]
    other = Path(path).is_file() or Path(path).suffix in FILES
    return path if CLASS_PATH.fullmatch(path) and not other else ""


def own_network(
    class_path: str,
    init_args: Mapping[str, Any] | None = None,
    weights: str | None = None,
    keys: Mapping[str, str] | None = None,
) -> nn.Module:
    """The network that a class or a function makes, with the state dict in a file if one is given.

    `keys` maps the beginnings of the file's names to the network's: {"backbone.": ""} removes a prefix.

    Raises HoldfastError if it cannot be made, or is no network.
    """
    module, _, name = class_path.rpartition(".")
    try:
        net = getattr(import_module(module), name)(**(init_args or {}))
    except Exception as error:  # whatever the user's code may raise
        raise HoldfastError(
            f"{class_path} raises {type(error).__name__} when imported and called with "
            f"{dict(init_args or {})} ({reason(error)}). Fix it, or pass its arguments as init_args of "
            "load_backbone."
        ) from error
    if not isinstance(net, nn.Module):
        raise HoldfastError(
            f"{class_path} makes a {type(net).__name__}. Pass a class or function that makes a "
            "torch.nn.Module."
        )
    if weights is not None:
        fill(net, weights, keys or {}, class_path)
    return with_logits(net)


def fill(net: nn.Module, weights: str, keys: Mapping[str, str], class_path: str) -> None:
    """Load the state dict in a file; raises HoldfastError with names that do not match."""
    if not Path(weights).is_file():
        raise HoldfastError(
            f"{weights}, which should contain weights of {class_path}, does not exist."
        )
    state = {}
    for name, tensor in read_checkpoint(Path(weights)).items():
        old = next((old for old in keys if name.startswith(old)), "")
        state[keys.get(old, "") + name[len(old) :]] = tensor
    try:
        net.load_state_dict(state)
    except RuntimeError as error:
        raise HoldfastError(
            f"{weights} does not fit {class_path} ({' '.join(str(error).split())[:300]}). If only names "
            'differ, pass keys={"OLD.": "NEW."} to load_backbone.'
        ) from error


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
    is_mapping = isinstance(output, Mapping)
    logits = output.get("logits") if is_mapping else getattr(output, "logits", None)
    if not isinstance(logits, Tensor):
        raise HoldfastError(
            f"The backbone returns a {type(output).__name__} without logits. Return the logits "
            "[B,C], or an object or mapping that has them as `logits`."
        )
    return logits
