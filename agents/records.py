"""The lines of a result file: the header of a run, and a record per sample with its events.

Lines are validated on reading, and further keys are preserved. Numbers are finite and bounded, so that
every valid record can be scored. Times are in seconds, prices in US dollars.
"""

import functools
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

# The status of a finished sample. The last three are independent of the agent and are rerun on resume.
RETRIED = ("run_limit", "provider_error", "crash")
STATUSES = (
    *("selected", "guessed", "no_selection", "bad_format", "unknown_id", "action_limit"),
    *("context", "policy", "sample_limit", *RETRIED),
)

Key = tuple[str, int]  # sample id, repeat
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Large = Annotated[int, Field(ge=0, le=10**12)]
Text = str | None


class Shape(BaseModel):
    """A mapping in a file; further keys are allowed."""

    model_config = ConfigDict(strict=True, extra="allow", protected_namespaces=())

    def plain(self) -> dict[str, Any]:
        """The keys that were set, as JSON values."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class Message(Shape):
    """A message of a prompt; a result file contains its content when first sent, then only its id."""

    id: Text
    role: str
    content: str


class Call(Shape):
    """A request to a language model: `reply` if it was answered, otherwise `error`."""

    kind: Literal["lm"]
    step: Count
    prompt: list[Text]  # ids of messages
    new_messages: list[Message]
    attempt: Count
    seconds: Seconds
    usage: dict[str, Large | None]  # the provider's counts, such as `input_tokens`
    usd: Seconds | None
    reply: str | None = None
    finish: Text = None
    error: str = ""


class Hit(Shape):
    """A paper that a search returned; `ids` as in `Paper`."""

    id: Text
    title: str
    year: int | None = None
    date: Text = None
    ids: list[str] = []


class Action(Shape):
    """A use of one of the agent's actions; `hits` is None for all but searches."""

    kind: Literal["action"]
    step: Count
    action: str
    query: str = ""
    scope: dict[str, Any] = {}
    paper: str = ""
    part: str = ""
    hits: list[Hit] | None = None
    ok: bool = False  # whether a text could be read
    chars: int = 0  # length of the text
    error: str = ""
    seconds: Seconds = 0.0


class Repair(Shape):
    """A reply that could not be used and was sent back."""

    kind: Literal["repair"]
    step: Count


class Seen(Shape):
    """A text that an agent without a language model read."""

    kind: Literal["seen"]
    step: Count
    text: str


Event = Annotated[Call | Action | Repair | Seen, Field(discriminator="kind")]


class Selection(Shape):
    """An answer; `id` is None for a title given from memory."""

    id: Text
    title: str
    ids: list[str]


class Record(Shape):
    """One repeat of one sample: its status and all events."""

    type: Literal["sample"]
    sample: str
    repeat: Count
    status: Literal[STATUSES]  # type: ignore[valid-type]
    detail: str
    selection: Selection | None
    started: str | None = None  # ISO 8601
    seconds: Seconds
    events: list[Event]

    @classmethod
    def guessed(cls, sample: str, title: str, **values: Any) -> "Record":
        """Create a record from the title of an answer alone ("" for no answer)."""
        known: dict[str, Any] = {
            "repeat": 0,
            "status": "guessed" if title else "no_selection",
            "detail": "",
            "selection": Selection(id=None, title=title, ids=[]) if title else None,
            "seconds": 0.0,
            "events": [],
        }
        return cls(type="sample", sample=sample, **known | values)

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
        return self.selection is not None and self.status in ("selected", "guessed")


class DataName(Shape):
    """The data of a run."""

    name: str
    sha256: str
    split: Literal["all", "train", "test"]


class AgentSettings(Shape):
    """The result of an agent's `describe`."""

    name: str
    model: Text = None
    api_base: Text = None
    temperature: Finite | None = None
    max_tokens: int | None = None
    commands: Text = None
    demonstration: bool = False
    format: str = "dspy"
    prompts: str = "ours"
    structured: bool = False
    repairs: Count = 1
    their_split: Text = None  # split of an imported run

    @property
    def model_or_name(self) -> str:
        """The language model, or the name of an agent without one."""
        return self.model or self.name


class Header(Shape):
    """The first line of a result file: the settings of a run."""

    type: Literal["header"]
    format_version: Literal[1] = Field(alias="schema")
    config: str  # the sha256 of the settings that may not change on resume
    n: Count
    dataset: DataName
    agent: AgentSettings
    provider: dict[str, Any]  # the result of a search provider's `describe`
    budget: dict[str, Any]  # the limits of one sample
    repeats: Annotated[int, Field(ge=1, le=1_000_000)]
    version: str = ""  # version of Holdfast


Line = Annotated[Header | Record, Field(discriminator="type")]


def checked(content: Any, kind: Any) -> Any:
    """Convert JSON (bytes), or a value of it, to an instance of `kind`.

    Raises:
        ValueError: if it does not match; the message states the location.
    """
    adapter = _adapter(kind)
    try:
        if isinstance(content, bytes):
            return adapter.validate_json(content)
        return adapter.validate_python(content)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise ValueError(f"{where}: {problem['msg']}".removeprefix(": ")) from None


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def clean(text: str, limit: int | None = None) -> str:
    """Text that can be stored and sent: at most `limit` characters, without lone surrogates."""
    return text[:limit].encode("utf-8", "replace").decode("utf-8")
