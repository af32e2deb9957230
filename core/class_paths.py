"""Class paths: dotted names of classes and functions that a user typed."""

import re
from importlib import import_module
from typing import Any

from . import HoldfastError
from .files import reason

CLASS_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


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
