"""A search provider whose answers are recorded in a world, or replayed from one."""

import json
from collections.abc import Callable
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

    Args:
        provider: the provider to ask; None to replay the world.
        world: the world, in which a run has begun.
    """

    def __init__(self, provider: SearchProvider | None, world: World) -> None:
        self.provider, self.world = provider, world

    def search(self, query: str, sort: Sort, scope: Scope, limit: int) -> list[Paper]:
        """The provider's `search`."""
        asked = {"query": query, "sort": sort, "limit": limit}
        hits = self._answer(
            "search",
            scope,
            asked,
            lambda p: [_plain(h) for h in p.search(query, sort, scope, limit)],
        )
        return [_shape(Paper, hit) for hit in hits]

    def snippets(self, query: str, scope: Scope, limit: int) -> list[Snippet]:
        """The provider's `snippets`."""
        asked = {"query": query, "limit": limit}
        hits = self._answer(
            "snippets", scope, asked, lambda p: [_plain(h) for h in p.snippets(query, scope, limit)]
        )
        return [_shape(Snippet, hit) for hit in hits]

    def read(self, paper: Paper) -> list[Section]:
        """The provider's `read`."""
        sections = self._answer(
            "read",
            None,
            {"paper": paper.id},
            lambda p: [[s.heading, s.text] for s in p.read(paper)],
        )
        return [Section(heading, text) for heading, text in sections]

    def describe(self) -> dict[str, Any]:
        if self.provider:
            return self.provider.describe()
        return self.world.settings.get("provider", {})  # once the run has begun

    def _answer(
        self,
        kind: str,
        scope: Scope | None,
        asked: dict[str, Any],
        ask: Callable[[SearchProvider], Any],
    ) -> Any:
        """The result of a request; raises `ReadError` and `ProviderError` as the provider does."""

        def send() -> Answer:
            assert self.provider is not None
            try:
                return OK, ask(self.provider)
            except ReadError as error:
                return UNAVAILABLE, str(error)
            except ProviderError as error:
                return FAILED, str(error)

        request = {"kind": kind, "provider": fingerprint(self.describe())[:12], **asked}
        if scope:
            request |= {"source": scope.source_title, "until": scope.until}
        status, result = self.world.answer(request, send)
        if status == UNAVAILABLE:
            raise ReadError(result)
        if status == FAILED:
            raise ProviderError(result)
        return result


def _plain(hit: Paper | Snippet) -> dict[str, Any]:
    """A hit as JSON, without what subclasses add to it, such as texts."""
    kind = Snippet if isinstance(hit, Snippet) else Paper
    fields = set(kind.model_fields)
    content = hit.model_dump(mode="json", include=fields, exclude_unset=True)
    if isinstance(hit, Paper):
        content["ids"] = sorted(hit.ids)
    else:
        content["paper"] = _plain(hit.paper)
    return content


def _shape(kind: type[_Shape], content: dict[str, Any]) -> _Shape:
    # In JSON a tuple or set is a list, which pydantic accepts from JSON only.
    return kind.model_validate_json(json.dumps(content))
