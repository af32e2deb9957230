"""Recordings of what services answered, so that a live run can be repeated without network."""

import json
import threading
from collections import defaultdict, deque
from pathlib import Path
from typing import Any, Literal

from .. import HoldfastError
from ..files import reason, written
from .results import fingerprint

Mode = Literal["record", "replay"]


class Cassette:
    """Answers by request, in a JSON Lines file; a request that was not recorded is an error.

    Equal requests are answered in the order in which they were recorded; the last answer stays.
    Keys and answers must be free of secrets: callers leave credentials out.
    """

    def __init__(self, path: str | Path, mode: Mode) -> None:
        self.path, self.mode = Path(path), mode
        self._mutex = threading.Lock()
        self._answers: dict[str, deque[Any]] = defaultdict(deque)
        if mode == "record":
            with written(self.path, "or give --record another file."):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self.path.open("a", encoding="utf-8")
            return
        try:
            lines = self.path.read_text(encoding="utf-8").split("\n")
        except OSError as error:
            raise HoldfastError(
                f"cannot read the recording {self.path} ({reason(error)}): make one with --record."
            ) from None
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:  # the last line of a recording that was killed
                continue
            self._answers[fingerprint(entry["request"])].append(entry["answer"])

    def record(self, request: Any, answer: Any) -> None:
        """Append one exchange."""
        line = json.dumps({"request": request, "answer": answer}, ensure_ascii=False) + "\n"
        with self._mutex:
            self._file.write(line)
            self._file.flush()

    def replay(self, request: Any) -> Any:
        """The recorded answer; raises `HoldfastError` if there is none."""
        with self._mutex:
            answers = self._answers.get(fingerprint(request))
            if not answers:
                raise HoldfastError(
                    f"{self.path} has no answer to {short(request)}: record again with --record, "
                    "with the options of this run."
                )
            return answers.popleft() if len(answers) > 1 else answers[0]


def short(request: Any) -> str:
    text = json.dumps(request, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}..."
