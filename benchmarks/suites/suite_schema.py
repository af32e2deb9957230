"""The schema of suite files, and the error message for invalid ones."""

from functools import cache
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ... import HoldfastError
from ...imagenet import FAMILIES

KINDS: dict[str, Any] = {}  # by the name used in errors


def keys(name: str, must: dict[str, Any], may: dict[str, Any], extra: Any = "forbid") -> Any:
    """A mapping type with required and optional keys, each with the type of its value."""
    base = TypedDict(f"{name}_", must)  # type: ignore[operator, misc]
    made: Any = type(base)(name, (base,), {"__annotations__": may}, total=False)  # type: ignore[misc]
    made.__pydantic_config__ = ConfigDict(strict=True, extra=extra)
    return KINDS.setdefault(name, made)


Map = dict[Any, Any]
Some = Field(min_length=1)
Family = Annotated[str, Field(pattern=f"^({'|'.join(FAMILIES)})$")]
Each = dict[Any, Annotated[list[Any], Some] | Annotated[Map, Some] | Family]
VARIED = {"each": Each, "factors": Map}
ENTRY = {"class_path": Any, "init_args": Any}
Entry = keys("Entry", {}, ENTRY)
Class = keys("Class", {"class_path": Any}, {"init_args": Map})
Stream = keys("Stream", {}, ENTRY | VARIED | {"setting": str})
Override = keys("Override", {}, VARIED | {"methods": dict[Any, Map]}, extra="allow")
Include = str | Annotated[list[str], Some]
Scales = Annotated[dict[str, Map], Some]
Suite = keys(
    "Suite",
    {
        "out": str,
        "methods": dict[Any, Entry | str],  # type: ignore[valid-type]
        "streams": dict[Any, Stream | str],  # type: ignore[valid-type]
    },
    {
        "include": Include,
        "scales": Scales,
        "common": Map,
        "seeds": list[Any],
        "overrides": dict[Any, Override],  # type: ignore[valid-type]
    },
)
adapter = cache(TypeAdapter)


def check(kind: Any, content: Any, place: str) -> None:
    """Refuse content that does not match the schema.

    Raises:
        HoldfastError: states the location in the file, the value found and the values allowed.
    """
    try:
        adapter(kind).validate_python(content)
    except ValidationError as wrong:
        # A union type yields one error per member; prefer errors inside a member that matches in type.
        found = min(wrong.errors(), key=lambda error: error["type"].endswith("_type"))
        owner, node, path = kind, content, list[Any]()
        for key in found["loc"]:
            owner = KINDS.get(str(key), owner)
            inside = isinstance(node, dict) and key in node
            if inside or (isinstance(node, list) and isinstance(key, int)):
                node = node[key]
                path.append(key)
        if found["type"] in ("extra_forbidden", "missing"):
            extra = found["type"] == "extra_forbidden"
            problem = f"has {path.pop()}" if extra else f"lacks {found['loc'][-1]}"
            must, may = (sorted(k) for k in (owner.__required_keys__, owner.__optional_keys__))
            rules = [
                f"{word} have {', '.join(k)}" for word, k in (("must", must), ("may", may)) if k
            ]
            problem += f": it {' and '.join(rules)}"
        else:
            problem = found["msg"].removeprefix("Input ").replace("valid dictionary", "mapping")
            problem += f", not {node!s:.60}"
        where = ": ".join(filter(None, (place, "/".join(map(str, path)))))
        raise HoldfastError(f"{where} {problem}.") from None
