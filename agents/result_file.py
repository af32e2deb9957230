"""The result file of a run: append-only JSON Lines, a header and one record per sample and repeat.

The file contains no verdicts; `score` computes them, so a matcher can change without a new run.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from .. import HoldfastError
from ..files import reason, written
from .data import Dataset
from .records import RETRIED, Header, Key, Line, Record, checked

OTHERWISE = "and rerun the same command to continue; finished samples are not repeated."


class ResultFile:
    """A result file open for appending by one process; each record is synced to disk.

    An incomplete last line of an interrupted run is dropped on opening.

    Args:
        path: the file; created if missing.
        settings: the settings of the run, from `settings_of`.

    Raises:
        HoldfastError: if the file contains a run with other settings, cannot be written, or is being
            written by another process.
    """

    def __init__(self, path: str | Path, settings: dict[str, Any]) -> None:
        self.path = Path(path)
        config = fingerprint(identity(settings))
        self.header = {"type": "header", "schema": 1, "config": config, **settings}
        self._lock = FileLock(f"{self.path}.lock")
        with written(self.path, "or pass --out another file."):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._lock.acquire(timeout=0)
            except Timeout:
                raise HoldfastError(
                    f"Another process is writing {self.path}. Wait for it, or pass --out another file."
                ) from None
            self.path.touch()
        try:
            self.records = self._resume()
        except BaseException:
            self.close()
            raise

    def _resume(self) -> dict[Key, Record]:
        """Drop an incomplete last line, and return the records of this run."""
        raw = self.path.read_bytes()
        if not raw.startswith(b'{"type":"header"'[: len(raw)]):
            raise HoldfastError(f"{self.path} is not a result file. Pass --out another name.")
        whole = raw.rfind(b"\n") + 1
        os.truncate(self.path, whole)
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

    def append(self, record: Record) -> None:
        """Write a record and wait until it is on disk."""
        self._append(record.plain())
        self.records[record.sample, record.repeat] = record

    def _append(self, content: dict[str, Any]) -> None:
        line = json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n"
        data = line.encode("utf-8", "replace")
        with written(self.path, OTHERWISE), self.path.open("ab", buffering=0) as file:
            size = file.tell()
            try:
                while data:
                    data = data[file.write(data) :]
                os.fsync(file.fileno())
            except OSError:
                # An incomplete line would hide the next.
                os.truncate(self.path, size)
                raise

    def close(self) -> None:
        self._lock.release()

    def __enter__(self) -> "ResultFile":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def settings_of(
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


def lines(path: Path) -> Iterator[Header | Record]:
    """The lines of a result file, without an incomplete last one.

    Raises:
        HoldfastError: if the file cannot be read, or a line is no header or record.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise HoldfastError(
            f"Cannot read {path} ({reason(error)}). Pass a file that `holdfast cite run` wrote."
        ) from None
    for number, line in enumerate(raw[: raw.rfind(b"\n") + 1].splitlines(), start=1):
        try:
            yield checked(line, Line)
        except ValueError as error:
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
    for line in lines(Path(path)):
        if isinstance(line, Header):
            header = line
        else:
            records[line.sample, line.repeat] = line
    if header is None:
        raise HoldfastError(
            f"{path} has no header. Pass a result file that `holdfast cite run` wrote."
        )
    return header, records


def fingerprint(value: Any) -> str:
    """The sha256 of a JSON value's canonical form."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def identity(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that must not change on resume; n and repeats may grow."""
    return {k: v for k, v in settings.items() if k not in ("n", "repeats")}
