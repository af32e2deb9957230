"""The actions of a turn, how their results are shown to a language model, and worked examples of them."""

import json
import re
from functools import cache
from typing import Any, Literal

from .data import ASSETS, MINI_CITE_CORPUS, Sample
from .episode import MAX_ACTIONS, Budget, Episode, UnknownId
from .records import clean
from .search.local import LocalSearch
from .search.provider import Paper, ReadError, Snippet, Sort

Commands = Literal["none", "search", "search+read", "citeguard"]
SEARCHES: dict[str, Sort] = {"search_relevance": "relevance", "search_citation_count": "citations"}
# arXiv:2510.17853, section 3
_CITEGUARD = ("search_text_snippet", "find_in_text", "ask_for_more_context")
ACTIONS: dict[str, tuple[str, ...]] = {
    "search": (*SEARCHES, "select"),
    "search+read": (*SEARCHES, "read", "select"),
    "citeguard": (*SEARCHES, *_CITEGUARD, "read", "select"),
}
_ABSTRACT_CHARS = 1200
_HITS = 4  # hits per search in a demonstration, to limit the length of the prompt
ARGUMENT_CHARS = 1000  # maximum characters of a query or id; search engines refuse longer ones


def act(episode: Episode, action: str, argument: str) -> str:
    """Take one action and return the text shown to the agent; a long argument is truncated."""
    argument = clean(argument.strip(), ARGUMENT_CHARS)
    try:
        if action in SEARCHES:
            return _show(episode.search(argument, SEARCHES[action]))
        if action == "search_text_snippet":
            return _passages(episode.snippets(argument))
        if action == "ask_for_more_context":
            return _quoted(episode.more_context(argument))
        paper_id, _, rest = bare(argument).partition(" ")
        if action == "read":
            return _quoted(episode.read(paper_id.rstrip(",:;"), rest))
        if action == "find_in_text":
            return _quoted(episode.find(paper_id.rstrip(",:;"), rest.strip("`'\" ")))
        episode.select(bare(argument))
    except UnknownId as error:
        return f"{quote(str(error), 300)} Use an id from a search result."
    except ReadError as error:
        return refusal(action, error)
    return ""


def refusal(action: str, error: ReadError) -> str:
    """What the agent is told of a paper or a search that is not to be had."""
    of_papers = action in ("read", "find_in_text")
    return f"This paper cannot be read: {error}" if of_papers else f"No search: {error}"


def _show(papers: list[Paper]) -> str:
    """Search hits as quoted text: id, title, year, citations, abstract."""
    shown = []
    for paper in papers:
        cited = "unknown" if paper.citations is None else f"{paper.citations:,}"
        shown.append(
            f"id: {paper.id}\ntitle: {quote(paper.title)}\n"
            f"year: {paper.year or 'unknown'}; citations: {cited}\n"
            f"abstract: {quote(paper.abstract or 'not available', _ABSTRACT_CHARS)}"
        )
    return _listed("paper", shown)


def _passages(snippets: list[Snippet]) -> str:
    """Passages as quoted text: the paper's id and title, and the passage."""
    shown = [
        f"id: {s.paper.id}\ntitle: {quote(s.paper.title)}\npassage: {quote(s.text, _ABSTRACT_CHARS)}"
        for s in snippets
    ]
    return _listed("passage", shown)


def _listed(what: str, shown: list[str]) -> str:
    if not shown:
        return f"The search worked and found no {what}. Try other words."
    return f"{len(shown)} {what}s:\n<<<\n" + "\n\n".join(shown) + "\n>>>"


def _quoted(text: str) -> str:
    """The text of a paper between quotation marks that it cannot imitate."""
    return f"<<<\n{quote(text)}\n>>>"


def quote(text: str, limit: int | None = None) -> str:
    """Escape untrusted text so that it cannot end its quotation or imitate a field of the prompt."""
    text = text if limit is None or len(text) <= limit else f"{text[:limit]} (cut)"
    return text.replace("<<<", "‹‹‹").replace(">>>", "›››").replace("[[ ##", "[ [ ##")


def countdown(actions: int) -> str:
    """The number of remaining actions, as shown to the agent."""
    if actions <= 1:
        return "(This is the last action: select a paper now.)"
    return f"(Actions left: {actions}.)"


def bare(argument: str) -> str:
    """An id without the `id:` and the quotes that models add."""
    argument = re.sub(r"^(paper[ _]?)?id\s*[:=]\s*", "", argument.strip(), flags=re.IGNORECASE)
    return argument.strip("`'\"[]() ")[:ARGUMENT_CHARS]


# ---- worked examples: fixed actions, executed on the mini-cite corpus ----


def demonstrations() -> dict[str, Any]:
    """An excerpt and its actions for each set of commands; pairs of excerpt and title for `none`."""
    return json.loads((ASSETS / "demonstrations.json").read_text(encoding="utf-8"))


def demonstrated(commands: str) -> tuple[str, list[tuple[dict[str, str], list[Paper] | str]]]:
    """The demonstration's excerpt, and each turn with the result of its action."""
    shown = demonstrations()[commands]
    sample = Sample("demonstration", shown["excerpt"], (), "", "", "", None, "train")
    episode = Episode(sample, LocalSearch(MINI_CITE_CORPUS), Budget(results=_HITS))
    results: list[tuple[dict[str, str], list[Paper] | str]] = []
    for turn in shown["turns"]:
        action, argument = turn["action"], turn["argument"]
        if action in SEARCHES:
            results.append((turn, episode.search(argument, SEARCHES[action])))
        else:
            results.append((turn, episode.read(argument) if action == "read" else ""))
    return sample.excerpt, results


@cache
def trajectory(commands: str) -> tuple[dict[str, str], ...]:
    """The demonstration's turns, each with the text shown to the agent before it."""
    excerpt, results = demonstrated(commands)
    observation, turns = "Nothing has been searched yet.", []
    for number, (turn, seen) in enumerate(results):
        before = f"{observation}\n{countdown(MAX_ACTIONS - number)}"
        turns.append({"excerpt": excerpt, "observation": before, **turn})
        observation = _show(seen) if isinstance(seen, list) else _quoted(seen)
    return tuple(turns)
