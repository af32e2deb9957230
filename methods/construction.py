"""When a method is built: after the last of its constructors."""

import inspect
from abc import ABCMeta
from typing import Any, TypeVar

New = TypeVar("New")


class BuiltLast(ABCMeta):
    """Calls `build` on a new object once its outermost `__init__` has returned.

    So a subclass calls `super().__init__` first, as everywhere in PyTorch, and then stores the arguments
    that decide how the network is prepared.
    """

    def __call__(cls: type[New], *args: Any, **kwargs: Any) -> New:  # type: ignore[misc]
        # Not super().__call__: Lightning would look for hyperparameters in a frame with a `__class__`.
        new = ABCMeta.__call__(cls, *args, **kwargs)
        new.build()
        return new

    @property
    def __signature__(cls) -> inspect.Signature:
        """The constructor's arguments, which `inspect` would otherwise read from `__call__`."""
        signature = inspect.signature(cls.__init__)  # type: ignore[misc]
        return signature.replace(parameters=[*signature.parameters.values()][1:])
