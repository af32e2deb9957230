"""Papers, their texts, and the protocol of search providers."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pydantic import Field

from ..matching import strict_match
from ..records import Shape

Sort = Literal["relevance", "citations"]


class ProviderError(Exception):
    """A service did not answer (outage, limit, refusal); differs from "no papers found"."""


class ReadError(Exception):
    """A text, or a kind of search, that a provider does not have; the message is shown to the agent."""


class Paper(Shape):
    """A search hit; `date` is ISO if known, and `ids` are like `arxiv:...` and `doi:...`.

    `pdf` is the URL of its text: None if none is listed, "" if the service lists an empty one.
    """

    id: str
    title: str
    abstract: str | None = None
    year: int | None = None
    date: str | None = Field(default=None, pattern=r"^\d{4}")
    citations: int | None = None
    authors: tuple[str, ...] = ()
    ids: frozenset[str] = frozenset()
    pdf: str | None = None


class Snippet(Shape):
    """A passage of a paper that matches a query, with the heading that it is under, if known."""

    paper: Paper
    text: str
    heading: str = ""


@dataclass(frozen=True)
class Section:
    """A heading and its text; a PDF's pages are sections called "page 1", "page 2", ..."""

    heading: str
    text: str


@dataclass(frozen=True)
class Scope:
    """The papers that the agent may see: all except the source and newer papers (`until`)."""

    source_title: str = ""
    until: str | None = None

    @property
    def year(self) -> int | None:
        return int(self.until[:4]) if self.until else None

    def as_json(self) -> dict[str, str | None]:
        """The limits as result files and worlds record them."""
        return {"source": self.source_title, "until": self.until}

    def admits(self, paper: Paper) -> bool:
        """Whether `paper` may be shown; full dates are compared if both are known, otherwise years."""
        if self.source_title and strict_match(paper.title, [self.source_title]):
            return False
        if not self.until:
            return True
        if paper.date and len(self.until) == 10:
            return paper.date <= self.until
        year = int(paper.date[:4]) if paper.date else paper.year
        return year is None or year <= int(self.until[:4])


class SearchProvider(Protocol):
    """A search engine over papers that can also give passages and texts; must be thread-safe."""

    def search(self, query: str, sort: Sort, scope: Scope, limit: int) -> list[Paper]:
        """At most `limit` papers within `scope`; raises `ProviderError`, or `ReadError` for an order."""

    def snippets(self, query: str, scope: Scope, limit: int) -> list[Snippet]:
        """At most `limit` passages of papers within `scope`; raises `ReadError` or `ProviderError`."""

    def read(self, paper: Paper) -> list[Section]:
        """The paper's text; raises `ReadError` if there is none, or `ProviderError`."""

    def describe(self) -> dict[str, Any]:
        """The facts that identify the provider and its corpus in a result file."""
