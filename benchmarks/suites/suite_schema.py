"""The schema of suite files, and the error message for invalid files."""

from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import BaseModel, Field, RootModel, ValidationError

from ... import HoldfastError
from ...imagenet import FAMILIES

Map = dict[Any, Any]
Family = Annotated[str, Field(pattern=f"^({'|'.join(FAMILIES)})$")]
Levels = Annotated[list[Any], Field(min_length=1)] | Annotated[Map, Field(min_length=1)] | Family


class Varied(BaseModel, extra="forbid"):
    """What streams and overrides share: the factors that they vary, or state."""

    each: dict[Any, Levels] = {}
    factors: Map = {}


class Method(BaseModel, extra="forbid"):
    """A method: a class and its arguments."""

    class_path: str = ""
    init_args: Map = {}


class Part(BaseModel, extra="allow"):
    """Some arguments of a method, a stream or the like, which others complete."""

    init_args: Map = {}


class Options(BaseModel, extra="allow"):
    """Options of `holdfast test`."""

    model: Part = Part()
    data: Part = Part()
    trainer: Map = {}


class Stream(Method, Varied):
    """A stream: a class and its arguments."""

    setting: str = ""


class Override(Varied, Options, extra="allow"):
    """A variant of the runs, or of those of some methods."""

    methods: dict[Any, Part] = {}


class Tune(BaseModel, extra="forbid"):
    """The stream, the learning rates and the seeds of the trials of `holdfast tune`."""

    stream: Map = {}
    rates: list[float] = []
    seeds: list[int] = []


class Suite(BaseModel, extra="forbid", strict=True):
    """A suite at one scale."""

    out: str
    methods: dict[Any, str | Method]
    streams: dict[Any, str | Stream]
    common: Options = Options()
    seeds: list[Any] = []
    overrides: dict[Any, Override] = {}
    tuned: str = ""
    tune: Tune = Tune()


class Tuned(RootModel[dict[str, dict[str, Map]]]):
    """Arguments by network and method."""


class File(BaseModel, extra="allow", strict=True):
    """What a file says of other files and of its scales."""

    include: str | list[str] = []
    scales: Annotated[dict[str, Map], Field(min_length=1)] | None = None


def validate(model: type[BaseModel], content: Any, source: str) -> None:
    """Refuse content that does not match the model.

    Raises:
        HoldfastError: states the location, the value found and what is wrong with it.
    """
    try:
        model.model_validate(content)
    except ValidationError as wrong:
        # A union yields errors for each of its members; the deepest is about the one that is meant.
        key = lambda error: (len(error["loc"]), not error["type"].endswith("_type"))  # noqa: E731
        error = max(wrong.errors(), key=key)
        path: list[str] = []
        node: Any = content
        for part in error["loc"]:  # where pydantic names members of unions, too
            positions = range(len(node)) if isinstance(node, list) else ()
            if part in (node if isinstance(node, dict) else positions):
                path, node = [*path, str(part)], node[part]
        text = error["msg"].removeprefix("Input ").replace("valid dictionary", "mapping")
        if error["type"] == "extra_forbidden":
            text = "is no key here"
            near = get_close_matches(str(error["loc"][-1]), model.model_fields, 1)
            text += f"; did you mean {near[0]}?" if near else ""
        elif error["type"] == "missing":
            text = f"lacks {error['loc'][-1]}"
        else:
            text += f", not {node!s:.60}"
        where = "/".join(path)
        end = "" if text.endswith("?") else "."
        raise HoldfastError(f"{source}: {where and where + ' '}{text}{end}") from None
