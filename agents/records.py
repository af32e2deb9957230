"""The result file of a run: append-only JSON Lines, a header and one record per sample and repeat.

A record has all events of its sample and no verdict: `score` computes verdicts, so a matcher can change
without a new run. Lines are validated on reading, and further keys are preserved. Times are in seconds,
prices in US dollars.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, TypeAdapter

from .. import HoldfastError
from ..files import jsonable, locked, written
from .data import Dataset, reading

_Answered = Literal["selected", "guessed"]
_Unanswered = Literal[
    "no_selection",
    "bad_format",
    "unknown_id",
    "action_limit",
    "context",
    "policy",
    "refused",
    "sample_limit",
]
_Retried = Literal["run_limit", "provider_error", "crash"]
Status = Literal[_Answered, _Unanswered, _Retried]  # how a sample ended
RETRIED = get_args(_Retried)  # independent of the agent: such samples are rerun on resume
_WANTED = "a result file of this version of `holdfast cite run`"
_OTHERWISE = "and rerun the same command to continue; finished samples are not repeated."

Key = tuple[str, int]  # sample id, repeat


class Shape(BaseModel):
    """A mapping in a file; further keys are allowed."""

    model_config = ConfigDict(
        strict=True, extra="allow", allow_inf_nan=False, protected_namespaces=()
    )

    def plain(self) -> dict[str, Any]:
        """The keys that were set, as JSON values."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class Message(Shape):
    """A message of a prompt; a result file contains its content when first sent, then only its id."""

    id: str | None
    role: str
    content: str


class Call(Shape):
    """A request to a language model: `reply` if it was answered, otherwise `error`."""

    model_config = ConfigDict(validate_assignment=True)

    kind: Literal["lm"]
    step: NonNegativeInt
    prompt: list[str | None]  # ids of messages
    new_messages: list[Message]
    seconds: NonNegativeFloat
    usage: dict[str, NonNegativeInt | None]  # the provider's counts, such as `input_tokens`
    usd: NonNegativeFloat | None
    reply: str | None = None
    finish: str | None = None
    error: str = ""
    was_sent: bool = Field(default=True, exclude=True)  # rather than answered by a recorded world


class Hit(Shape):
    """A paper that a search returned; `ids` as in `Paper`."""

    id: str | None
    title: str
    year: int | None = None
    date: str | None = None
    ids: list[str] = []


class Action(Shape):
    """A use of one of the agent's actions; `hits` is None for all but searches."""

    kind: Literal["action"]
    step: NonNegativeInt
    action: str
    query: str = ""
    scope: dict[str, Any] = {}
    paper: str = ""
    part: str = ""
    hits: list[Hit] | None = None
    ok: bool = False  # whether a text could be read
    chars: int = 0  # length of the text
    error: str = ""
    seconds: NonNegativeFloat = 0.0


class Repair(Shape):
    """A reply that could not be used and was sent back."""

    kind: Literal["repair"]
    step: NonNegativeInt
    problem: str = ""


class Seen(Shape):
    """A text that an agent without a language model read."""

    kind: Literal["seen"]
    step: NonNegativeInt
    text: str


Event = Annotated[Call | Action | Repair | Seen, Field(discriminator="kind")]


class Selection(Shape):
    """An answer; `id` is None for a title given from memory."""

    id: str | None
    title: str
    ids: list[str]


class Record(Shape):
    """One repeat of one sample: its status and all events."""

    type: Literal["sample"]
    sample: str
    repeat: NonNegativeInt
    status: Status
    detail: str
    selection: Selection | None
    started: str | None = None  # ISO 8601
    seconds: NonNegativeFloat
    events: list[Event]

    @classmethod
    def guessed(cls, sample: str, title: str, **more: Any) -> "Record":
        """Create a record from the title of an answer ("" for no answer), and further fields."""
        status = "guessed" if title else "no_selection"
        selection = Selection(id=None, title=title, ids=[]) if title else None
        fields: dict[str, Any] = {"repeat": 0, "status": status, "detail": ""}
        fields |= {"selection": selection, "seconds": 0.0, "events": [], **more}
        return cls(type="sample", sample=sample, **fields)

    @property
    def calls(self) -> list[Call]:
        """The requests to a language model, in order."""
        return [event for event in self.events if isinstance(event, Call)]

    @property
    def actions(self) -> list[Action]:
        """The agent's actions, in order."""
        return [event for event in self.events if isinstance(event, Action)]

    @property
    def answered(self) -> bool:
        """Whether the sample ended with an answer, right or wrong."""
        return self.selection is not None and self.status in get_args(_Answered)


class DataName(Shape):
    """The data of a run."""

    name: str
    sha256: str
    split: Literal["all", "train", "test"]


