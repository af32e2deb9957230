"""Named settings of methods and streams, for suites and for `holdfast test --preset NAME`."""

import json
from collections.abc import Iterable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from .. import HoldfastError
from ..files import read_yaml

CONFIGS = Path(__file__).parent / "configs"
KEYS = {"methods": "model", "streams": "data"}  # of the configuration of `holdfast test`


@cache
def presets(kind: str) -> dict[str, dict[str, Any]]:
    """All settings of "methods" or "streams" by name; each is a class path with arguments."""
    return read_yaml(CONFIGS / f"{kind}.yaml")


def preset(kind: str, name: str | dict[str, Any]) -> dict[str, Any]:
    """A copy of the settings of this name; settings themselves are returned as they are.

    Raises:
        HoldfastError: if there are none of this name.
    """
    if isinstance(name, dict):
        return name
    if name not in (known := presets(kind)):
        raise HoldfastError(f"'{name}' is not in {kind}.yaml. Choose from {', '.join(known)}.")
    return deepcopy(known[name])


def with_presets(words: Iterable[str]) -> list[str]:
    """The command line of `holdfast test` with each `--preset NAME` replaced by its content.

    Raises:
        HoldfastError: if there is no method or stream of that name.
    """
    words, expanded = iter(words), []
    for word in words:
        option, equals, name = word.partition("=")
        if option != "--preset":
            expanded.append(word)
            continue
        name = name if equals else next(words, "")
        kinds = [kind for kind in KEYS if name in presets(kind)]
        if not kinds:
            known = ", ".join(name for kind in KEYS for name in presets(kind))
            raise HoldfastError(f"There is no preset '{name}'. Choose from {known}.")
        expanded += ["--config", json.dumps({KEYS[kinds[0]]: preset(kinds[0], name)})]
    return expanded
