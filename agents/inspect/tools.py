"""The agent's actions as tools of Inspect; each use counts as one of the sample's actions."""

import asyncio
from collections.abc import Awaitable, Callable

from inspect_ai.tool import ToolDef, ToolError

from ..citeagent.actions import ACTIONS, act
from ..episode import Episode, Stop

Tool = Callable[..., Awaitable[str]]


def tools(episode: Episode, commands: str, stopped: list[Stop]) -> dict[str, ToolDef]:
    """The tools of a set of commands by their names; what ends the sample is put into `stopped`.

    They show what the DSPy form of the agent is shown, text of papers as quotations. A service that
    does not answer is no tool's error: it raises, and the sample fails.
    """

    async def use(action: str, *argument: str) -> str:
        try:
            return await asyncio.to_thread(act, episode, action, " ".join(argument))
        except Stop as stop:
            stopped.append(stop)
            raise ToolError(str(stop)) from None

    async def search_relevance(query: str) -> str:
        """Search for papers, the best matching ones first.

        Args:
            query: What to search for.
        """
        return await use("search_relevance", query)

    async def search_citation_count(query: str) -> str:
        """Search for papers, the most cited ones of those that match first.

        Args:
            query: What to search for.
        """
        return await use("search_citation_count", query)

    async def search_text_snippet(query: str) -> str:
        """Search the texts of papers, for the passages that match best.

        Args:
            query: What to search for.
        """
        return await use("search_text_snippet", query)

    async def read(paper_id: str, part: str = "") -> str:
        """Read the text of a paper.

        Args:
            paper_id: The id of a paper in a search result.
            part: A range of sections or pages such as 3-5, or a heading; all that fits if empty.
        """
        return await use("read", paper_id, part)

    async def find_in_text(paper_id: str, words: str) -> str:
        """Find the passages of a paper that hold some words.

        Args:
            paper_id: The id of a paper in a search result.
            words: The words to look for.
        """
        return await use("find_in_text", paper_id, words)

    async def ask_for_more_context() -> str:
        """See the text around the excerpt in the paper that it is from."""
        return await use("ask_for_more_context")

    async def select(paper_id: str) -> str:
        """Answer with a paper, which ends the task.

        Args:
            paper_id: The id of a paper in a search result.
        """
        return await use("select", paper_id)

    known: list[Tool] = [
        search_relevance,
        search_citation_count,
        search_text_snippet,
        read,
        find_in_text,
        ask_for_more_context,
        select,
    ]
    named = {tool.__name__: tool for tool in known}
    return {name: ToolDef(named[name], parallel=False) for name in ACTIONS.get(commands, ())}
