"""What files hold, entry by entry; files of others are checked against it as they are read.

Further keys are left alone. Numbers are finite and bounded, so that whatever passes can be judged.
"""

import functools
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import NotRequired, TypedDict

from .episode import STATUSES

MOST = 1_000_000  # samples, repeats, steps: what is counted up to
Count = Annotated[int, Field(ge=0, le=MOST)]
Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Tokens = Annotated[int, Field(ge=0, le=10**12)]
Usd = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
CHECKED = ConfigDict(strict=True, extra="allow")
Replies = Annotated[list[str], Field(min_length=1)]  # of a scripted model, in their order


@with_config(CHECKED)
class Message(TypedDict):
    """A message of a prompt, written out where it is sent first."""

    id: str | None
    role: str
    content: str


@with_config(CHECKED)
class Call(TypedDict):
    """A request to a language model; `prompt` are ids of messages."""

    kind: Literal["lm"]
    step: Count
    prompt: list[str | None]
    new_messages: list[Message]
    attempt: Count
    seconds: Seconds
    usage: dict[str, Tokens | None]
    usd: Usd | None
    reply: NotRequired[str]
    finish: NotRequired[str | None]
    error: NotRequired[str]


@with_config(CHECKED)
class Hit(TypedDict):
    """A paper that a search returned."""

    id: str | None
    title: str
    year: int | None
    date: str | None
    ids: list[str]


@with_config(CHECKED)
class Action(TypedDict):
    """An action of the agent and what came of it."""

    kind: Literal["action"]
    step: Count
    action: str
    query: NotRequired[str]
    paper: NotRequired[str]
    part: NotRequired[str]
    hits: NotRequired[list[Hit]]
    ok: NotRequired[bool]
    error: NotRequired[str]
    seconds: NotRequired[Seconds]


@with_config(CHECKED)
class Repair(TypedDict):
    """A reply sent back."""

    kind: Literal["repair"]
    step: Count


@with_config(CHECKED)
class Seen(TypedDict):
    """A text that an agent without a model was shown."""

    kind: Literal["seen"]
    step: Count
    text: str


@with_config(CHECKED)
class Selection(TypedDict):
    """The answer; `id` is None of a title from memory."""

    id: str | None
    title: str
    ids: list[str]


@with_config(CHECKED)
class Record(TypedDict):
    """A sample's record."""

    type: Literal["sample"]
    sample: str
    repeat: Count
    status: Literal[STATUSES]  # type: ignore[valid-type]
    detail: str
    selection: Selection | None
    seconds: Seconds
    events: list[Annotated[Call | Action | Repair | Seen, Field(discriminator="kind")]]
    started: NotRequired[str]


@with_config(CHECKED)
class Data(TypedDict):
    """The data set of a run."""

    name: str
    sha256: str
    split: Literal["all", "train", "test"]


@with_config(CHECKED)
class Agent(TypedDict):
    """The agent of a run, as far as it is read by name."""

    name: str
    model: NotRequired[str | None]
    api_base: NotRequired[str | None]
    temperature: NotRequired[Annotated[float, Field(allow_inf_nan=False)] | None]
    max_tokens: NotRequired[int | None]
    commands: NotRequired[str | None]
    demonstration: NotRequired[bool]
    format: NotRequired[str]
    prompts: NotRequired[str]
    structured: NotRequired[bool]
    repairs: NotRequired[Count]
    their_split: NotRequired[str | None]


@with_config(CHECKED)
class Provider(TypedDict):
    """The search of a run."""

    name: str
    sha256: NotRequired[str]
    field: NotRequired[str | None]


@with_config(CHECKED)
class Budget(TypedDict):
    """What a sample may use; None where an imported run does not say."""

    results: NotRequired[Count | None]
    max_actions: NotRequired[Count | None]
    read_chars: NotRequired[Count | str | None]


@with_config(CHECKED)
class Header(TypedDict):
    """What a run is; the last header of a file counts."""

    type: Literal["header"]
    schema: Literal[1]
    config: str
    dataset: Data
    n: Count
    agent: Agent
    provider: Provider
    budget: Budget
    repeats: Annotated[int, Field(ge=1, le=MOST)]
    version: NotRequired[str]


Entry = Annotated[Header | Record, Field(discriminator="type")]


@with_config(CHECKED)
class TagLine(TypedDict):
    """A line that `holdfast cite tags` writes."""

    title: str
    tags: list[str]


@with_config(CHECKED)
class Row(TypedDict):
    """An excerpt of a user's own; CiteME's code says `context`. `target` marks whom it cites."""

    excerpt: NotRequired[str | None]
    context: NotRequired[str | None]
    target: NotRequired[str | None]


@with_config(CHECKED)
class CorpusPaper(TypedDict):
    """A line of a corpus file."""

    id: str
    title: str
    abstract: NotRequired[str | None]
    year: NotRequired[Annotated[int, Field(ge=0, le=9999)] | None]
    date: NotRequired[Annotated[str, Field(pattern=r"^\d{4}")] | None]
    citations: NotRequired[Annotated[int, Field(ge=0, le=10**12)] | None]
    authors: NotRequired[list[str]]
    ids: NotRequired[list[str]]
    body: NotRequired[list[Annotated[list[str], Field(min_length=2, max_length=2)]]]
    references: NotRequired[list[str]]


@with_config(CHECKED)
class TheirPaper(TypedDict):
    """A paper in a result file of CiteME's code."""

    paperId: NotRequired[str | None]
    title: NotRequired[str | None]
    year: NotRequired[int | None]


@with_config(CHECKED)
class TheirSelection(TypedDict):
    """The answer in a result file of CiteME's code."""

    paperId: NotRequired[str | None]
    title: str


@with_config(CHECKED)
class TheirMessage(TypedDict):
    """A message of a conversation; anything may be its content."""

    role: str
    content: Any


@with_config(CHECKED)
class TheirResult(TypedDict):
    """A sample in a result file of CiteME's code."""

    id: str | int
    status: Any
    selected: NotRequired[TheirSelection | None]
    error: NotRequired[str | None]
    duration: NotRequired[Seconds | None]
    tokens: NotRequired[dict[str, Tokens] | None]
    papers: NotRequired[list[list[TheirPaper]] | None]
    history: NotRequired[list[TheirMessage] | None]


@with_config(CHECKED)
class TheirMetadata(TypedDict):
    """The settings in a result file of CiteME's code."""

    executor: NotRequired[str]
    model: NotRequired[str | None]
    temperature: NotRequired[Annotated[float, Field(allow_inf_nan=False)] | None]
    actions: NotRequired[str | None]
    prompt_name: NotRequired[str | None]
    dataset_split: NotRequired[str | None]
    search_provider: NotRequired[str | None]
    search_limit: NotRequired[Count | None]
    max_actions: NotRequired[Count | None]


@with_config(CHECKED)
class TheirFile(TypedDict):
    """A result file of CiteME's code."""

    metadata: TheirMetadata
    results: Annotated[list[TheirResult], Field(min_length=1)]


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def checked(entry: Any, kind: Any = Entry) -> Any:
    """The value, unchanged.

    Raises:
        ValueError: which says where it is not of that kind.
    """
    try:
        _adapter(kind).validate_python(entry)
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None
    return entry


def first_problem(error: ValidationError) -> str:
    """The first of a value's problems, and where it lies."""
    problem = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"
