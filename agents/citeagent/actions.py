"""What an agent may do in a turn, and how what it gets back is shown to it; knows no model."""

import re
from typing import Literal

from ..episode import Episode, UnknownId
from ..protocol import Paper, Snippet, Sort

Commands = Literal["none", "search", "search+read", "search+read+find"]
SEARCHES: dict[str, Sort] = {
    "search_relevance": "relevance",
    "search_citation_count": "citations",
}
ACTIONS: dict[str, tuple[str, ...]] = {
    "search": (*SEARCHES, "select"),
    "search+read": (*SEARCHES, "read", "select"),
    # CiteGuard's, and `read`.
    "search+read+find": (
        *SEARCHES,
        "search_text_snippet",
        "read",
        "find_in_text",
        "ask_for_more_context",
        "select",
    ),
}
ABSTRACT_CHARS = 1200
ARGUMENT_CHARS = 1000  # of a query or an id; search engines refuse longer ones


def act(episode: Episode, action: str, argument: str) -> str:
    """Take one action and return what the agent is to see of it; a long argument is cut."""
    argument = argument.strip()[:ARGUMENT_CHARS]
    try:
        if action in SEARCHES:
            return show(episode.search(argument, SEARCHES[action]))
        if action == "search_text_snippet":
            return show_snippets(episode.snippets(argument))
        if action == "read":
            paper_id, _, part = bare(argument).partition(" ")
            return f"<<<\n{quote(episode.read(paper_id.rstrip(',:;'), part))}\n>>>"
        if action == "find_in_text":
            paper_id, _, words = bare(argument).partition(" ")
            return f"<<<\n{quote(episode.find(paper_id.rstrip(',:;'), words))}\n>>>"
        if action == "ask_for_more_context":
            return f"<<<\n{quote(episode.context())}\n>>>"
        episode.select(bare(argument))
    except UnknownId as error:
        return f"{quote(str(error), 300)} Use an id from a search result."
    return ""


def show(papers: list[Paper]) -> str:
    """Search hits as quoted text: id, title, year, citations, abstract."""
    if not papers:
        return "The search worked and found no paper. Try other words."
    lines = [f"{len(papers)} papers:", "<<<"]
    for paper in papers:
        cited = "unknown" if paper.citations is None else f"{paper.citations:,}"
        lines += [
            f"id: {paper.id}",
            f"title: {quote(paper.title)}",
            f"year: {paper.year or 'unknown'}; citations: {cited}",
            f"abstract: {quote(paper.abstract or 'not available', ABSTRACT_CHARS)}",
            "",
        ]
    return "\n".join([*lines[:-1], ">>>"])


def show_snippets(snippets: list[Snippet]) -> str:
    """Passages as quoted text: id and title of their paper, heading, words."""
    if not snippets:
        return "The search worked and found no passage. Try other words."
    lines = [f"{len(snippets)} passages:", "<<<"]
    for snippet in snippets:
        lines += [
            f"id: {snippet.paper.id}",
            f"title: {quote(snippet.paper.title)}",
            f"section: {quote(snippet.heading or 'unknown')}",
            f"text: {quote(snippet.text, ABSTRACT_CHARS)}",
            "",
        ]
    return "\n".join([*lines[:-1], ">>>"])


def quote(text: str, limit: int | None = None) -> str:
    """Foreign text that cannot close its quotation or pass for a field of the prompt."""
    text = text if limit is None or len(text) <= limit else f"{text[:limit]} (cut)"
    return text.replace("<<<", "‹‹‹").replace(">>>", "›››").replace("[[ ##", "[ [ ##")


def countdown(actions: int) -> str:
    """How many actions remain, as the agent is told."""
    if actions <= 1:
        return "(This is the last action: select a paper now.)"
    return f"(Actions left: {actions}.)"


def bare(argument: str) -> str:
    """An id without the `id:` and the quotes that models put around it."""
    argument = re.sub(r"^(paper[ _]?)?id\s*[:=]\s*", "", argument.strip(), flags=re.IGNORECASE)
    return argument.strip("`'\"[]() ")[:ARGUMENT_CHARS]
