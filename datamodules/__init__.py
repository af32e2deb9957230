"""What the model sees: streams of corrupted images as LightningDataModules.

The first use of a name from `exports.py` imports all of them (PEP 562), so that
`holdfast.datamodules.corruptions` starts without Lightning.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .exports import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        if name == "__path__" or find_spec(f"{__name__}.{name}"):
            raise AttributeError(name)  # a submodule, which Python imports next
        exports = import_module(f"{__name__}.exports")
        globals().update({key: kind for key, kind in vars(exports).items() if key[0] != "_"})
        return getattr(exports, name)
