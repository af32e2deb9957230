"""The contents of a run's folder, and functions that read them, even while they are being
written."""

import json
import math
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeGuard
from zlib import crc32

from filelock import FileLock, Timeout

from . import HoldfastError
from .files import ordinary, read_json, reason, unreadable, written

ROWS, PROVENANCE, SUMMARY = "record.jsonl", "provenance.json", "summary.json"  # of every run
CHECKSUMS = "record.crc32"  # a line for each row: its `checksum`
FLIPS, OUTPUTS = "flips.npz", "outputs.npz"  # predicted classes: WeightedFlips', DatasetEstimates'
EMBEDDINGS = "embeddings.npz"  # features of held-out images: EmbeddingClusters'
CALIBRATION = "dropout_calibration_{}.npz"  # DropoutCalibration's, by the estimator's name
ROUNDING = 1e-3  # of a mean of accuracies, which a run sums up in float32
CELL, ERROR = "cell.json", "error.txt"  # of a suite's runs: what is to be run; why it failed
ALARM = "_alarm"  # ends the names of the columns of alarms and monitors
CONFIG = "config.yaml"  # the resolved configuration
OUTPUT = "output.txt"  # of a suite's runs: what they printed
LOCK, OWNER = "run.lock", "owner.txt"  # held while a process writes the run; which process that is
CHECKPOINTS = "checkpoints"  # a folder
TEXT = re.compile(r"([^@+]+(@\d+(\.\d+)?)?(\+(?!$)|$))*")  # "fog@2.5+snow@1": earlier versions
MOST_ERROR = 1000  # characters of an error that are shown


class Busy(HoldfastError):
    """Another process holds the folder."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a run's folder, in which one process at a time may write; a killed process releases it.

    Raises:
        Busy: if another process holds it.
        HoldfastError: if the folder cannot be written.
    """
    with written(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK)
        try:
            lock.acquire(timeout=1)  # `owner` holds it for an instant
        except Timeout:
            raise Busy(f"{folder} is being run by {owner(folder) or 'another process'}.") from None
        (folder / OWNER).write_text(f"{socket.gethostname()}, process {os.getpid()}")
    try:
        yield
    finally:
        lock.release()


def owner(folder: Path) -> str | None:
    """Host and process that hold a run's folder; None if none does."""
    if not (folder / LOCK).exists():
        return None
    try:
        with FileLock(folder / LOCK, timeout=0):
            return None
    except Timeout:
        return (folder / OWNER).read_text() if (folder / OWNER).exists() else "another process"


def damage(folder: Path) -> str | None:
    """Why a run's files cannot be read, or how they contradict each other, in a sentence; None if
    they are valid.
    """
    rows = folder / ROWS
    try:
        facts = [read_json(folder / name) for name in (CELL, SUMMARY, PROVENANCE)]
        if rows.exists():
            if not facts[-1]:
                raise unreadable(folder / PROVENANCE, "it is missing")
            for _ in range(1 if facts[1] else 2):  # an active run may write between the two reads
                record, known = record_in(folder), checksums(folder)
                number = damaged_row(record, known)
                if not number:
                    break
            if number:
                return damaged(folder, number)
            if facts[1] and (difference := contradiction(record, facts[1], len(known))):
                return f"{rows} {difference}: remove {folder} to begin that run anew."
    except HoldfastError as error:
        return str(error)
    except OSError as error:
        return str(unreadable(rows, reason(error)))
    return None


def checksum(row: bytes) -> bytes:
    """The line of CHECKSUMS for a row of the record."""
    return b"%08x\n" % crc32(row)


def checksums(folder: Path) -> list[bytes]:
    """The checksums of a run, row by row; empty if an earlier version wrote the run."""
    try:
        with open(folder / CHECKSUMS, "rb", opener=ordinary) as file:
            return file.read().splitlines(keepends=True)
    except FileNotFoundError:
        return []


def damaged_row(record: bytes, known: list[bytes]) -> int | None:
    """The number, counted from 1, of the first row whose checksum differs; None if there is none.

    A last row that a kill left incomplete does not count, as the resumed run writes it again.
    """
    rows = [row for row in record.splitlines(keepends=True) if row.endswith(b"\n")]
    both = zip(rows, known, strict=False)
    return next((n for n, (row, sum) in enumerate(both, 1) if checksum(row) != sum), None)


