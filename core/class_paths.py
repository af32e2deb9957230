"""Which classes a configuration may name: only those of modules that the user installed or named.

A module may be imported if it is installed, if it is on PYTHONPATH, or if the user named it, by
`--allow` or by typing one of its class paths. A configuration file cannot name modules of the
current folder.
"""

import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from . import HoldfastError
from .files import reason

ALLOWED = (
    "HOLDFAST_ALLOW"  # modules that the user named; commands set it, their processes inherit it
)
CLASS_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
OPTION = re.compile(r"--(model|data|trainer)\b|--[\w.]*(backbone|base)")  # take class paths
NESTED = re.compile(r"class_path[\"']?\s*:\s*[\"']?([\w.]+)|\bname[\"']?\s*:\s*[\"']?([\w.]+)")


class NotInstalled(HoldfastError):
    """There is no module of that name, so the text may not be a class path."""


@contextmanager
def allowing(words: list[str]) -> Iterator[list[str]]:
    """The arguments of a command without `--allow`; the modules that it names may be imported until
    the command ends.

    Modules of the current folder are searched last, and only if one was named.

    Raises HoldfastError if --allow names no modules.
    """
    rest, names, before = [], set(allowed()), os.environ.get(ALLOWED)
    following = iter(words)
    for word in following:
        option, equals, value = word.partition("=")
        if option != "--allow":
            rest.append(word)
            continue
        value = value if equals else next(following, "")
        if not all(re.fullmatch(r"[^\W\d]\w*", name) for name in value.split(",")):
            raise HoldfastError(
                f"--allow {value}: pass module names separated by commas, such as --allow own."
            )
        names |= set(value.split(","))
    names |= {path.partition(".")[0] for path in typed(rest)}
    os.environ[ALLOWED] = ",".join(sorted(names))
    search_current_folder()
    try:
        yield rest
    finally:
        if before is None:
            del os.environ[ALLOWED]
        else:
            os.environ[ALLOWED] = before


def search_current_folder() -> None:
    """Finds modules in the current folder that the user named, after all other finders."""
    if allowed() and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def allowed() -> list[str]:
    """Modules that the user named."""
    return [name for name in os.environ.get(ALLOWED, "").split(",") if name]


def typed(words: Iterable[str]) -> Iterator[str]:
    """Class paths among the arguments of a command, excluding those in the files it names."""
    option = ""
    for word in words:
        value = word
        if word.startswith("--"):
            option, _, value = word.partition("=")
        if not OPTION.match(option) or not value or Path(value).exists():
            continue
        path = value.partition(":")[0].partition("@")[0]
        if CLASS_PATH.fullmatch(path):
            yield path
        elif value.lstrip().startswith(("{", "[")):
            yield from filter(CLASS_PATH.fullmatch, map("".join, NESTED.findall(value)))


def check_module(class_path: str) -> None:
    """Refuse a class path whose module the user neither installed nor named; imports nothing.

    Raises:
        HoldfastError: that says how to name it.
    """
    top = class_path.partition(".")[0]
    if top in allowed():
        return
    if top in sys.stdlib_module_names:
        raise HoldfastError(
            f"{class_path} belongs to Python itself and may not be named in a configuration."
        )
    if any(re.fullmatch("__.*__", part) for part in class_path.split(".")) and top != "__main__":
        raise HoldfastError(f"{class_path} is not a class path. Leave out names like __main__.")
    if top in sys.modules or ALLOWED not in os.environ:  # nothing runs, or Python's user decides
        return
    if found(top, [place for place in sys.path if not is_current(place)]) is None:
        here = any(Path(name).exists() for name in (f"{top}.py", top))
        if here:
            raise HoldfastError(
                f"{class_path} is not imported, because the module {top} is in the current folder "
                f"but was not allowed. Pass --allow {top}."
            )
        raise NotInstalled(
            f"{class_path} is not imported, as the module {top} is not installed: install it, or put its "
            "folder on PYTHONPATH."
        )


def is_current(place: str) -> bool:
    """Whether an entry of sys.path is the current folder and is not on PYTHONPATH."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return place in ("", os.getcwd()) and not {".", os.getcwd()} & set(given)


def found(top: str, places: list[str]) -> ModuleSpec | None:
    """The origin of a top-level module on these paths; None if it is on none of them."""
    specs = (finder.find_spec(top, places) for finder in sys.meta_path)
    return next((spec for spec in specs if spec is not None), None)


def imported(class_path: str) -> Any:
    """The object that a class path names, if its module may be imported.

    Raises:
        HoldfastError: if it may not, or cannot.
    """
    check_module(class_path)
    module, _, name = class_path.rpartition(".")
    try:
        return getattr(import_module(module), name)
    except Exception as error:  # whatever the user's module may raise
        raise HoldfastError(
            f"{class_path} cannot be imported ({type(error).__name__}: {reason(error)}). It must "
            f"be {name} in {module.replace('.', '/')}.py, in the current folder or installed."
        ) from error


def is_users(thing: Any) -> bool:
    """Whether a function belongs to the user: its module was named, or is not installed."""
    module = str(getattr(thing, "__module__", None))
    top = module.partition(".")[0]
    if top in allowed():
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if top in sys.stdlib_module_names or not file:
        return top == "__main__"
    libraries = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")}
    return top != "holdfast" and not any(Path(file).is_relative_to(path) for path in libraries)
