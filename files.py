"""Files that are there as a whole or not at all, and one sentence for what goes wrong with them."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

from . import HoldfastError

PARTIAL = ".partial"  # behind the name of a file that is not whole yet


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """The path to write to; what lies there in the end takes the place of `path`, safely on disk.

    So the file is there as a whole or not at all, whoever else may be writing it.
    """
    partial = path.with_name(f"{path.name}.{token_hex(4)}{PARTIAL}")
    try:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write the file as a whole or not at all."""
    with whole_file(path) as partial:
        partial.write_text(json.dumps(content, indent=1) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """The content of such a file, {} if there is none.

    Raises:
        HoldfastError: if it is damaged, or may not be read.
    """
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise unreadable(path, reason(error)) from None


def unreadable(path: Path, why: str) -> HoldfastError:
    """The sentence for a file that is torn, missing, or somebody else's."""
    return HoldfastError(
        f"{path} cannot be read ({why}): restore it, or remove {path.parent} to begin that run anew."
    )


@contextmanager
def written(
    path: Path, otherwise: str = "or choose another place; what is finished is kept."
) -> Iterator[None]:
    """A disk that is full, or a folder that is not ours, is told in one sentence."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error, otherwise) from error


def unwritable(path: Path, error: Exception, otherwise: str) -> HoldfastError:
    """The sentence for a full disk, a folder of somebody else, and the like."""
    return HoldfastError(
        f"{path} cannot be written ({reason(error)}): make room or mend the folder, {otherwise}"
    )


def reason(error: Exception) -> str:
    """Why a file could not be read or written, in a few words."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.splitlines()[0][:100]
