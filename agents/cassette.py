"""Recordings of the answers of services, to repeat a live run without network."""

import json
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from .. import HoldfastError
from ..files import reason, written
from ..redaction import redacted
from .results import fingerprint

Mode = Literal["record", "replay"]


class Cassette:
    """Answers by request, in a JSON Lines file; in replay, a request that was not recorded is an error.

    Equal requests are answered in the order of recording; the last answer is repeated. API keys are
    removed, even from answers that echo them. Damaged lines are skipped.

    Raises:
        HoldfastError: if the file cannot be read ("replay") or written ("record").
    """

    def __init__(self, path: str | Path, mode: Mode) -> None:
        self.path, self.mode = Path(path), mode
        self._mutex = threading.Lock()
        self._answers: dict[str, deque[Any]] = defaultdict(deque)
        self._damaged = 0  # number of damaged lines
        if mode == "record":
            with written(self.path, "or pass --record another file."):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self.path.open("a", encoding="utf-8")
            return
        try:
            lines = self.path.read_bytes().splitlines()
        except OSError as error:
            raise HoldfastError(
                f"Cannot read the recording {self.path} ({reason(error)}). Make one with --record."
            ) from None
        for line in lines:
            try:
                entry = json.loads(line)
                self._answers[fingerprint(redacted(entry["request"]))].append(entry["answer"])
            except (ValueError, TypeError, LookupError, RecursionError):  # an incomplete line
                self._damaged += 1

    def exchange(self, request: Any, send: Callable[[], Any]) -> Any:
        """The recorded answer to a request; when recording, that of `send`.

        Raises:
            HoldfastError: if there is no recorded answer, or it cannot be written.
        """
        if self.mode == "replay":
            return self._replayed(request)
        answer = send()
        exchange = redacted({"request": request, "answer": answer})
        line = json.dumps(exchange, ensure_ascii=False) + "\n"
        with self._mutex, written(self.path, "or pass --record another file."):
            self._file.write(line)
            self._file.flush()
        return answer

    def _replayed(self, request: Any) -> Any:
        with self._mutex:
            answers = self._answers.get(fingerprint(redacted(request)))
            if not answers:
                lost = f" ({self._damaged} of its lines cannot be read)" if self._damaged else ""
                asked = json.dumps(request, ensure_ascii=False)
                asked = asked if len(asked) <= 300 else f"{asked[:300]}..."
                raise HoldfastError(
                    f"{self.path} has no answer to {asked}{lost}. Record it with --record and the options "
                    "of this run."
                )
            return answers.popleft() if len(answers) > 1 else answers[0]


def is_replay(cassette: Cassette | None) -> bool:
    """Whether answers come from a recording, so that no service is asked."""
    return cassette is not None and cassette.mode == "replay"
