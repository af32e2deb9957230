"""Declared state: a class names its state attributes and gets `state_dict` and `load_state_dict`."""

from copy import deepcopy
from typing import Any, ClassVar


class DeclaredState:
    """The attributes named in `STATE`, by the class and its bases, are its state in checkpoints.

    Attributes that a checkpoint of an earlier version lacks stay as they are.
    """

    STATE: ClassVar[tuple[str, ...]] = ()

    def _names(self) -> list[str]:
        return [name for c in type(self).__mro__ for name in vars(c).get("STATE", ())]

    def state_dict(self) -> dict[str, Any]:
        """Everything that later steps depend on, as tensors and plain values."""
        return {name: getattr(self, name) for name in self._names()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a `state_dict`."""
        for name in self._names():
            if name in state_dict:
                setattr(self, name, deepcopy(state_dict[name]))
