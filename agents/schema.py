"""What files hold, entry by entry; files of others are checked against it as they are read.

Further keys are left alone. Numbers are finite and bounded, so that whatever passes can be judged.
"""

import functools
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import NotRequired, TypedDict

from .episode import STATUSES

MOST = 1_000_000  # samples, repeats, steps: what is counted up to
Count = Annotated[int, Field(ge=0, le=MOST)]
Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Large = Annotated[int, Field(ge=0, le=10**12)]
Replies = Annotated[list[str], Field(min_length=1)]  # of a scripted model, in their order
Text = str | None


def shape(needed: Mapping[str, Any], further: Mapping[str, Any] | None = None) -> Any:
    """A mapping with these keys, those of `further` only where they are known."""
    fields = {**needed, **{name: NotRequired[kind] for name, kind in (further or {}).items()}}
    make: Any = TypedDict
    return with_config(ConfigDict(strict=True, extra="allow"))(make("Shape", fields))


def many(kind: Any, least: int = 0) -> Any:
    """A list of that kind."""
    return Annotated[list[kind], Field(min_length=least)]


def one_of(key: str, *kinds: Any) -> Any:
    """The kind that the value of `key` names."""
    return Annotated[Union[kinds], Field(discriminator=key)]  # type: ignore[valid-type]  # noqa: UP007


# A sample's events. A message of a prompt is written out where it is sent first, and named after.
Message = shape({"id": Text, "role": str, "content": str})
Call = shape(
    {"kind": Literal["lm"], "step": Count, "prompt": list[Text], "new_messages": many(Message)}
    | {"attempt": Count, "seconds": Seconds, "usage": dict[str, Large | None]}
    | {"usd": Seconds | None},
    {"reply": str, "finish": Text, "error": str},
)
Hit = shape({"id": Text, "title": str, "year": int | None, "date": Text, "ids": list[str]})
Action = shape(
    {"kind": Literal["action"], "step": Count, "action": str},
    {"query": str, "paper": str, "part": str, "hits": many(Hit), "ok": bool, "error": str}
    | {"seconds": Seconds},
)
Repair = shape({"kind": Literal["repair"], "step": Count})  # a reply sent back
Seen = shape({"kind": Literal["seen"], "step": Count, "text": str})  # by an agent without a model

# The lines of a result file; the `id` of a selection is None if its title is from memory.
Selection = shape({"id": Text, "title": str, "ids": list[str]})
Record = shape(
    {"type": Literal["sample"], "sample": str, "repeat": Count, "status": Literal[STATUSES]}
    | {"detail": str, "selection": Selection | None, "seconds": Seconds}
    | {"events": many(one_of("kind", Call, Action, Repair, Seen))},
    {"started": str},
)
Header = shape(
    {"type": Literal["header"], "schema": Literal[1], "config": str, "n": Count}
    | {
        "dataset": shape({"name": str, "sha256": str, "split": Literal["all", "train", "test"]}),
        "agent": shape(
            {"name": str},
            {"model": Text, "api_base": Text, "temperature": Finite | None}
            | {"max_tokens": int | None, "commands": Text, "demonstration": bool, "format": str}
            | {"prompts": str, "structured": bool, "repairs": Count, "their_split": Text},
        ),
        "provider": shape({"name": str}, {"sha256": str, "field": Text}),
        "budget": shape(
            {},
            {"results": Count | None, "max_actions": Count | None}
            | {"read_chars": Count | str | None},
        ),
        "repeats": Annotated[int, Field(ge=1, le=MOST)],
    },
    {"version": str},
)
Entry = one_of("type", Header, Record)

# A line that `holdfast cite tags` writes; an excerpt of a user's own (CiteME's code says `context`,
# and `target` marks what it cites); a line of a corpus.
TagLine = shape({"title": str, "tags": list[str]})
Row = shape({}, {"excerpt": Text, "context": Text, "target": Text})
CorpusPaper = shape(
    {"id": str, "title": str},
    {"abstract": Text, "year": Annotated[int, Field(ge=0, le=9999)] | None}
    | {"date": Annotated[str, Field(pattern=r"^\d{4}")] | None, "citations": Large | None}
    | {"authors": list[str], "ids": list[str], "references": list[str]}
    | {"body": list[Annotated[list[str], Field(min_length=2, max_length=2)]]},
)

# A result file of CiteME's code.
TheirPaper = shape({}, {"paperId": Text, "title": Text, "year": int | None})
TheirFile = shape(
    {
        "metadata": shape(
            {},
            {"executor": str, "model": Text, "temperature": Finite | None, "actions": Text}
            | {"prompt_name": Text, "dataset_split": Text, "search_provider": Text}
            | {"search_limit": Count | None, "max_actions": Count | None},
        ),
        "results": many(
            shape(
                {"id": str | int, "status": Any},
                {"selected": shape({"title": str}, {"paperId": Text}) | None, "error": Text}
                | {"duration": Seconds | None, "tokens": dict[str, Large] | None}
                | {"papers": many(many(TheirPaper)) | None}
                | {"history": many(shape({"role": str, "content": Any})) | None},
            ),
            least=1,
        ),
    }
)


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def checked(entry: Any, kind: Any = Entry) -> Any:
    """The value, unchanged; raises `ValueError` that says where it is not of that kind."""
    try:
        _adapter(kind).validate_python(entry)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise ValueError(f"{where}: {problem['msg']}") from None
    return entry
