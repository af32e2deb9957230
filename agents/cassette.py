"""Recordings of what services answered, so that a live run can be repeated without network."""

import json
import threading
from collections import defaultdict, deque
from pathlib import Path
from typing import Any, Literal

from .. import HoldfastError
from ..files import reason, written
from ..redaction import redacted
from .results import fingerprint

Mode = Literal["record", "replay"]


class Cassette:
    """Answers by request, in a JSON Lines file; a request that was not recorded is an error.

    Equal requests are answered in the order in which they were recorded; the last answer stays.
    Keys of services are left out, also where an answer echoes them; a line that is no recorded answer is
    passed over.
    """

    def __init__(self, path: str | Path, mode: Mode) -> None:
        self.path, self.mode = Path(path), mode
        self._mutex = threading.Lock()
        self._answers: dict[str, deque[Any]] = defaultdict(deque)
        self._damaged = 0  # lines
        if mode == "record":
            with written(self.path, "or give --record another file."):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self.path.open("a", encoding="utf-8")
            return
        try:
            lines = self.path.read_bytes().splitlines()
        except OSError as error:
            raise HoldfastError(
                f"cannot read the recording {self.path} ({reason(error)}): make one with --record."
            ) from None
        for line in lines:
            try:
                entry = json.loads(line)
                self._answers[fingerprint(redacted(entry["request"]))].append(entry["answer"])
            except (
                ValueError,
                TypeError,
                LookupError,
                RecursionError,
            ):  # torn by a kill, or foreign
                self._damaged += 1

    def record(self, request: Any, answer: Any) -> None:
        """Append one exchange."""
        exchange = redacted({"request": request, "answer": answer})
        line = json.dumps(exchange, ensure_ascii=False) + "\n"
        with self._mutex, written(self.path, "or give --record another file."):
            self._file.write(line)
            self._file.flush()

    def replay(self, request: Any) -> Any:
        """The recorded answer; raises `HoldfastError` if there is none."""
        with self._mutex:
            answers = self._answers.get(fingerprint(redacted(request)))
            if not answers:
                lost = f" ({self._damaged} of its lines cannot be read)" if self._damaged else ""
                raise HoldfastError(
                    f"{self.path} has no answer to {short(request)}{lost}: record again with "
                    "--record, with the options of this run."
                )
            return answers.popleft() if len(answers) > 1 else answers[0]


def short(request: Any) -> str:
    text = json.dumps(request, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}..."
