"""Files that are written completely or not at all, and one-sentence errors for files."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

from filelock import FileLock, Timeout

from . import HoldfastError

PARTIAL = ".partial"  # suffix of a file that is not complete yet


@contextmanager
def whole_file(path: Path, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path to write to; at the end the file there replaces `path`.

    So `path` is always complete, whatever others write; with `durable`, even after a power failure.
    """
    partial = path.with_name(f"{path.name}.{token_hex(4)}{PARTIAL}")
    try:
        yield partial
        if durable:
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a path, which one process at a time can hold; a killed process releases it.

    Raises HoldfastError if another process has it.
    """
    with written(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{path}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise HoldfastError(
                f"Another process is writing {path}. Wait for it, or pass each process its own "
                "--shard and --out."
            ) from None
    try:
        yield
    finally:
        lock.release()


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write the file completely or not at all."""
    with whole_file(path) as partial:
        partial.write_text(json.dumps(content, indent=1) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file, {} if there is none.

    Raises HoldfastError if it is damaged, or cannot be read.
    """
    try:
        content = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise unreadable(path, reason(error)) from None
    if not isinstance(content, dict):
        raise unreadable(path, "it contains no mapping")
    return content


def read_yaml(path: Path) -> Any:
    """The content of a YAML file.

    Raises HoldfastError if it is damaged, has a key twice, or cannot be read.
    """
    import yaml  # not at the top: few need it

    try:
        text = path.read_text()
        check_keys(text)
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise HoldfastError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None


def check_keys(text: str) -> None:
    """Raise yaml.YAMLError if a mapping in a YAML text has a key twice, which PyYAML allows."""
    import yaml  # not at the top: few need it

    nodes = [yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))]
    checked: set[int] = set()
    for node in nodes:  # which grows
        if not isinstance(node, yaml.CollectionNode) or id(node) in checked:
            continue
        checked.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            nodes += node.value
            continue
        lines: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            nodes.append(value)
            name, line = (key.tag, str(key.value)), key.start_mark.line + 1
            if first := lines.get(name):
                raise yaml.YAMLError(
                    f"the key '{key.value}' is in line {first} and again in line {line}"
                )
            lines[name] = line


def unreadable(path: Path, why: str) -> HoldfastError:
    """The message for a file that is damaged, missing or not readable."""
    return HoldfastError(
        f"{path} cannot be read ({why}). Restore it, or remove {path.parent} to repeat that run."
    )


@contextmanager
def written(
    path: Path, otherwise: str = "or choose another folder; completed work is kept."
) -> Iterator[None]:
    """Report a full disk or a missing permission as a `HoldfastError`."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error, otherwise) from error


def unwritable(path: Path, error: Exception, otherwise: str) -> HoldfastError:
    """The message for a full disk, a missing permission and the like."""
    return HoldfastError(
        f"{path} cannot be written ({reason(error)}): free disk space or fix the folder's "
        f"permissions, {otherwise}"
    )


def reason(error: Exception) -> str:
    """Why a file could not be read or written."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.splitlines()[0][:100]


def without(content: Any, *keys: str) -> Any:
    """The content without these keys, at any depth."""
    if isinstance(content, dict):
        return {key: without(value, *keys) for key, value in content.items() if key not in keys}
    return [without(v, *keys) for v in content] if isinstance(content, list | tuple) else content


def first_difference(first: Any, second: Any, name: str = "") -> tuple[str, Any, Any]:
    """The name of the first setting in which two different JSON values differ, and its two values.

    >>> first_difference({"model": {"lr": 1, "every": 50}}, {"model": {"lr": 1, "every": 100}})
    ('model.every', 50, 100)
    """
    keys: Iterable[Any] = ()
    if isinstance(first, dict) and isinstance(second, dict):
        first, second = (
            {**dict.fromkeys((*first, *second)), **values} for values in (first, second)
        )
        keys = first
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        keys = range(len(first))
    for key in keys:
        if first[key] != second[key]:
            return first_difference(first[key], second[key], f"{name}.{key}" if name else str(key))
    return name, first, second


def jsonable(content: dict[str, Any]) -> dict[str, Any]:
    """The content as JSON will return it: tuples as lists, and other types as text."""
    return json.loads(json.dumps(content, default=str))
