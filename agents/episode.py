"""One sample being worked on: the actions an agent has, their rules, the record of their use."""

import contextlib
import time
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

from .allowance import Allowance
from .data import Sample
from .matching import strict_match
from .passages import excerpt, passages, surroundings
from .protocol import Paper, ReadError, Scope, SearchProvider, Section, Snippet, Sort

RESULTS = 10  # hits per search, CiteME section 3
MAX_ACTIONS = 15  # CiteME, section 3
READ_BUDGET = 12_000  # characters of a paper shown per read
NO_LIMITS: Mapping[str, Allowance] = {}

# How a sample ends. The last three say nothing about the agent and are run again on resume.
STATUSES = (
    "selected",
    "guessed",
    "no_selection",
    "bad_format",
    "unknown_id",
    "action_limit",
    "context",
    "policy",
    "sample_limit",
    "run_limit",
    "provider_error",
    "crash",
)
RETRIED = ("run_limit", "provider_error", "crash")


class UnknownId(Exception):
    """The agent named a paper that no search of this sample returned."""


class Stop(Exception):
    """The agent ends the sample without an answer; `status` is one of `STATUSES`."""

    def __init__(self, status: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class Episode:
    """The actions search, read, select and guess on one sample; every use becomes an event."""

    def __init__(
        self,
        sample: Sample,
        provider: SearchProvider,
        *,
        results: int = RESULTS,
        max_actions: int = MAX_ACTIONS,
        read_budget: int | None = READ_BUDGET,
        allowances: Mapping[str, Allowance] = NO_LIMITS,
    ) -> None:
        self.sample = sample
        self.provider = provider
        self.results = results
        self.max_actions = max_actions
        self.read_budget = read_budget
        self.allowances = allowances  # by the status that a sample ends with where one is used up
        self.scope = Scope(sample.source_title, sample.date)
        self.events: list[dict[str, Any]] = []
        self.noted_messages: set[str] = set()  # of prompts, already written out in an event
        self.seen: dict[str, Paper] = {}
        self.steps = 0
        self.selection: dict[str, Any] | None = None

    def search(self, query: str, sort: Sort = "relevance") -> list[Paper]:
        """Up to `results` papers, the source and later papers left out."""
        event = self._act(f"search_{'relevance' if sort == 'relevance' else 'citation_count'}")
        with self._searching(event, query):
            hits = self.provider.search(query, sort, self.scope, self.results)
        self._found(event, hits)
        return hits

    def snippets(self, query: str) -> list[Snippet]:
        """Up to `results` passages of papers, none of the source or of later papers."""
        event = self._act("search_text_snippet")
        with self._searching(event, query):
            found = self.provider.snippets(query, self.scope, self.results)
        self._found(event, list({s.paper.id: s.paper for s in found}.values()))
        return found

    @contextlib.contextmanager
    def _searching(self, event: dict[str, Any], query: str) -> Iterator[None]:
        event["query"] = query
        event["scope"] = {"source": self.scope.source_title, "until": self.scope.until}
        start = time.monotonic()
        try:
            yield
        except Exception as error:
            event["error"] = f"{type(error).__name__}: {error}"
            raise
        finally:
            event["seconds"] = round(time.monotonic() - start, 4)

    def _found(self, event: dict[str, Any], hits: list[Paper]) -> None:
        event["hits"] = [
            {"id": p.id, "title": p.title, "year": p.year, "date": p.date, "ids": sorted(p.ids)}
            for p in hits
        ]
        self.seen.update((p.id, p) for p in hits)

    def read(self, paper_id: str, part: str = "", among: Container[str] | None = None) -> str:
        """The paper's text within the read budget (None: all), and what was cut.

        `part` picks sections by a range of section or page numbers ("3-5") or a heading. `among` are
        the ids that may be read, all that a search returned unless given. Raises `UnknownId`.
        """
        event = self._act("read")
        event |= {"paper": paper_id, "part": part, "ok": False, "chars": 0}
        paper = self._known(paper_id, event, among)
        return self._from_text(
            event, lambda: excerpt(self.provider.read(paper), part, self.read_budget)
        )

    def find(self, paper_id: str, words: str) -> str:
        """Passages of a paper that hold the words; raises `UnknownId`."""
        event = self._act("find_in_text")
        event |= {"paper": paper_id, "part": words, "ok": False, "chars": 0}
        paper = self._known(paper_id, event)

        def found() -> str:
            text = "\n".join(s.text for s in self.provider.read(paper))
            return "\n...\n".join(passages(text, words)) or "The words are not in its text."

        return self._from_text(event, found)

    def context(self) -> str:
        """The text around the excerpt in the paper it is from, its citation left out."""
        event = self._act("ask_for_more_context")
        event |= {"ok": False, "chars": 0}

        def around() -> str:
            title = self.sample.source_title
            for paper in self.provider.search(title, "relevance", Scope(), self.results):
                if title and strict_match(paper.title, [title]):
                    sections = [Section("abstract", paper.abstract or "")]
                    with contextlib.suppress(ReadError):
                        sections += self.provider.read(paper)
                    if text := surroundings(sections, self.sample.excerpt, self.sample.titles):
                        return text
            raise ReadError("the paper that the excerpt is from, or its text, is not to be had.")

        return self._from_text(event, around)

    def _from_text(self, event: dict[str, Any], take: Callable[[], str]) -> str:
        """What `take` reads, or why it cannot be read; noted in the event."""
        start = time.monotonic()
        try:
            text = take()
            event |= {"ok": True, "chars": len(text)}
        except ReadError as error:
            event["error"] = str(error)
            text = f"This paper cannot be read: {error}"
        except Exception as error:
            event["error"] = f"{type(error).__name__}: {error}"
            raise
        finally:
            event["seconds"] = round(time.monotonic() - start, 4)
        return text

    def select(self, paper_id: str) -> None:
        """Answer with a paper that a search returned; raises `UnknownId` for any other."""
        event = self._act("select")
        event["paper"] = paper_id
        paper = self._known(paper_id, event)
        self.selection = {"id": paper.id, "title": paper.title, "ids": sorted(paper.ids)}

    def guess(self, title: str) -> None:
        """Answer with a title from memory (the setting without commands)."""
        self._act("guess")
        self.selection = {"id": None, "title": title, "ids": []}

    def note(self, kind: str, **values: Any) -> None:
        """Append an event that is not an action; a language model's call is paid for."""
        event = {"kind": kind, "step": self.steps + 1, **values}
        self.events.append(event)
        if kind == "lm":
            for allowance in self.allowances.values():
                allowance.spend(event)

    def check_allowances(self) -> None:
        """Raise `Stop` where the sample or the run may cost no more."""
        for status, allowance in self.allowances.items():
            if why := allowance.used_up():
                raise Stop(status, f"{why} spent")

    @property
    def actions_left(self) -> int:
        return self.max_actions - self.steps

    def _act(self, action: str) -> dict[str, Any]:
        if self.actions_left <= 0:
            raise Stop("action_limit", f"no answer within {self.max_actions} actions")
        self.check_allowances()
        self.steps += 1
        event: dict[str, Any] = {"kind": "action", "step": self.steps, "action": action}
        self.events.append(event)
        return event

    def _known(
        self, paper_id: str, event: dict[str, Any], among: Container[str] | None = None
    ) -> Paper:
        if paper_id not in (self.seen if among is None else among):
            event["error"] = "unknown id"
            which = "No" if among is None else "Not the last"
            raise UnknownId(f"{which} search returned a paper with the id {paper_id!r}.")
        return self.seen[paper_id]
