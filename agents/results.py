"""The result file: append-only JSON Lines, a header and one record per sample; nothing is judged.

Whether an answer is right is worked out by `score`, so a matcher can change without a new run.
"""

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import HoldfastError
from ..files import reason, written
from ..redaction import redacted
from .data import Dataset
from .episode import RETRIED
from .schema import checked

SCHEMA = 1
ROOM = 32_000_000  # bytes that a disk must have left before a sample is begun
OTHERWISE = "and rerun the same command to continue; completed samples are kept."
Key = tuple[str, int]  # sample id, repeat


class ResultFile:
    """A result file open for appending; one process at a time, each record fsynced whole.

    A line torn by a kill is dropped on opening; keys of services are left out. Raises `HoldfastError`
    where the file belongs to another configuration or is being written by another process.
    """

    def __init__(self, path: str | Path, header: dict[str, Any]) -> None:
        self.path = Path(path)
        header = redacted(header)
        config = fingerprint(identity(header))
        self.header = {"type": "header", "schema": SCHEMA, "config": config, **header}
        self._mutex = threading.Lock()
        with written(self.path, "or pass --out another file."):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            self.records = self._resume()
        except BaseException:
            self.close()
            raise

    def _resume(self) -> dict[Key, dict[str, Any]]:
        """Lock the file, drop a torn line, and return the records if they belong to this run."""
        lock(self._descriptor, self.path)
        whole, torn = whole_lines(self.path)
        if not (whole or torn).startswith(b'{"type":"header"'[: len(whole or torn)]):
            raise HoldfastError(f"{self.path} is not a result file. Pass --out another name.")
        os.truncate(self.path, len(whole))
        if not whole:
            self._append(self.header)
        found, records = read(self.path)
        if found["config"] != self.header["config"]:
            mine = identity(self.header)
            changed = sorted(k for k in mine if mine[k] != found.get(k) and k != "config")
            raise HoldfastError(
                f"{self.path} holds a run with another {', '.join(changed) or 'configuration'}. "
                "Pass --out another file, or repeat the options it was made with."
            )
        if (found["n"], found["repeats"]) != (self.header["n"], self.header["repeats"]):
            self._append(self.header)
        return records

    @property
    def finished(self) -> set[Key]:
        """Keys that need no further run: all but provider errors and crashes."""
        return {key for key, record in self.records.items() if record["status"] not in RETRIED}

    def append(self, record: dict[str, Any]) -> dict[str, Any]:
        """Write one sample's record, wait until it is on disk, and return it as it was written."""
        record = redacted(record)
        with self._mutex:
            self._append(record)
            self.records[record["sample"], record["repeat"]] = record
        return record

    def _append(self, record: dict[str, Any]) -> None:
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"
        data = line.encode("utf-8", errors="backslashreplace")
        size = os.fstat(self._descriptor).st_size
        with written(self.path, OTHERWISE):
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
                os.fsync(self._descriptor)
            except OSError:
                os.ftruncate(self._descriptor, size)  # half a record would hide the next
                raise

    @property
    def is_full(self) -> bool:
        """Whether the disk may have no room for the records of samples that are under way."""
        return shutil.disk_usage(self.path.parent).free < ROOM

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> "ResultFile":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def header_on(
    dataset: Dataset,
    agent: dict[str, Any],
    provider: dict[str, Any] | None = None,
    budget: dict[str, Any] | None = None,
    repeats: int = 1,
) -> dict[str, Any]:
    """The header of a run on a data set; without a provider it searched nothing."""
    return {
        "dataset": {"name": dataset.name, "sha256": dataset.sha256, "split": dataset.split},
        "n": len(dataset.samples),
        "agent": agent,
        "provider": provider or {"name": "none"},
        "budget": budget or {},
        "repeats": repeats,
    }


def read(path: str | Path) -> tuple[dict[str, Any], dict[Key, dict[str, Any]]]:
    """The last header and the last record of every (sample, repeat), but no torn line."""
    path = Path(path)
    try:
        lines = whole_lines(path)[0].splitlines()
    except OSError as error:
        raise HoldfastError(
            f"Cannot read {path} ({reason(error)}). Pass a file that `holdfast cite run` wrote."
        ) from None
    header, records = None, {}
    for number, line in enumerate(lines, start=1):
        try:
            entry = checked(encodable(json.loads(line)))
        except (ValueError, RecursionError) as error:
            raise HoldfastError(
                f"{path} is not a result file of this version (line {number}: {reason(error)}). Pass one "
                "that `holdfast cite run` wrote."
            ) from None
        if entry["type"] == "header":
            header = entry
        else:
            records[entry["sample"], entry["repeat"]] = entry
    if header is None:
        raise HoldfastError(
            f"{path} has no header. Pass a result file that `holdfast cite run` wrote."
        )
    return header, records


def encodable(value: Any) -> Any:
    """What JSON holds, with "?" for half characters, which JSON can name and no file can hold."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    return [encodable(item) for item in value] if isinstance(value, list) else value


def calls(path: str | Path) -> Iterator[dict[str, Any]]:
    """Every call of a language model that a result file holds, those of retried samples too."""
    for line in whole_lines(Path(path))[0].splitlines():
        yield from (e for e in json.loads(line).get("events", ()) if e["kind"] == "lm")


def fingerprint(value: Any) -> str:
    """The sha256 of a JSON value's canonical form."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def identity(header: dict[str, Any]) -> dict[str, Any]:
    """What may not change from one call to the next; n and repeats may grow."""
    return {k: v for k, v in header.items() if k not in ("n", "repeats")}


def whole_lines(path: Path) -> tuple[bytes, bytes]:
    """The whole lines and what follows the last of them."""
    raw = path.read_bytes()
    end = raw.rfind(b"\n") + 1
    return raw[:end], raw[end:]


def lock(descriptor: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: two writers are not told apart there
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise HoldfastError(
            f"Another process is writing {path}. Wait for it, or pass --out another file."
        ) from None
