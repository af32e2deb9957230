"""The kinds of values in a run's JSON files; readers rely on these, and take any further entries."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from ... import HoldfastError
from ...files import read_json, unreadable
from ...run_folder import CELL, PROVENANCE, ROWS, SUMMARY, last_images, read_rows

_Map = dict[str, Any]
_Number = float | bool | None


class _Entry(BaseModel, extra="allow", strict=True):
    """A mapping with at least these entries of these kinds."""


class _Names(_Entry):
    method: str = ""
    override: str | None = None
    stream: str = ""
    setting: str = ""
    seed: int | None = None


class _Cell(_Entry):
    names: _Names = _Names()
    factors: _Map = {}
    config: _Map = {}
    command: str | None = None


class _Reset(_Entry):
    kind: Annotated[str | None, Field(alias="class")] = None


class _Wrapper(_Entry):
    wrapper: str
    order: str | None = None
    classes_in_a_batch: Annotated[list[float], Field(min_length=2, max_length=2)] | None = None
    visits: int | None = None
    delta: float | None = None
    ratio: float = 1


class _Environment(_Entry):
    step: int


class _Provenance(_Entry):
    method: str
    started: str
    stream: str = ""
    stream_id: str = ""
    setting: list[str] | None = None
    setting_id: str | None = None
    seed: int | None = None
    images: int | None = None
    weights: str | None = None
    order: str = ""
    arguments: _Map | None = None
    resets: list[_Reset] | None = None
    wrappers: list[_Wrapper] | None = None
    parts: list[Annotated[tuple[Any, str, int], Field(strict=False)]] | None = None
    estimators: _Map | None = None
    ran_on: list[_Environment] = []


class _Summary(_Entry):
    __pydantic_extra__: dict[str, _Number]
    images: int


class _Row(_Entry):
    __pydantic_extra__: dict[str, _Number]
    images: Annotated[int, Field(ge=1)]
    seconds: float
    corruptions: list[Annotated[list[str | float], Field(min_length=2, max_length=2)]] | None = None


_ROWS = TypeAdapter(list[_Row])


def fault(folder: Path) -> str | None:
    """Why the files of a run cannot be read; None if they can."""
    try:
        cell, summary, facts = (read_json(folder / name) for name in (CELL, SUMMARY, PROVENANCE))
        for name, kind, content in (
            (CELL, _Cell, cell),
            (SUMMARY, _Summary, summary),
            (PROVENANCE, _Provenance, facts),
        ):
            if content:
                _check(folder / name, TypeAdapter(kind), content)
        if (folder / ROWS).exists():
            if not facts:
                raise unreadable(folder / PROVENANCE, "it is missing")
            _check(folder / ROWS, _ROWS, read_rows(folder))
        # As in a copy of a running folder to which the summary was added later.
        if (end := summary.get("images")) and end != last_images(folder):
            raise unreadable(folder / ROWS, f"it ends before image {end:,}, the last of the run")
    except HoldfastError as error:
        return str(error)
    return None


def _check(path: Path, kind: TypeAdapter[Any], content: Any) -> None:
    try:
        kind.validate_python(content)
    except ValidationError as wrong:
        error = wrong.errors()[0]
        where = "/".join(map(str, error["loc"]))
        raise unreadable(path, f"{where}: {error['msg'].removeprefix('Input ')}") from None
