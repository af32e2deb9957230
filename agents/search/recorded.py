"""A search provider whose answers are recorded in a world, or replayed from one."""

import json
from typing import Any, TypeVar

from ..records import fingerprint
from ..world import FAILED, OK, UNAVAILABLE, Answer, World
from .provider import (
    Paper,
    ProviderError,
    ReadError,
    Scope,
    SearchProvider,
    Section,
    Snippet,
    Sort,
)

_Shape = TypeVar("_Shape", Paper, Snippet)


class RecordedSearch:
    """A search provider by way of a world; requests that the world contains are not sent again.

    `provider` is None to replay the world, in which a run has begun.
    """

    def __init__(self, provider: SearchProvider | None, world: World) -> None:
        self.provider, self.world = provider, world

    def search(self, query: str, sort: Sort, scope: Scope, limit: int) -> list[Paper]:
        asked = {"query": query, "sort": sort, "limit": limit, **scope.as_json()}
        hits = self._answer("search", asked, query, sort, scope, limit)
        return [_shape(Paper, hit) for hit in hits]

    def snippets(self, query: str, scope: Scope, limit: int) -> list[Snippet]:
        asked = {"query": query, "limit": limit, **scope.as_json()}
        hits = self._answer("snippets", asked, query, scope, limit)
        return [_shape(Snippet, hit) for hit in hits]

    def read(self, paper: Paper) -> list[Section]:
        sections = self._answer("read", {"paper": paper.id}, paper)
        return [Section(heading, text) for heading, text in sections]

    def describe(self) -> dict[str, Any]:
        if self.provider:
            return self.provider.describe()
        return self.world.settings.get("provider", {})  # once the run has begun

    def _answer(self, kind: str, asked: dict[str, Any], *arguments: Any) -> Any:
        """What the provider's method `kind` returns, as JSON; raises as the method does."""

        def send() -> Answer:
            try:
                results = getattr(self.provider, kind)(*arguments)
            except ReadError as error:
                return UNAVAILABLE, str(error)
            except ProviderError as error:
                return FAILED, str(error)
            return OK, [_plain(result) for result in results]

        request = {"kind": kind, "provider": fingerprint(self.describe())[:12], **asked}
        status, result = self.world.answer(request, send)
        if status == UNAVAILABLE:
            raise ReadError(result)
        if status == FAILED:
            raise ProviderError(result)
        return result


def _plain(result: Paper | Snippet | Section) -> Any:
    """A result as JSON, without what subclasses add to it, such as texts."""
    if isinstance(result, Section):
        return [result.heading, result.text]
    kind = Snippet if isinstance(result, Snippet) else Paper
    content = result.model_dump(mode="json", include=set(kind.model_fields), exclude_unset=True)
    if isinstance(result, Paper):
        content["ids"] = sorted(result.ids)
    else:
        content["paper"] = _plain(result.paper)
    return content


def _shape(kind: type[_Shape], content: dict[str, Any]) -> _Shape:
    # In JSON a tuple or set is a list, which pydantic accepts from JSON only.
    return kind.model_validate_json(json.dumps(content))