class AgentSettings(Shape):
    """The result of an agent's `describe`."""

    name: str
    model: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    commands: str | None = None
    demonstration: bool | Literal["optimised"] = False
    program: dict[str, Any] | None = None  # what `holdfast cite optimise` wrote
    format: str = "dspy"
    prompts: str = "ours"
    repairs: NonNegativeInt = 1
    their_split: str | None = None  # split of an imported run

    @property
    def model_or_name(self) -> str:
        """The language model, or the name of an agent without one."""
        return self.model or self.name

    @property
    def lm_options(self) -> dict[str, Any]:
        """Further parameters of the model's requests."""
        usual = {"api_base", "prompt", "dspy", "structured", "max_completion_tokens"}
        return {name: v for name, v in (self.model_extra or {}).items() if name not in usual}


class Header(Shape):
    """The first line of a result file: the settings of a run."""

    type: Literal["header"]
    format_version: Literal[1] = Field(alias="schema")
    n: NonNegativeInt
    dataset: DataName
    agent: AgentSettings
    provider: dict[str, Any]  # the result of a search provider's `describe`
    budget: dict[str, Any]  # the limits of one sample
    repeats: int = Field(ge=1)


_LINE: TypeAdapter[Header | Record] = TypeAdapter(
    Annotated[Header | Record, Field(discriminator="type")]
)


class ResultFile:
    """A result file open for appending by one process; each record is synced to disk.

    The file is created if missing, and an incomplete last line of an interrupted run is dropped. Of the
    settings, from `settings_of`, only n and repeats may change on resume.

    Raises:
        HoldfastError: on entering, if the file contains a run with other settings, cannot be written, or
            is being written by another process.
    """

    def __init__(self, path: str | Path, settings: dict[str, Any]) -> None:
        self.path = Path(path)
        self.header = {"type": "header", "schema": 1, **jsonable(settings)}
        self.records: dict[Key, Record] = {}

    def __enter__(self) -> "ResultFile":
        with contextlib.ExitStack() as stack:
            stack.enter_context(locked(self.path))
            self._resume()
            self._lock = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._lock.close()

    def _resume(self) -> None:
        """Drop an incomplete last line, and read the records of this run."""
        with written(self.path):
            self.path.touch()
        raw = self.path.read_bytes()
        if not raw.startswith(b'{"type":"header"'[: len(raw)]):
            raise HoldfastError(f"{self.path} is not a result file. Pass --out another name.")
        whole = raw.rfind(b"\n") + 1
        os.truncate(self.path, whole)
        if not whole:
            append_line(self.path, self.header)
        header, self.records = read(self.path)
        in_file = header.plain()
        changed = {key for key, value in self.header.items() if in_file.get(key) != value}
        if different := sorted(changed - {"n", "repeats"}):
            raise HoldfastError(
                f"{self.path} contains a run with a different {', '.join(different)}. Pass --out another "
                "file, or use the options of that run."
            )
        if changed:
            append_line(self.path, self.header)

    @property
    def finished(self) -> set[Key]:
        """The keys of finished samples: all except provider errors and crashes."""
        return {key for key, record in self.records.items() if record.status not in RETRIED}

    def append(self, record: Record) -> None:
        """Write a record and wait until it is on disk."""
        append_line(self.path, record.plain())
        self.records[record.sample, record.repeat] = record


def append_line(path: Path, content: dict[str, Any]) -> tuple[int, int]:
    """Append a line of JSON and wait until it is on disk; returns its offset and length in bytes."""
    line = json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n"
    raw = line.encode("utf-8", "replace")
    with written(path, _OTHERWISE), path.open("ab") as file:
        offset = file.tell()
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    return offset, len(raw)


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
    """The lines of a result file without an incomplete last one; raises `HoldfastError` if it is none."""
    with reading(path, "a result file", _WANTED):
        raw = path.read_bytes()
    for number, line in enumerate(raw[: raw.rfind(b"\n") + 1].splitlines(), start=1):
        with reading(f"{path}, line {number},", "part of a result file", _WANTED):
            parsed = _LINE.validate_json(line)
        yield parsed


def read(path: str | Path) -> tuple[Header, dict[Key, Record]]:
    """The last header and last record of every (sample, repeat) of a result file, or `HoldfastError`."""
    header, records = None, {}
    for line in lines(Path(path)):
        if isinstance(line, Header):
            header = line
        else:
            records[line.sample, line.repeat] = line
    if header is None:
        raise HoldfastError(f"{path} has no header. Pass {_WANTED}.")
    return header, records


def fingerprint(value: Any) -> str:
    """The sha256 of a JSON value's canonical form."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def clean(text: str, limit: int | None = None) -> str:
    """Text that can be stored and sent: at most `limit` characters, without lone surrogates."""
    return text[:limit].encode("utf-8", "replace").decode("utf-8")


def without_keys(text: str, limit: int) -> str:
    """Text that may be stored, at most `limit` characters, without API keys and mail addresses of ours."""
    for name, value in os.environ.items():
        if len(value) > 3 and name.endswith(("_KEY", "_TOKEN", "_MAIL", "_SECRET")):
            text = text.replace(value, "[removed]")
    # A server may repeat the header with a key.
    return clean(re.sub(r"bearer \S+", "Bearer [removed]", text, flags=re.IGNORECASE), limit)
