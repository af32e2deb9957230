"""The result file: append-only JSON Lines, a header and one record per sample and repeat.

The file contains no verdicts; `score` computes them, so a matcher can change without a new run.
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
from .schema import RETRIED, Call, Entry, Header, Record, checked

ROOM = 32_000_000  # minimum free bytes on the disk for starting a sample
OTHERWISE = "and rerun the same command to continue; finished samples are not repeated."
Key = tuple[str, int]  # sample id, repeat


class ResultFile:
    """A result file open for appending by one process; each record is synced to disk.

    An incomplete last line of an interrupted run is dropped on opening. API keys are never written.

    Args:
        path: the file; created if missing.
        header: the settings of the run, from `header_on`.

    Raises:
        HoldfastError: if the file contains a run with other settings, cannot be written, or is being
            written by another process.
    """

    def __init__(self, path: str | Path, header: dict[str, Any]) -> None:
        self.path = Path(path)
        header = redacted(header)
        config = fingerprint(identity(header))
        self.header = {"type": "header", "schema": 1, "config": config, **header}
        try:
            checked(self.header, Header)
        except ValueError as error:
            raise HoldfastError(
                f"The settings of the run are invalid ({error}). Correct the result of `describe`, or the "
                "file with the settings."
            ) from None
        self._mutex = threading.Lock()
        with written(self.path, "or pass --out another file."):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            self.records = self._resume()
        except BaseException:
            self.close()
            raise

    def _resume(self) -> dict[Key, Record]:
        """Lock the file, drop an incomplete last line, and return the records of this run."""
        lock(self._descriptor, self.path)
        whole, torn = whole_lines(self.path)
        if not (whole or torn).startswith(b'{"type":"header"'[: len(whole or torn)]):
            raise HoldfastError(f"{self.path} is not a result file. Pass --out another name.")
        os.truncate(self.path, len(whole))
        if not whole:
            self._append(self.header)
        found, records = read(self.path)
        if found.config != self.header["config"]:
            mine, theirs = identity(self.header), found.plain()
            changed = sorted(k for k in mine if mine[k] != theirs.get(k) and k != "config")
            raise HoldfastError(
                f"{self.path} contains a run with a different {', '.join(changed) or 'configuration'}. "
                "Pass --out another file, or use the options of that run."
            )
        if (found.n, found.repeats) != (self.header["n"], self.header["repeats"]):
            self._append(self.header)
        return records

    @property
    def finished(self) -> set[Key]:
        """The keys of finished samples: all except provider errors and crashes."""
        return {key for key, record in self.records.items() if record.status not in RETRIED}

    def append(self, record: Record) -> Record:
        """Write a record, wait until it is on disk, and return it as written (without API keys)."""
        content = redacted(record.plain())
        written_record: Record = checked(content, Record)
        with self._mutex:
            self._append(content)
            self.records[written_record.sample, written_record.repeat] = written_record
        return written_record

    def _append(self, content: dict[str, Any]) -> None:
        line = json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n"
        data = line.encode("utf-8", errors="backslashreplace")
        size = os.fstat(self._descriptor).st_size
        with written(self.path, OTHERWISE):
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
                os.fsync(self._descriptor)
            except OSError:
                os.ftruncate(self._descriptor, size)  # an incomplete line would hide the next
                raise

    @property
    def is_full(self) -> bool:
        """Whether the disk may lack space for the records of samples in progress."""
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
    """The settings of a run, for `ResultFile`; without `provider` the agent did not search."""
    return {
        "dataset": {"name": dataset.name, "sha256": dataset.sha256, "split": dataset.split},
        "n": len(dataset.samples),
        "agent": agent,
        "provider": provider or {"name": "none"},
        "budget": budget or {},
        "repeats": repeats,
    }


def entries(path: Path) -> Iterator[Header | Record]:
    """The lines of a result file, without an incomplete last one.

    Raises:
        HoldfastError: if the file cannot be read, or a line is no header or record.
    """
    try:
        lines = whole_lines(path)[0].splitlines()
    except OSError as error:
        raise HoldfastError(
            f"Cannot read {path} ({reason(error)}). Pass a file that `holdfast cite run` wrote."
        ) from None
    for number, line in enumerate(lines, start=1):
        try:
            yield checked(encodable(json.loads(line)), Entry)
        except (ValueError, RecursionError) as error:
            raise HoldfastError(
                f"{path} is not a result file of this version (line {number}: {reason(error)}). Pass one "
                "that `holdfast cite run` wrote."
            ) from None


def read(path: str | Path) -> tuple[Header, dict[Key, Record]]:
    """The last header and the last record of every (sample, repeat).

    Raises:
        HoldfastError: if it is not a result file.
    """
    header, records = None, {}
    for entry in entries(Path(path)):
        if isinstance(entry, Header):
            header = entry
        else:
            records[entry.sample, entry.repeat] = entry
    if header is None:
        raise HoldfastError(
            f"{path} has no header. Pass a result file that `holdfast cite run` wrote."
        )
    return header, records


def encodable(value: Any) -> Any:
    """The JSON value with "?" for lone surrogates, which JSON can express and UTF-8 cannot."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    return [encodable(item) for item in value] if isinstance(value, list) else value


def calls(path: str | Path) -> Iterator[Call]:
    """Every call of a language model in a result file, including those of samples that were rerun."""
    for entry in entries(Path(path)):
        if isinstance(entry, Record):
            yield from entry.calls


def fingerprint(value: Any) -> str:
    """The sha256 of a JSON value's canonical form."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def identity(header: dict[str, Any]) -> dict[str, Any]:
    """The settings that must not change on resume; n and repeats may grow."""
    return {k: v for k, v in header.items() if k not in ("n", "repeats")}


def whole_lines(path: Path) -> tuple[bytes, bytes]:
    """The complete lines, and what follows the last of them."""
    raw = path.read_bytes()
    end = raw.rfind(b"\n") + 1
    return raw[:end], raw[end:]


def lock(descriptor: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: a second writer is not detected
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise HoldfastError(
            f"Another process is writing {path}. Wait for it, or pass --out another file."
        ) from None
