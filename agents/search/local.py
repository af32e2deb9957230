"""Search over a corpus file with SQLite's FTS5 (BM25): offline and deterministic."""

import hashlib
import re
import sqlite3
import threading
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ... import HoldfastError
from ...files import reason
from ..passages import pieces
from ..records import Large, Shape, Text, checked
from .provider import Paper, ReadError, Scope, Section, Snippet, Sort

STOPWORDS = frozenset(
    re.findall(
        r"\w+",
        """a about after all also an and any are as at be been before between both but by can could
        did do does each for from had has have how in into is it its may more most no nor not of
        on one only or other our out over same show shows so some such than that the their them
        then there these they this those through to too under up use used uses using was we were
        what when where which while who whose why will with within without work would""",
    )
)

PAPER_FIELDS = ("id", "title", "abstract", "year", "date", "citations", "authors")


def words(text: str) -> list[str]:
    """The distinct lower-case words of `text` without stop words, in order."""
    found = re.findall(r"[^\W_]+", text.lower())
    return list(dict.fromkeys(w for w in found if w not in STOPWORDS))


class CorpusPaper(Shape):
    """A line of a corpus file; `body` has headings and texts."""

    id: str
    title: str
    abstract: Text = None
    year: Annotated[int, Field(ge=0, le=9999)] | None = None
    date: Annotated[str, Field(pattern=r"^\d{4}")] | None = None
    citations: Large | None = None
    authors: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    references: tuple[str, ...] = ()  # ids or titles
    body: tuple[tuple[str, str], ...] = ()

    @property
    def paper(self) -> Paper:
        """The paper as a search returns it."""
        known = {name: getattr(self, name) for name in PAPER_FIELDS}
        return Paper(**known, ids=frozenset(self.ids))


class LocalSearch:
    """A search provider over a corpus file; results are ranked by BM25, ties by id.

    Args:
        corpus: JSON Lines; each line is a `CorpusPaper`, with references as ids or titles.
        title_weight: BM25's weight of titles.
        abstract_weight: BM25's weight of abstracts.

    Raises:
        HoldfastError: if the file is not a corpus.
    """

    name = "local"

    def __init__(
        self, corpus: str | Path, title_weight: float = 3.0, abstract_weight: float = 1.0
    ) -> None:
        self.path = Path(corpus)
        self.weights = (title_weight, abstract_weight)
        self._entries, self.sha256 = read_corpus(self.path)
        self.papers = {name: entry.paper for name, entry in self._entries.items()}
        self._lock = threading.Lock()
        self._index = sqlite3.connect(":memory:", check_same_thread=False)
        self._index.execute(
            "CREATE VIRTUAL TABLE papers USING fts5(id UNINDEXED, title, abstract, "
            "tokenize = 'porter unicode61')"
        )
        rows = ((p.id, p.title, p.abstract or "") for p in self.papers.values())
        self._index.executemany("INSERT INTO papers VALUES (?, ?, ?)", rows)
        self._texts_indexed = False

    def search(self, query: str, sort: Sort, scope: Scope, limit: int) -> list[Paper]:
        """At most `limit` papers that share a word with `query`, none outside `scope`.

        Citation order re-sorts the 100 most relevant, as in CiteME.
        """
        match = any_word_of(query)
        if not match:
            return []
        wanted = 100 if sort == "citations" else limit
        with self._lock:
            ranked = self._index.execute(
                "SELECT id FROM papers WHERE papers MATCH ? ORDER BY bm25(papers, 0, ?, ?), id",
                (match, *self.weights),
            )
            hits = list(islice(filter(scope.admits, (self.papers[i] for (i,) in ranked)), wanted))
        if sort == "citations":
            hits.sort(key=lambda p: (-(p.citations or 0), p.id))
        return hits[:limit]

    def snippets(self, query: str, scope: Scope, limit: int) -> list[Snippet]:
        """At most `limit` passages or abstracts that share a word with `query`, ranked by BM25."""
        match = any_word_of(query)
        if not match:
            return []
        with self._lock:
            if not self._texts_indexed:
                self._index_texts()
            ranked = self._index.execute(
                "SELECT id, heading, text FROM passages WHERE passages MATCH ? "
                "ORDER BY bm25(passages), rowid",
                (match,),
            )
            found = (Snippet(self.papers[i], text, heading) for i, heading, text in ranked)
            return list(islice((s for s in found if scope.admits(s.paper)), limit))

    def _index_texts(self) -> None:
        self._index.execute(
            "CREATE VIRTUAL TABLE passages USING fts5(id UNINDEXED, heading UNINDEXED, text, "
            "tokenize = 'porter unicode61')"
        )
        texts = (
            (paper.id, heading, piece)
            for paper in self.papers.values()
            for heading, text in [("abstract", paper.abstract or ""), *self._entries[paper.id].body]
            for piece in pieces(text)
        )
        self._index.executemany("INSERT INTO passages VALUES (?, ?, ?)", texts)
        self._texts_indexed = True

    def read(self, paper: Paper) -> list[Section]:
        """The paper's sections, then its references; raises `ReadError` if there are none."""
        entry = self._entries[paper.id]
        sections = [Section(heading, text) for heading, text in entry.body]
        if entry.references:
            lines = (f"[{k}] {self._cite(r)}" for k, r in enumerate(entry.references, start=1))
            sections.append(Section("References", "\n".join(lines)))
        if not sections:
            raise ReadError("The corpus has no text of this paper, only its title and abstract.")
        return sections

    def describe(self) -> dict[str, Any]:
        """The name, the corpus with its hash, and the weights."""
        return {
            "name": self.name,
            "corpus": self.path.name,
            "sha256": self.sha256,
            "papers": len(self.papers),
            "weights": list(self.weights),
        }

    def _cite(self, reference: str) -> str:
        paper = self.papers.get(reference)
        if paper is None:
            return reference
        who = f"{paper.authors[0]}. " if paper.authors else ""
        return f"{who}{paper.title}, {paper.year}."


def any_word_of(query: str) -> str:
    """The FTS5 query for any of the words; "" without words.

    Every word is quoted, so that FTS5 does not interpret a language model's text as syntax.
    """
    return " OR ".join(f'"{word}"' for word in words(query))


def read_corpus(path: Path) -> tuple[dict[str, CorpusPaper], str]:
    """The lines of a corpus by id, and the file's sha256; raises `HoldfastError` if it is none."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise HoldfastError(
            f"Cannot read the corpus {path} ({reason(error)}). Pass a JSON Lines file with --corpus."
        ) from None
    entries: dict[str, CorpusPaper] = {}
    for number, line in enumerate(filter(None, raw.split(b"\n")), start=1):
        try:
            entry: CorpusPaper = checked(line, CorpusPaper)
            if entry.id in entries:
                raise ValueError(f"the id {entry.id} is used twice")
        except ValueError as error:
            raise HoldfastError(
                f"{path}, line {number} is not a paper ({reason(error)}). Each line must be a JSON object "
                "with at least title and an id of its own."
            ) from None
        entries[entry.id] = entry
    if not entries:
        raise HoldfastError(f"The corpus {path} is empty. Pass one with papers.")
    return entries, hashlib.sha256(raw).hexdigest()
