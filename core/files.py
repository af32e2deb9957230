"""Files that are written completely or not at all, and one-sentence errors for files."""

import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from secrets import token_hex
from typing import Any

from . import HoldfastError

MOST_VALUES = 1_000_000  # of a YAML file, whose aliases can stand for many
MOST_BYTES = 1_000_000  # of a YAML file
MOST_LEVELS = 100  # nesting depth of its mappings and lists
MOST_DIGITS = 1000  # of a number in it
NUMBER = re.compile(r"[-+0-9_:.,a-fA-FxXoOeE]*")  # also in base 60, as in 1:30:00
PARTIAL = ".partial"  # suffix of a file that is not complete yet


@contextmanager
def whole_file(path: Path, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path to write to; at the end the file there replaces `path`.

    So `path` is always complete, whatever other processes write; with `durable`, even after a power
    failure.
    """
    partial = path.with_name(f"{path.name}.{token_hex(4)}{PARTIAL}")
    try:
        yield partial
        move_into_place(partial, path, durable)
    finally:
        partial.unlink(missing_ok=True)


def move_into_place(partial: Path, path: Path, durable: bool = True) -> None:
    """Replace `path` by a complete file; `durable`: only once it is safely on disk."""
    if durable:
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
    partial.replace(path)


def no_links(path: str, flags: int) -> int:
    """An `opener` for files written in place: a symbolic link is an error and is not followed."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def ordinary(path: str, flags: int) -> int:
    """An `opener` for untrusted files: pipes and devices, which never end, are errors."""
    number = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return number


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a path, which one process at a time can hold; a killed process releases it.

    Removes temporary files of `whole_file` that a killed process left.

    Raises:
        HoldfastError: if another process has the lock and `wait` is false.
    """
    import fcntl  # not at the top: Windows lacks it

    with written(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path.with_name(f"{path.name}.lock"), "w", opener=no_links)  # noqa: SIM115
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise HoldfastError(
                f"Another process is writing {path}. Wait for it, or pass each process its own "
                "--shard and --out."
            ) from None
        for partial in path.parent.glob(f"{escape(path.name)}.*{PARTIAL}"):
            partial.unlink(missing_ok=True)
        yield


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write the file completely or not at all."""
    with whole_file(path) as partial:
        partial.write_text(json.dumps(content, indent=1) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file, {} if there is none.

    Raises:
        HoldfastError: if it is damaged, or cannot be read.
    """
    try:
        with open(path, opener=ordinary) as file:
            content = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(path, reason(error)) from None
    if not isinstance(content, dict):
        raise unreadable(path, "it contains no mapping")
    return content


def read_yaml(path: Path) -> Any:
    """The content of a YAML file.

    Raises:
        HoldfastError: if it is damaged, contains itself, or its aliases expand without bound.
    """
    import yaml  # not at the top: few need it

    try:
        with open(path, "rb", opener=ordinary) as file:
            return parse_yaml(file.read(MOST_BYTES + 1).decode("utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise HoldfastError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None


def parse_yaml(text: str) -> Any:
    """The content of a YAML text.

    Raises:
        ValueError, YAMLError: as `check_yaml`.
    """
    import yaml

    check_yaml(text)
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def check_yaml(text: str) -> None:
    """Refuse a YAML text that would take too long to read or exhaust memory.

    Raises:
        ValueError: if it is too large or too deep, contains itself, expands to too many values
            through aliases, or has huge numbers.
        YAMLError: if it is not valid YAML.
    """
    import yaml

    if len(text) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    sizes: dict[str, int | None] = {}  # of what has an anchor; None: not at its end yet
    parts: list[tuple[str | None, int]] = [(None, 0)]  # those around this place, with values so far
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            parts.append((event.anchor, 1))
            if event.anchor:
                sizes[event.anchor] = None
            if len(parts) > MOST_LEVELS:
                raise ValueError(f"it is nested more than {MOST_LEVELS} levels deep")
            continue
        size = 1
        if isinstance(event, yaml.AliasEvent):
            if (known := sizes.get(event.anchor or "", 1)) is None:
                raise ValueError("it contains itself")
            size = known
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = parts.pop()
            if anchor:
                sizes[anchor] = size
        elif not isinstance(event, yaml.ScalarEvent):
            continue
        elif len(event.value) > MOST_DIGITS and NUMBER.fullmatch(event.value):
            raise ValueError(f"it has a number of more than {MOST_DIGITS:,} digits")
        elif event.anchor:
            sizes[event.anchor] = 1
        around, values = parts[-1]
        parts[-1] = around, values + size
        if values + size > MOST_VALUES:
            raise ValueError(f"its aliases expand to more than {MOST_VALUES:,} values")


def unreadable(path: Path, why: str) -> HoldfastError:
    """The message for a file that is damaged, missing or not readable."""
    return HoldfastError(
        f"{path} cannot be read ({why}). Restore it, or remove {path.parent} to start that run "
        "anew."
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


def jsonable(content: dict[str, Any]) -> dict[str, Any]:
    """The content as JSON will return it: tuples as lists, and other types as text."""
    return json.loads(json.dumps(content, default=str))
