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
from .search.provider import Paper, ReadError, Scope, SearchProvider, Section, Sort

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

    Args:
        results: hits per search.
        max_actions: maximum number of actions.
        read_chars: characters of a paper shown per read; None for all of it.
    """

    results: int = RESULTS
    max_actions: int = MAX_ACTIONS
    read_chars: int | None = READ_CHARS

    def describe(self) -> dict[str, Any]:
        """The limits as in the header of a result file."""
        read_chars = "all" if self.read_chars is None else self.read_chars
        return asdict(self) | {"read_chars": read_chars}


class Episode:
    """The actions search, read, select and guess on one sample; every use becomes an event.

    Args:
        sample: the excerpt to find a citation for.
        provider: the search provider.
        budget: the limits of the sample; an action beyond `max_actions` raises `Stop`.
        repeat: number of this answer among those to the sample, from 0.
        allowance: limits of the run's cost.
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
        self.scope = Scope(sample.source_title, sample.date)
        self.events: list[Event] = []
        self.seen: dict[str, Paper] = {}
        self.steps = 0
        self.selection: Selection | None = None
        self._started, self._clock = datetime.now(timezone.utc), time.monotonic()

    def search(self, query: str, sort: Sort = "relevance") -> list[Paper]:
        """Up to `results` papers, without the source and later papers; raises `ProviderError`."""
        action = "search_relevance" if sort == "relevance" else "search_citation_count"
        scope = {"source": self.scope.source_title, "until": self.scope.until}
        event = self._act(action, query=query, scope=scope)
        with _timed(event):
            papers = self.provider.search(query, sort, self.scope, self.budget.results)
        event.hits = [
            Hit(id=p.id, title=p.title, year=p.year, date=p.date, ids=sorted(p.ids)) for p in papers
        ]
        self.seen.update((p.id, p) for p in papers)
        return papers

    def read(self, paper_id: str, part: str = "", among: Container[str] | None = None) -> str:
        """The paper's text within the read budget, or the reason why it cannot be read.

        Args:
            paper_id: the id as returned by a search.
            part: a range of section or page numbers ("3-5"), or a heading; "" for the whole text.
            among: the ids that may be read; by default those of all searches.

        Raises:
            UnknownId: if the id is not among those.
        """
        event = self._act("read", paper=paper_id, part=part, ok=False, chars=0)
        paper = self._known(paper_id, event, among)
        try:
            with _timed(event):
                text = excerpt(self.provider.read(paper), part, self.budget.read_chars)
        except ReadError as error:
            event.error = str(error)
            return f"This paper cannot be read: {error}"
        event.ok, event.chars = True, len(text)
        return text

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

    def _known(self, paper_id: str, event: Action, among: Container[str] | None = None) -> Paper:
        if paper_id not in (self.seen if among is None else among):
            event.error = "unknown id"
            which = "No" if among is None else "Not the last"
            raise UnknownId(f"{which} search returned a paper with the id {paper_id!r}.")
        return self.seen[paper_id]


@contextlib.contextmanager
def _timed(event: Action) -> Iterator[None]:
    """Record the duration and any error in the event."""
    start = time.monotonic()
    try:
        yield
    except Exception as error:
        event.error = f"{type(error).__name__}: {error}"
        raise
    finally:
        event.seconds = round(time.monotonic() - start, 4)


def excerpt(sections: list[Section], part: str, budget: int | None) -> str:
    """The chosen sections with at most `budget` characters (None: all), and a list of omitted ones."""
    first, chosen = _choose(sections, part)
    shown: list[str] = []
    left = float("inf") if budget is None else budget
    for number, section in enumerate(chosen, start=first):
        text = f"## {number}. {section.heading}\n{section.text}"
        if len(text) > left:
            omitted = enumerate(chosen[number - first :], start=number)
            rest = "; ".join(f"{n}. {s.heading}" for n, s in omitted)
            cut = f"(Cut after {budget:,} characters, within section {number} of {len(sections)}. "
            return "\n".join(
                [*shown, text[: int(left)], f"{cut}Not or not wholly shown: {rest[:600]}.)"]
            )
        shown.append(text)
        left -= len(text)
    if len(chosen) < len(sections):
        shown.append(f"(Sections {first} to {first + len(chosen) - 1} of {len(sections)}.)")
    return "\n".join(shown)


def _choose(sections: list[Section], part: str) -> tuple[int, list[Section]]:
    """The number of the first section, from 1, and the sections that `part` selects (default: all)."""
    part = part.strip()
    if numbers := re.fullmatch(r"\D*(\d+)(?:\s*(?:-|–|to)\s*(\d+))?", part):
        low = int(numbers[1])
        if low and (chosen := sections[low - 1 : int(numbers[2] or low)]):
            return low, chosen
    elif part:
        for number, section in enumerate(sections, start=1):
            if part.lower() in section.heading.lower():
                return number, [section]
    return 1, sections


class Agent(Protocol):
    """Anything that answers an episode by `select` or `guess`; must be thread-safe."""

    def __call__(self, episode: Episode) -> None:
        """Work on one sample; raises `Stop` if it ends without an answer, or `ProviderError`."""

    def describe(self) -> dict[str, Any]:
        """The facts that identify the agent in a result file."""
