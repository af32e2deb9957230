"""A recorded world: every search, snippet, text and reply of a run in one file, and their replay.

The file is JSON Lines. An entry has its request, a status, the result with its sha256, and for searches the
date limit, which is part of the request. It has no API key and no address, and of a request to a model only
the sha256: the prompts are in the run's result file. What a world contains is never requested again.
"""

import contextlib
import hashlib
import json
import os
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import HoldfastError
from ..files import first_difference, locked, written
from .data import reading
from .records import Record, append_line, fingerprint

OK, UNAVAILABLE = "ok", "unavailable"
REFUSED = "refused"  # sent again, except on replay
FAILED = "failed"  # no answer: sent again, and not replayed
_WANTED = "a file that `holdfast cite run --world` wrote"
Answer = tuple[str, Any]  # status and result


class World:
    """A file of requests and results, open for recording or for replay; thread-safe.

    The file is created if missing, unless it is replayed, and an incomplete last line is dropped. With
    `is_replay` all answers are from the file. Raises `HoldfastError` if the file is missing or not a world,
    or another process is writing it.
    """

    def __init__(self, path: str | Path, is_replay: bool = False) -> None:
        self.path, self.is_replay = Path(path), is_replay
        self.run = ""  # fingerprint of the run in progress
        self.settings: dict[str, Any] = {}  # of the run in progress, as recorded
        self.sha256 = ""  # of the file as it was opened
        self._spans: dict[str, tuple[int, int]] = {}  # offset and length of an entry by its key
        self._runs: list[dict[str, Any]] = []  # settings of recorded runs
        self._paid: list[tuple[str, dict[str, Any]]] = []  # run, and result of a request to a model
        self._mutex = threading.Lock()
        self._asking: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._held = contextlib.ExitStack()
        if not is_replay:
            self._held.enter_context(locked(self.path))
            with written(self.path):
                self.path.touch()
        self._read()

    def close(self) -> None:
        """Let other processes write the file."""
        self._held.close()

    def _read(self) -> None:
        """Index the entries, and drop an incomplete last one from a file that is recorded."""
        with reading(self.path, "a recorded world", _WANTED):
            raw = self.path.read_bytes()
            self.sha256 = hashlib.sha256(raw).hexdigest()
            whole = raw.rfind(b"\n") + 1
            offset = 0
            for line in raw[:whole].splitlines(keepends=True):
                self._index(json.loads(line), offset, len(line))
                offset += len(line)
        if not self.is_replay and whole < len(raw):
            os.truncate(self.path, whole)

    def answer(self, request: dict[str, Any], ask: Callable[[], Answer]) -> Answer:
        """The recorded answer to a request, or that of `ask`, which is recorded.

        Raises `HoldfastError` if the world is replayed and lacks the request.
        """
        key = fingerprint(request)
        with self._mutex:
            asking = self._asking[key]
        with asking:
            entry = self._entry(key)
            if entry is None or (entry["status"] == REFUSED and not self.is_replay):
                if self.is_replay:
                    raise HoldfastError(
                        f"{self.path} lacks a request of this run: {_shown(request)}. Replay with the "
                        "options of the recorded run, or record again with --world."
                    )
                status, result = ask()
                entry = {"request": request, "status": status, "result": result}
                self._append(entry)
        return entry["status"], entry["result"]

    def begin(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Begin a run: record its settings, or, on replay, return those of the recorded run.

        Raises `HoldfastError` if no run with these settings was recorded.
        """
        fixed = {key: settings[key] for key in ("dataset", "agent", "budget")}
        self.run = fingerprint(fixed)
        request = {"kind": "run", "run": self.run}
        if self.is_replay and self._entry(fingerprint(request)) is None:
            name, ours, recorded = "a run", "these options", "none"
            for run in self._runs[-1:]:
                name, ours, recorded = first_difference(fixed, {key: run[key] for key in fixed})
            raise HoldfastError(
                f"{self.path} has no run with these settings: {name} is {ours}, in its last run "
                f"{recorded}. Replay with the options of a recorded run."
            )
        self.settings = self.answer(request, lambda: (OK, settings))[1]
        return self.settings

    def timed(self, record: Record) -> Record:
        """The record with its times stored; on replay, with the stored ones."""
        events = record.events
        times = [getattr(event, "seconds", 0.0) for event in events]
        now = {"started": record.started, "seconds": record.seconds, "events": times}
        request = {
            "kind": "times",
            "run": self.run,
            "sample": record.sample,
            "repeat": record.repeat,
        }
        if self.is_replay and self._entry(fingerprint(request)) is None:
            return record
        stored = self.answer(request, lambda: (OK, now))[1]
        record.started, record.seconds = stored["started"], stored["seconds"]
        for event, seconds in zip(events, stored["events"], strict=False):
            if hasattr(event, "seconds"):
                event.seconds = seconds
        return record

    def paid(self) -> list[dict[str, Any]]:
        """The results of all requests to models that this run has sent so far, each once."""
        return [result for run, result in self._paid if run == self.run]

    def _entry(self, key: str) -> dict[str, Any] | None:
        """The entry of a key."""
        span = self._spans.get(key)
        if span is None:
            return None
        with reading(self.path, "a recorded world", _WANTED), self.path.open("rb") as file:
            file.seek(span[0])
            return json.loads(file.read(span[1]))

    def _append(self, entry: dict[str, Any]) -> None:
        entry = {**entry, "sha256": fingerprint(entry["result"])}
        with self._mutex:
            self._index(entry, *append_line(self.path, entry))

    def _index(self, entry: dict[str, Any], offset: int, length: int) -> None:
        """Note where an entry is, unless its request is to be sent again."""
        request, result = entry["request"], entry["result"]
        if request["kind"] == "run":
            self._runs.append(result)
        if request["kind"] == "lm" and entry["status"] == OK:
            self._paid.append((request["run"], {key: result[key] for key in ("usage", "usd")}))
        if entry["status"] != FAILED:
            self._spans[fingerprint(request)] = offset, length


def _shown(request: dict[str, Any]) -> str:
    """A request in a message: its kind, and what identifies it to a user."""
    names = ("sample", "repeat", "query", "until", "paper", "number")
    facts = [f"{name} {request[name]!r}" for name in names if name in request]
    return f"{request['kind']}, {', '.join(facts)}"