def damaged(folder: Path, number: int) -> str:
    """The error message for a row whose checksum differs."""
    return (
        f"{folder / ROWS}: row {number} has changed since it was written (its checksum in {CHECKSUMS} "
        f"differs). Restore the file, or remove {folder} and run it again."
    )


def contradiction(record: bytes, summary: dict[str, Any], checked: int = 0) -> str | None:
    """How a finished run's record differs from its summary, as if two processes had written it.

    `checked` is the number of its checksums; 0: it has none.
    """
    rows, lines = rows_in(record), len(record.splitlines())
    if checked and checked != lines:
        return f"has {lines} rows, and {CHECKSUMS} {checked}"
    if len(rows) < lines:
        return f"is incomplete at line {len(rows) + 1} of {lines} although the run is finished"
    try:
        images = [0, *(row["images"] for row in rows)]
        if any(one >= other for one, other in pairwise(images)) or images[-1] != summary["images"]:
            known = f"{SUMMARY} knows of {summary['images']}"
            return f"has {lines} rows, the last at {images[-1]} images, and {known}"
        accuracies = [row["accuracy"] for row in rows if "accuracy" in row]
        mean = sum(accuracies) / len(accuracies) if accuracies else math.nan
        told = summary.get("accuracy", math.nan)
        if not math.isclose(mean, told, abs_tol=ROUNDING) and not math.isnan(mean + told):
            return f"has accuracy {mean:.4f}, and {SUMMARY} has {told:.4f}"
    except (KeyError, TypeError, OverflowError):
        return f"or {SUMMARY} lacks keys that every run has"
    return None


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run, without an incomplete end, as a kill or a power failure may leave."""
    return rows_in(record_in(folder))


def record_in(folder: Path) -> bytes:
    """The content of a run's record, as bytes."""
    with open(folder / ROWS, "rb", opener=ordinary) as file:
        return file.read()


def images_used(rows: list[dict[str, Any]]) -> float | None:
    """The share of the images in these rows that the method selected; None if it does not select."""
    selected = [row.get("selected") for row in rows]
    if all(number is None for number in selected):
        return None
    return sum(number or 0 for number in selected) / rows[-1]["images"]


def begun(folder: Path) -> bool:
    """Whether the run has at least one complete row."""
    try:
        with open(folder / ROWS, "rb", opener=ordinary) as file:
            return bool(rows_in(file.readline()))
    except FileNotFoundError:
        return False


def rows_in(record: bytes) -> list[dict[str, Any]]:
    """The complete rows at the beginning of a part of a record."""
    rows = []
    for line in record.splitlines(keepends=True):
        try:
            row = json.loads(line[: line.index(b"\n")])
        except (ValueError, RecursionError):  # no end of line, or no JSON in it
            break
        if not is_row(row):
            break
        rows.append(row)
    return rows


def is_row(row: Any) -> bool:
    """Whether a row has all the values that a report needs, as finite numbers."""
    if not isinstance(row, dict):
        return False
    needed = (row.get("images"), row.get("seconds"), row.get("reset", 0), row.get("accuracy", 0))
    values = (value for name, value in row.items() if name != "corruptions")
    return (
        all(is_number(value) and math.isfinite(value) for value in needed)
        and all(value is None or is_number(value) for value in values)
        and are_pairs(row.get("corruptions"))
    )


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a JSON value is a finite number."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63)


def are_pairs(value: Any) -> bool:
    """Whether a row's corruptions are None, names with severities, or text as in earlier versions."""
    if value is None or (isinstance(value, str) and TEXT.fullmatch(value)):
        return True
    pairs = value if isinstance(value, list) else [value]
    return all(
        isinstance(pair, list)
        and len(pair) == 2
        and isinstance(pair[0], str)
        and is_number(pair[1])
        for pair in pairs
    )


def remove_run(folder: Path) -> None:
    """Remove what an earlier run wrote into its folder, and nothing else."""
    events = folder.glob("events.out.tfevents.*")
    names = (ROWS, CHECKSUMS, SUMMARY, PROVENANCE, FLIPS, OUTPUTS, EMBEDDINGS)
    for path in (
        *(folder / name for name in names),
        *folder.glob(CALIBRATION.format("*")),
        *events,
    ):
        path.unlink(missing_ok=True)


def error_of(folder: Path) -> str | None:
    """Why the run failed, in one line; None if it did not."""
    try:
        with open(folder / ERROR, errors="replace", opener=ordinary) as file:
            return file.readline(MOST_ERROR).rstrip("\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        return str(unreadable(folder / ERROR, reason(error)))
