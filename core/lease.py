"""One process at a time may write in a run's folder, on this machine or on others that share it.

The folder's owners are numbered files, FOLDER/owners/0001 and so on. The owner with the last number
holds the folder as long as it renews its file and has not written an end into it. A process takes
the folder over by creating the file with the next number, which the file system, NFS included,
allows only one process to do. Files are never removed, so two processes that find the same dead
owner cannot both succeed it.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path
from secrets import token_hex
from typing import Any

from . import HoldfastError
from .files import no_links, whole_file, written
from .run_folder import OWNERS, refuse_links

SECONDS = 60.0  # an owner that has not renewed for this long is dead
RENEW = 10.0  # interval of the renewals


class Busy(HoldfastError):
    """Another process holds the folder."""


class LeaseLost(HoldfastError):
    """Another process may have taken over the folder, so this one must stop writing."""


class Lease:
    """`with Lease(folder) as lease:` holds the folder; `lease.check()` before every write.

    Args:
        folder: folder of the run; created if missing.
        seconds: an owner that has not renewed for this long counts as dead; it must be equal in all
            processes that share the folder.
        renew: seconds between renewals, by a thread.

    Raises:
        Busy: when entered, if a living process holds the folder.
        HoldfastError: when entered, if the folder cannot be written.
    """

    def __init__(self, folder: str | Path, seconds: float = SECONDS, renew: float = RENEW) -> None:
        self.folder, self.seconds, self.renew = Path(folder), seconds, renew
        self.took_over = False  # from an owner that did not end properly
        self._mine = json.dumps({**this_process(), "token": token_hex(8)}) + "\n"
        self._ended = threading.Event()

    def __enter__(self) -> "Lease":
        with written(self.folder, "or choose another `out`."):
            self._take()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        with contextlib.suppress(OSError):  # then the lease ends because it is not renewed
            if self._path.read_text() == self._mine:
                end(self._path, "released")

    def check(self) -> None:
        """Return at once while no other process can have taken over; otherwise check, and raise
        LeaseLost if one has."""
        if awake() - self._renewed > self.seconds / 2 or self._ended.is_set():
            self._renew()

    def _take(self) -> None:
        refuse_links(self.folder)
        folder = self.folder / OWNERS
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            now = os.fstat(probe.fileno()).st_mtime  # by the clock that dates the renewals
        before = last(folder)
        if before is not None and alive(before, now, self.seconds):
            raise Busy(f"{self.folder} is being run by {who(before)}.")
        self._renewed = awake()
        self._path = folder / f"{int(before.name) + 1 if before else 1:04d}"
        try:
            with self._path.open("x") as file:
                file.write(self._mine)
        except FileExistsError:
            raise Busy(f"{self.folder} is being run by {who(self._path)}.") from None
        if before is not None and len(before.read_text(errors="replace").splitlines()) < 2:
            self.took_over = True
            end(before, f"taken over by {who(self._path)}")

    def _renew(self) -> None:
        """Renew until there is a successor, or until one could not be ruled out for too long.

        `check` then raises LeaseLost.
        """
        now = awake()
        try:
            successor = self._path.with_name(f"{int(self._path.name) + 1:04d}")
            if self._path.read_text() != self._mine or successor.exists():
                self._ended.set()
                by = who(successor) if successor.exists() else "another process"
                raise LeaseLost(f"{self.folder} was taken over by {by} while this process hung.")
            os.utime(self._path)
            self._renewed = now
        except OSError as error:
            if now - self._renewed > self.seconds * 0.9:
                raise LeaseLost(f"{self.folder} could not be held: {error.strerror}.") from None

    def _keep(self) -> None:
        while not self._ended.wait(self.renew):
            try:
                self._renew()
            except LeaseLost:
                return  # the next check says so to whoever writes


def owner(folder: Path) -> str | None:
    """The process that runs it, or None; only for display, as it uses this machine's clock."""
    path = last(folder / OWNERS)
    return who(path) if path and alive(path, time.time(), SECONDS) else None


def last(folder: Path) -> Path | None:
    """The file of the last owner."""
    numbered = (p for p in folder.glob("[0-9]*") if re.fullmatch("[0-9]+", p.name) and p.is_file())
    return max(numbered, key=lambda p: int(p.name), default=None)


def alive(path: Path, now: float, seconds: float) -> bool:
    """Whether an owner holds its folder."""
    with path.open(
        errors="replace"
    ) as file:  # opening makes NFS ask the server how old the file really is
        lines, renewed = file.readlines(), os.fstat(file.fileno()).st_mtime
    if len(lines) > 1 or abs(now - renewed) > seconds:  # no living owner's time is in the future
        return False
    process, here = parsed(lines), this_process()
    if not process or here["machine"] is None or process["machine"] != here["machine"]:
        return True  # for processes on other machines, only renewals are known
    return started(process["pid"]) == process["started"]


def parsed(lines: list[str]) -> dict[str, Any]:
    """The process that an owner's file names; {} while the file is still being written."""
    try:
        process = json.loads(lines[0])
    except (IndexError, ValueError, RecursionError):
        return {}
    return process if isinstance(process, dict) and this_process().keys() <= process.keys() else {}


def this_process() -> dict[str, Any]:
    """Host and id of this process, and what distinguishes it from others with the same host and
    id."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        machine = f"{boot} {os.readlink('/proc/self/ns/pid')}"  # ids are per container
    except OSError:  # not Linux: a killed owner holds its folder until its renewal expires
        machine = None
    pid = os.getpid()
    return {"host": socket.gethostname(), "pid": pid, "machine": machine, "started": started(pid)}


def started(pid: int) -> str | None:
    """When a process of this machine started, in ticks since boot; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]  # a zombie writes nothing


def who(path: Path) -> str:
    """Host and process of an owner, for a message."""
    process = parsed(path.read_text(errors="replace").splitlines())
    return f"{process['host']}, process {process['pid']}" if process else "another process"


def replace_by_copy(*paths: Path) -> None:
    """Replace the files by copies; an owner that was only suspended still writes to the
    originals."""
    for path in filter(Path.exists, paths):
        with whole_file(path) as copy:
            shutil.copyfile(path, copy)


def end(path: Path, how: str) -> None:
    """Record that an owner has released the folder, and why."""
    with open(path, "a", opener=no_links) as file:
        file.write(json.dumps({"ended": how}) + "\n")


def awake() -> float:
    """Seconds on a clock that also runs while the machine sleeps, if the system has one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
