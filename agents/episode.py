"""One sample in progress: the actions available to an agent, their rules, and their events."""

import contextlib
import re
import time
from collections.abc import Container, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any, Protocol

from .data import Sample
from .limits import Allowance
from .records import Action, Call, Event, Hit, Record, Selection, Status
from .search.provider import Paper, ReadError, Scope, SearchProvider, Section, Snippet, Sort

RESULTS = 10  # CiteME, section 3
MAX_ACTIONS = 15  # CiteME, section 3
READ_CHARS = 12_000


class UnknownId(Exception):
    """The agent specified a paper that no search of this sample returned."""


class Stop(Exception):
    """The agent ends the sample without an answer."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@dataclass(frozen=True)
class Budget:
    """The limits of a sample.

    `date_cap` is the date after which papers are left out: the "excerpt"'s, "none", or a year or date that
    also applies if it is earlier.
    """

    results: int = RESULTS  # hits per search
    max_actions: int = MAX_ACTIONS
    read_chars: int | None = READ_CHARS  # of a paper per read; None for all of it
    date_cap: str = "excerpt"

    def until(self, date: str | None) -> str | None:
        """The last year or date of papers for an excerpt from `date`."""
        if self.date_cap == "none":
            return None
        dates = [date, None if self.date_cap == "excerpt" else self.date_cap]
        return min(filter(None, dates), key=lambda d: f"{d}-12-31"[:10], default=None)

    def describe(self) -> dict[str, Any]:
        """The limits as in the header of a result file."""
        facts: dict[str, Any] = asdict(self)
        if self.date_cap == "excerpt":
            del facts["date_cap"]
        return facts | {"read_chars": "all" if self.read_chars is None else self.read_chars}


class Episode:
    """The actions search, read, select and guess on one sample; every use becomes an event.

    An action beyond the budget's `max_actions` raises `Stop`. `repeat` is the number of this answer among
    those to the sample, from 0, and `allowance` has the limits of the run's cost.
    """

    def __init__(
        self,
        sample: Sample,
        provider: SearchProvider,
        budget: Budget = Budget(),
        *,
        repeat: int = 0,
        allowance: Allowance | None = None,
    ) -> None:
        self.sample, self.provider, self.budget = sample, provider, budget
        self.repeat, self.allowance = repeat, allowance or Allowance()
        self.scope = Scope(sample.source_title, budget.until(sample.date))
        self.events: list[Event] = []
        self.seen: dict[str, Paper] = {}
        self.steps = 0
        self.selection: Selection | None = None
        self._started, self._clock = datetime.now(timezone.utc), time.monotonic()

    def search(self, query: str, sort: Sort = "relevance") -> list[Paper]:
        """Up to `results` papers, without the source and later papers; raises `ProviderError`."""
        action = "search_relevance" if sort == "relevance" else "search_citation_count"
        event = self._act(action, query=query, scope=self.scope.as_json())
        with _timed(event):
            papers = self.provider.search(query, sort, self.scope, self.budget.results)
        event.hits = [_hit(paper) for paper in papers]
        self.seen.update((p.id, p) for p in papers)
        return papers

    def snippets(self, query: str) -> list[Snippet]:
        """Up to `results` passages of papers in scope; raises `ReadError` or `ProviderError`."""
        event = self._act("search_text_snippet", query=query, scope=self.scope.as_json())
        with _timed(event):
            snippets = self.provider.snippets(query, self.scope, self.budget.results)
        papers = {s.paper.id: s.paper for s in snippets}
        event.hits = [_hit(paper) for paper in papers.values()]
        self.seen = papers | self.seen
        return snippets

    def find(self, paper_id: str, query: str) -> str:
        """The sentences of a paper's text that contain a phrase; raises as `read` does."""
        event = self._act("find_in_text", paper=paper_id, query=query, ok=False, chars=0)
        text = " ".join(section.text for section in self._sections(paper_id, event))
        sentences = [s for s in sentences_of(text) if query.lower() in s.lower()]
        matching = "\n".join(sentences)[: self.budget.read_chars]
        event.ok, event.chars = True, len(matching)
        return matching or f"No sentence contains {query!r}."

    def more_context(self, query: str) -> str:
        """The source's text around the excerpt, where the data have it."""
        event = self._act("ask_for_more_context", query=query)
        context = self.sample.context[: self.budget.read_chars]
        event.ok, event.chars = bool(context), len(context)
        return context or "No more context is available."

    def read(
        self,
        paper_id: str,
        part: str = "",
        among: Container[str] | None = None,
        *,
        with_headings: bool = True,
    ) -> str:
        """The paper's text within the read budget; raises `UnknownId`, `ReadError` or `ProviderError`.

        Args:
            part: a range of section or page numbers ("3-5"), or a heading; "" for the whole text.
            among: the ids that may be read; by default those of all searches.
            with_headings: show numbered sections, and what is omitted; otherwise the beginning of the text.
        """
        event = self._act("read", paper=paper_id, part=part, ok=False, chars=0)
        sections = self._sections(paper_id, event, among)
        text = "".join(section.text for section in sections)[: self.budget.read_chars]
        if with_headings:
            text = excerpt(sections, part, self.budget.read_chars)
        event.ok, event.chars = True, len(text)
        return text

    def fail(self, action: str, problem: str) -> None:
        """Use up an action for a call that cannot be carried out, for example with wrong arguments."""
        self._act(action).error = problem

    def select(self, paper_id: str) -> None:
        """Answer with a paper that a search returned; raises `UnknownId` for any other."""
        event = self._act("select", paper=paper_id)
        paper = self._known(paper_id, event)
        self.selection = Selection(id=paper.id, title=paper.title, ids=sorted(paper.ids))

    def guess(self, title: str) -> None:
        """Answer with a title from memory (the setting without commands)."""
        self._act("guess")
        self.selection = Selection(id=None, title=title, ids=[])

    def add(self, event: Event) -> None:
        """Append an event that is not an action; a call of a model counts towards the allowance."""
        self.events.append(event)
        if isinstance(event, Call):
            self.allowance.spend(event)

    def check_allowance(self) -> None:
        """Raise `Stop` if a limit of the run is reached."""
        if why := self.allowance.used_up():
            raise Stop("run_limit", f"{why} spent")

    @property
    def turn(self) -> int:
        """The number of the next action, from 1."""
        return self.steps + 1

    @property
    def actions_left(self) -> int:
        return self.budget.max_actions - self.steps

    @property
    def is_last_turn(self) -> bool:
        """Whether the next action must be the answer."""
        return self.actions_left <= 1

    def out_of_actions(self) -> Stop:
        """The end of a sample whose actions are used up."""
        return Stop("action_limit", f"no selection within {self.budget.max_actions} actions")

    def record(self, status: Status, detail: str = "") -> Record:
        """The sample as it ended, for a result file; its duration ends now."""
        return Record(
            type="sample",
            sample=self.sample.id,
            repeat=self.repeat,
            status=status,
            detail=detail,
            selection=self.selection,
            started=self._started.isoformat(timespec="milliseconds"),
            seconds=round(time.monotonic() - self._clock, 4),
            events=self.events,
        )

    def _act(self, action: str, **values: Any) -> Action:
        if self.actions_left <= 0:
            raise self.out_of_actions()
        self.check_allowance()
        self.steps += 1
        event = Action(kind="action", step=self.steps, action=action, **values)
        self.events.append(event)
        return event

    def _sections(
        self, paper_id: str, event: Action, among: Container[str] | None = None
    ) -> list[Section]:
        paper = self._known(paper_id, event, among)
        with _timed(event):
            return self.provider.read(paper)

    def _known(self, paper_id: str, event: Action, among: Container[str] | None = None) -> Paper:
        if paper_id not in (self.seen if among is None else among):
            event.error = "unknown id"
            which = "No" if among is None else "Not the last"
            raise UnknownId(f"{which} search returned a paper with the id {paper_id!r}.")
        return self.seen[paper_id]


