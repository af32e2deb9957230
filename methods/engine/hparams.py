"""A method's constructor arguments, for loggers and for `load_from_checkpoint`."""

import inspect
from types import FrameType
from typing import Any

from lightning.pytorch import LightningModule
from torch.optim import Optimizer

from ... import HoldfastError
from ...callbacks.provenance import optimizer_settings


class WithArguments(LightningModule):
    """Stores the constructor arguments that can be serialised as `hparams`.

    Checkpoints contain them and the names of the others, which must be passed to `load_from_checkpoint`.
    """

    unnamed: list[str]

    def remember_arguments(self, frame: FrameType | None, optimizer: Optimizer | None) -> None:
        """Read them from the constructor's frame; `optimizer` is what the argument of this name made."""
        given = given_arguments(self, frame)
        given.pop("optimizer", None)
        if optimizer is not None:
            given["optimizer"] = settings_of(optimizer)
        self.unnamed = [name for name, value in given.items() if not plain(value)]
        self.save_hyperparameters({name: v for name, v in given.items() if plain(v)})

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["unnamed"] = self.unnamed

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if missing := sorted(set(checkpoint.get("unnamed", ())) - set(self.unnamed)):
            raise HoldfastError(
                f"{type(self).__name__} has arguments that its checkpoint does not contain. Pass "
                f"{', '.join(f'{name}=...' for name in missing)} to load_from_checkpoint."
            )


def given_arguments(thing: object, frame: FrameType | None) -> dict[str, Any]:
    """The arguments of the constructors of `thing` that are running, from `frame` outwards."""
    found: dict[str, Any] = {}
    while frame is not None and frame.f_code.co_name == "__init__":
        names, _, keywords, values = inspect.getargvalues(frame)
        if values[names[0]] is not thing:
            break
        # A class's own arguments take precedence over those that it passes on.
        found |= {name: values[name] for name in names[1:]} | values.get(keywords or "", {})
        frame = frame.f_back
    return found


def plain(value: object) -> bool:
    """Whether a value can be serialised: a number, a string, None, or a list or mapping of these."""
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and plain(list(value.values()))
    if isinstance(value, list | tuple):
        return all(map(plain, value))
    return isinstance(value, bool | int | float | str | None)


def settings_of(optimizer: Optimizer) -> dict[str, Any] | Optimizer:
    """{"class": "SGD", "lr": 0.001, ...}, from which `made` makes such an optimizer; or itself."""
    kind = type(optimizer)
    if not kind.__module__.startswith("torch.optim."):
        return optimizer
    names = {"class", *inspect.signature(kind).parameters}
    found = optimizer_settings(optimizer) or {}
    return {name: value for name, value in found.items() if name in names and plain(value)}
