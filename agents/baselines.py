"""Agents without a language model: rankers, an upper bound, and rules that search, read and follow.

They rank a complete corpus, so they run on the local provider only.
"""

import math
import random
import re
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

from .data import MARKER
from .episode import Episode, Stop, sentences_of
from .matching import official_match, strict_match
from .records import Seen
from .search.local import LocalSearch, words
from .search.provider import Paper, ReadError, Scope, Sort


class Ranker:
    """Searches once with the excerpt and selects the first hit."""

    def __init__(self, name: str) -> None:
        self.name = name

    def answer(self, episode: Episode) -> None:
        hits = episode.search(_context(episode.sample.excerpt))
        if not hits:
            raise Stop("no_selection", "the search returned nothing")
        episode.select(hits[0].id)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}


class Oracle(Ranker):
    """Searches like `Rules` and selects the target if a search returned it: an upper bound."""

    def answer(self, episode: Episode) -> None:
        for query in _queries(episode.sample.excerpt):
            episode.search(query)
        for paper in episode.seen.values():
            if official_match(paper.title, episode.sample.titles):
                return episode.select(paper.id)
        raise Stop("no_selection", "no search returned the target")


class Rules(Ranker):
    """Searches three times, reads the best hits, and follows a reference if its sentence fits better.

    The score of a hit is the weight (inverse document frequency over all hits) of the words near the
    marker that occur in its title and abstract; citing sentences in the texts are scored alike.
    """

    reads = 3

    def answer(self, episode: Episode) -> None:
        near = words(_window(episode.sample.excerpt))
        for query in _queries(episode.sample.excerpt):
            episode.search(query)
        papers = list(episode.seen.values())
        if not papers:
            raise Stop("no_selection", "the searches returned nothing")
        weight = _inverse_document_frequency(papers)

        def score(text: str) -> float:
            return sum(weight(w) for w in set(near) & set(words(text)))

        ranked = sorted(papers, key=lambda p: -score(f"{p.title} {p.abstract or ''}"))
        best = ranked[0]
        best_score = score(f"{best.title} {best.abstract or ''}")
        reference = ""
        for paper in ranked[: self.reads]:
            try:
                text = episode.read(paper.id)
            except ReadError as error:
                text = f"This paper cannot be read: {error}"
            episode.add(Seen(kind="seen", step=episode.turn, text=text))
            for sentence, cited in _citing_sentences(text):
                if score(sentence) > best_score:
                    best_score, reference = score(sentence), cited
        if reference:
            for hit in episode.search(reference):
                if strict_match(hit.title, [reference]) or words(hit.title) == words(reference):
                    return episode.select(hit.id)
        episode.select(best.id)


class RandomSearch(LocalSearch):
    """Ranks the papers in scope in a random order, which the query determines."""

    name = "local-random"

    def search(self, query: str, sort: Sort, scope: Scope, limit: int) -> list[Paper]:
        papers: list[Paper] = [p for p in self.papers.values() if scope.admits(p)]
        return random.Random(zlib.crc32(query.encode())).sample(papers, limit)


# Name to agent, and a function from a corpus to the search that the agent needs.
BASELINES: dict[str, tuple[type[Ranker], Callable[[str], LocalSearch]]] = {
    "title-bm25": (Ranker, lambda corpus: LocalSearch(corpus, 1.0, 0.0)),
    "bm25": (Ranker, lambda corpus: LocalSearch(corpus, 1.0, 1.0)),
    "random": (Ranker, RandomSearch),
    "oracle-if-found": (Oracle, LocalSearch),
    "rules": (Rules, LocalSearch),
}


def baseline(name: str, corpus: str) -> tuple[Ranker, LocalSearch]:
    """The agent called `name` (one of `BASELINES`) and the search that it needs."""
    agent, search = BASELINES[name]
    return agent(name), search(corpus)


def _context(excerpt: str) -> str:
    """The excerpt without its marker."""
    return excerpt.replace(MARKER, " ")


def _window(excerpt: str) -> str:
    """The sentence with the marker."""
    sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z])", excerpt)
    return _context(next(s for s in sentences if MARKER in s))


def _queries(excerpt: str) -> list[str]:
    """Three queries: the sentence with the marker, the words next to the marker, the whole excerpt."""
    sentence = _window(excerpt)
    before, after = excerpt.split(MARKER)
    near = " ".join([*words(before)[-6:], *words(after)[:3]])
    return list(dict.fromkeys([sentence, near, _context(excerpt)]))


def _citing_sentences(text: str) -> list[tuple[str, str]]:
    """(sentence, cited title) for every numbered citation in the text's reference list."""
    listed: dict[str, str] = {}
    for key, line in re.findall(r"^\[(\d+)\] (.+)$", text, flags=re.MULTILINE):
        # "A. Author. Title, 2020." The title is the longest part between full stops.
        listed[key] = max(re.split(r"\. |, (?=\d{4})", line.rstrip(".")), key=len)
    body = text.split("References\n[1]")[0]
    citations = []
    for sentence in sentences_of(body):
        for keys in re.findall(r"\[([\d, ]+)\]", sentence):
            citations += [(sentence, listed[k]) for k in re.findall(r"\d+", keys) if k in listed]
    return citations


def _inverse_document_frequency(papers: list[Paper]) -> Callable[[str], float]:
    counts: Counter[str] = Counter()
    for paper in papers:
        counts.update(set(words(f"{paper.title} {paper.abstract or ''}")))
    return lambda word: math.log(1 + len(papers) / (0.5 + counts[word]))