def _hit(paper: Paper) -> Hit:
    """A paper in a result file."""
    return Hit(
        id=paper.id, title=paper.title, year=paper.year, date=paper.date, ids=sorted(paper.ids)
    )


def sentences_of(text: str) -> list[str]:
    """The sentences of a text."""
    return re.split(r"(?<=[.!?])\s+", text.strip())


@contextlib.contextmanager
def _timed(event: Action) -> Iterator[None]:
    """Record the duration and any error in the event."""
    start = time.monotonic()
    try:
        yield
    except Exception as error:
        kind = "" if isinstance(error, ReadError) else f"{type(error).__name__}: "
        event.error = f"{kind}{error}"
        raise
    finally:
        event.seconds = round(time.monotonic() - start, 4)


def excerpt(sections: list[Section], part: str, budget: int | None) -> str:
    """The chosen sections with at most `budget` characters (None: all), and a list of omitted ones."""
    part, count = part.strip(), len(sections)
    shown: list[str] = []
    chosen = _choose(sections, part) if part else range(count)
    if not chosen:
        shown = [f"(This paper has no part {part[:60]!r}, only sections 1 to {count}.)"]
        chosen = range(count)
    left = float("inf") if budget is None else budget
    for index in chosen:
        text = f"## {index + 1}. {sections[index].heading}\n{sections[index].text}"
        if len(text) > left:
            rest = "; ".join(f"{k + 1}. {sections[k].heading}" for k in range(index, chosen.stop))
            cut = f"(Cut after {budget:,} characters, within section {index + 1} of {count}. "
            return "\n".join(
                [*shown, text[: int(left)], f"{cut}Not or not wholly shown: {rest[:600]}.)"]
            )
        shown.append(text)
        left -= len(text)
    if len(chosen) < count:
        shown.append(f"(Sections {chosen.start + 1} to {chosen.stop} of {count}.)")
    return "\n".join(shown)


def _choose(sections: list[Section], part: str) -> range:
    """The indexes that `part` selects: a range of numbers from 1, or the first such heading."""
    if numbers := re.fullmatch(r"\D*(\d+)(?:\s*(?:-|–|to)\s*(\d+))?", part):
        low, high = int(numbers[1]), int(numbers[2] or numbers[1])
        return range(low - 1, min(high, len(sections))) if low else range(0)
    headings = (k for k, s in enumerate(sections) if part.lower() in s.heading.lower())
    first = next(headings, None)
    return range(0) if first is None else range(first, first + 1)


class Agent(Protocol):
    """Anything that answers an episode by `select` or `guess`; must be thread-safe."""

    def answer(self, episode: Episode) -> None:
        """Work on one sample; raises `Stop` if it ends without an answer, or `ProviderError`."""

    def describe(self) -> dict[str, Any]:
        """The facts that identify the agent in a result file."""
