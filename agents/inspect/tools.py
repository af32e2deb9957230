"""The agent's actions as tools of Inspect; each call counts as one action of the sample."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from inspect_ai.tool import ToolDef, ToolError

from ..citeagent.actions import ACTIONS, act
from ..episode import Episode, Stop

QUERY = {"query": "What to search for."}
PAPER = {"paper_id": "The id of a paper in a search result."}
PART = "A range of sections or pages such as 3-5, or a heading; all that fits if empty."
TOOLS = {  # the description and arguments of each tool
    "search_relevance": ("Search for papers, the best matching ones first.", QUERY),
    "search_citation_count": (
        "Search for papers, the most cited of those that match first.",
        QUERY,
    ),
    "search_text_snippet": ("Search papers' texts, for the passages that match best.", QUERY),
    "read": ("Read the text of a paper.", {**PAPER, "part": PART}),
    "find_in_text": (
        "Find the passages of a paper that hold some words.",
        {**PAPER, "words": "The words to look for."},
    ),
    "ask_for_more_context": ("See the text around the excerpt in the paper it is from.", {}),
    "select": ("Answer with a paper, which ends the task.", PAPER),
}


def tools(episode: Episode, commands: str, stopped: list[Stop]) -> dict[str, ToolDef]:
    """The tools of a set of commands by name; a `Stop` that ends the sample is appended to `stopped`.

    They return the same texts as in the DSPy form of the agent. A `ProviderError` is not reported to the
    model as a tool error but raised, and the sample fails.
    """

    async def use(action: str, *argument: str) -> str:
        try:
            return await asyncio.to_thread(act, episode, action, " ".join(argument))
        except Stop as stop:
            stopped.append(stop)
            raise ToolError(str(stop)) from None

    def called(action: str) -> Callable[..., Awaitable[str]]:
        """The function of a tool; Inspect reads the arguments from its signature."""

        async def search(query: str) -> str:
            return await use(action, query)

        async def read(paper_id: str, part: str = "") -> str:
            return await use(action, paper_id, part)

        async def find_in_text(paper_id: str, words: str) -> str:
            return await use(action, paper_id, words)

        async def ask_for_more_context() -> str:
            return await use(action)

        async def select(paper_id: str) -> str:
            return await use(action, paper_id)

        known: dict[str, Any] = {"read": read, "find_in_text": find_in_text, "select": select}
        return {**known, "ask_for_more_context": ask_for_more_context}.get(action, search)

    return {
        name: ToolDef(called(name), name, what, arguments, parallel=False)
        for name, (what, arguments) in TOOLS.items()
        if name in ACTIONS.get(commands, ())
    }
