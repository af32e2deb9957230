"""Search over a corpus file with SQLite's FTS5 (BM25): offline and deterministic."""

import hashlib
import re
import sqlite3
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from ..data import reading
from .provider import Paper, ReadError, Scope, Section, Snippet, Sort

_PASSAGE_CHARS = 1_200
_STOPWORDS = frozenset(
    re.findall(
        r"\w+",
        """a about after all also an and any are as at be been before between both but by can could
        did do does each for from had has have how in into is it its may more most no nor not of
        on one only or other our out over same show shows so some such than that the their them
        then there these they this those through to too under up use used uses using was we were
        what when where which while who whose why will with within without work would""",
    )
)


def words(text: str) -> list[str]:
    """The distinct lower-case words of `text` without stop words, in order."""
    all_words = re.findall(r"[^\W_]+", text.lower())
    return list(dict.fromkeys(word for word in all_words if word not in _STOPWORDS))


class CorpusPaper(Paper):
    """A line of a corpus file: a paper with `references` (ids or titles) and `body` (heading, text)."""

    references: tuple[str, ...] = ()
    body: tuple[tuple[str, str], ...] = ()


class LocalSearch:
    """A search provider over a corpus file; results are ranked by BM25 with two weights, ties by id.

    The file has a `CorpusPaper` per line of JSON, or is LitSearch's corpus in parquet. Raises
    `HoldfastError` for another file.
    """

    name = "local"

    def __init__(
        self, corpus: str | Path, title_weight: float = 3.0, abstract_weight: float = 1.0
    ) -> None:
        self.path = Path(corpus)
        self.weights = (title_weight, abstract_weight)
        self.papers, self.sha256 = _read_corpus(self.path)
        self._lock, self._has_passages = threading.Lock(), False
        self._index = sqlite3.connect(":memory:", check_same_thread=False)
        self._index.execute(
            "CREATE VIRTUAL TABLE papers USING fts5(id UNINDEXED, title, abstract, "
            "tokenize = 'porter unicode61')"
        )
        rows = ((p.id, p.title, p.abstract or "") for p in self.papers.values())
        self._index.executemany("INSERT INTO papers VALUES (?, ?, ?)", rows)

    def search(self, query: str, sort: Sort, scope: Scope, limit: int) -> list[Paper]:
        """At most `limit` papers that share a word with `query`, none outside `scope`.

        Citation order re-sorts the 100 most relevant, as in CiteME.
        """
        with self._lock:
            admitted = filter(scope.admits, self._ranked(query))
            hits = list(islice(admitted, 100 if sort == "citations" else limit))
        if sort == "citations":
            hits.sort(key=lambda p: (-(p.citations or 0), p.id))
        return hits[:limit]

    def _ranked(self, query: str) -> Iterator[Paper]:
        """The papers that match a query, best first."""
        order = "SELECT id FROM papers WHERE papers MATCH ? ORDER BY bm25(papers, 0, ?, ?), id"
        return (self.papers[name] for (name,) in self._matches(query, order, *self.weights))

    def snippets(self, query: str, scope: Scope, limit: int) -> list[Snippet]:
        """At most `limit` passages of abstracts and bodies that share a word with `query`."""
        order = (
            "SELECT id, heading, text FROM passages WHERE passages MATCH ? "
            "ORDER BY bm25(passages), id, rowid"
        )
        with self._lock:
            if not self._has_passages:
                self._index_passages()
            ranked = self._matches(query, order)
            snippets = (Snippet(paper=self.papers[n], text=t, heading=h) for n, h, t in ranked)
            return list(islice((s for s in snippets if scope.admits(s.paper)), limit))

    def _matches(self, query: str, order: str, *weights: float) -> Iterator[Any]:
        """The rows of an SQL query for what shares a word with `query`."""
        # Every word is quoted, so that FTS5 does not interpret a language model's text as syntax.
        match = " OR ".join(f'"{word}"' for word in words(query))
        return iter(self._index.execute(order, (match, *weights)) if match else ())

    def _index_passages(self) -> None:
        """Index the texts, which only some agents search, in passages of complete sentences."""
        self._index.execute(
            "CREATE VIRTUAL TABLE passages USING fts5(id UNINDEXED, heading UNINDEXED, text, "
            "tokenize = 'porter unicode61')"
        )
        for paper in self.papers.values():
            parts = [("Abstract", paper.abstract or ""), *paper.body]
            rows = [
                (paper.id, heading, text) for heading, body in parts for text in _passages(body)
            ]
            self._index.executemany("INSERT INTO passages VALUES (?, ?, ?)", rows)
        self._has_passages = True

    def read(self, paper: Paper) -> list[Section]:
        """The paper's sections, then its references; raises `ReadError` if there are none."""
        entry = self.papers[paper.id]
        sections = [Section(heading, text) for heading, text in entry.body]
        if entry.references:
            lines = (f"[{k}] {self._cite(r)}" for k, r in enumerate(entry.references, start=1))
            sections.append(Section("References", "\n".join(lines)))
        if not sections:
            raise ReadError("The corpus has no text of this paper, only its title and abstract.")
        return sections

    def _cite(self, reference: str) -> str:
        paper = self.papers.get(reference)
        if paper is None:
            return reference
        who = f"{paper.authors[0]}. " if paper.authors else ""
        return f"{who}{paper.title}, {paper.year}."

    def describe(self) -> dict[str, Any]:
        """The name, the corpus with its hash, and the weights."""
        return {
            "name": self.name,
            "corpus": self.path.name,
            "sha256": self.sha256,
            "papers": len(self.papers),
            "weights": list(self.weights),
        }


def _passages(text: str) -> list[str]:
    """The sentences of a text, joined to passages of up to 1,200 characters if possible."""
    passages: list[str] = []
    for sentence in re.split(r"(?<=[.!?])\s+", text.strip()):
        if passages and len(passages[-1]) + len(sentence) < _PASSAGE_CHARS:
            passages[-1] += f" {sentence}"
        elif sentence:
            passages.append(sentence)
    return passages


def _litsearch_lines(path: Path) -> Iterator[bytes]:
    """The papers of LitSearch's corpus as lines of a corpus file."""
    import pandas as pd  # deferred: takes a second

    columns = {"corpusid": "id", "title": "title", "abstract": "abstract"}
    papers = pd.read_parquet(path, columns=list(columns)).rename(columns=columns)
    papers["id"] = papers.id.astype(str)
    yield from papers.to_json(orient="records", lines=True, force_ascii=False).encode().splitlines()


def _read_corpus(path: Path) -> tuple[dict[str, CorpusPaper], str]:
    """The lines of a corpus by id, and the file's sha256; raises `HoldfastError` if it is none."""
    papers: dict[str, CorpusPaper] = {}
    with reading(path, "a corpus", "a JSON Lines file with --corpus"):
        raw = path.read_bytes()
        if not raw.strip():
            raise ValueError("it is empty")
        is_parquet = path.suffix == ".parquet"
        lines = _litsearch_lines(path) if is_parquet else filter(None, raw.split(b"\n"))
    for number, line in enumerate(lines, start=1):
        wanted = "a JSON object with at least title and an id of its own"
        with reading(f"{path}, line {number},", "a paper", wanted):
            paper = CorpusPaper.model_validate_json(line)
            if paper.id in papers:
                raise ValueError(f"the id {paper.id} is used twice")
        papers[paper.id] = paper
    return papers, hashlib.sha256(raw).hexdigest()
