"""The files of a run's folder: their names, reading them while they are written, and who writes."""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from . import HoldfastError
from .files import reason, unreadable, whole_file, written

ROWS, PROVENANCE, SUMMARY = "record.jsonl", "provenance.json", "summary.json"  # of every run
CONFIG, CHECKPOINTS = "config.yaml", "checkpoints"  # the resolved configuration; a folder
CELL, ERROR = "cell.json", "error.txt"  # of a suite's runs: what is to be run; why it failed
OUTPUT = "output.txt"  # of a suite's runs: what they printed
LOCK, OWNER = "run.lock", "owner.txt"  # held while a process writes the run; which process that is
FLIPS, OUTPUTS = "flips.npz", "outputs.npz"  # predicted classes: WeightedFlips', DatasetEstimates'
EMBEDDINGS = "embeddings.npz"  # features of held-out images: EmbeddingClusters'
CALIBRATION = "dropout_calibration_{}.npz"  # DropoutCalibration's, by the estimator's name
ALARM = "_alarm"  # ends the names of the columns of alarms and monitors
_MOST_ERROR = 1000  # characters of an error that are shown
_LONGEST_ROW = 2**16  # bytes


class Busy(HoldfastError):
    """Another process holds the folder."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a run's folder, in which one process at a time may write; a killed process releases it.

    Raises:
        Busy: if another process holds it.
        HoldfastError: if the folder cannot be written, or a file in it is a link.
    """
    for name in (LOCK, ROWS, OUTPUT):  # which are written in place
        if (folder / name).is_symlink():
            raise HoldfastError(
                f"{folder / name} is a link, whose target this run would overwrite. Copy the folder with "
                "`cp -rL`, and pass the copy."
            )
    with written(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK)
        try:
            lock.acquire(timeout=1)  # `owner` holds it for an instant
        except Timeout:
            raise Busy(f"{folder} is being run by {owner(folder) or 'another process'}.") from None
        with whole_file(folder / OWNER, durable=False) as partial:
            partial.write_text(f"{socket.gethostname()}, process {os.getpid()}")
    try:
        yield
    finally:
        lock.release()


def owner(folder: Path) -> str | None:
    """Host and process that hold a run's folder; None if none does."""
    try:
        with (folder / LOCK).open() as file:  # for reading, as the folder may be read-only
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return (folder / OWNER).read_text() if (folder / OWNER).exists() else "another process"
    except OSError:  # none, or one that cannot be read
        pass
    return None


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run, without an incomplete end, as a kill or a power failure may leave."""
    return _rows_in((folder / ROWS).read_bytes())


def _rows_in(record: bytes) -> list[dict[str, Any]]:
    """The complete rows at the beginning of a part of a record."""
    rows = []
    for line in record.splitlines(keepends=True):
        try:
            rows.append(json.loads(line[: line.index(b"\n")]))
        except ValueError:  # no end of line, or no JSON in it
            break
    return rows


def begun(folder: Path) -> bool:
    """Whether the run has at least one complete row."""
    try:
        with (folder / ROWS).open("rb") as file:
            return bool(_rows_in(file.readline()))
    except FileNotFoundError:
        return False


def last_images(folder: Path) -> int | None:
    """The number of images up to the last row; None if it is incomplete, or if there is none."""
    try:
        with (folder / ROWS).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST_ROW))
            rows = _rows_in((file.readlines() or [b""])[-1])
    except FileNotFoundError:
        return None
    return rows[0]["images"] if rows else None


def images_used(rows: list[dict[str, Any]]) -> float | None:
    """The share of the images in these rows that the method selected; None if it does not select."""
    selected = [row.get("selected") for row in rows]
    if all(number is None for number in selected):
        return None
    return sum(number or 0 for number in selected) / rows[-1]["images"]


def remove_run(folder: Path) -> None:
    """Remove what an earlier run wrote into its folder, and nothing else."""
    names = (ROWS, SUMMARY, PROVENANCE, FLIPS, OUTPUTS, EMBEDDINGS)
    patterns = (*names, CALIBRATION.format("*"), "events.out.tfevents.*")
    for path in (path for pattern in patterns for path in folder.glob(pattern)):
        path.unlink(missing_ok=True)


def error_of(folder: Path) -> str | None:
    """Why the run failed, in one line; None if it did not."""
    try:
        with (folder / ERROR).open(errors="replace") as file:
            return file.readline(_MOST_ERROR).rstrip("\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        return str(unreadable(folder / ERROR, reason(error)))
