"""Worked examples shown to the agent: fixed actions, executed on the mini-cite corpus."""

import json
from functools import cache
from typing import Any

from ..data import ASSETS, MINI_CITE_CORPUS, Sample
from ..episode import Episode
from ..protocol import Paper
from ..search.local import LocalSearch
from .actions import SEARCHES, act, countdown

HITS = 4  # hits per search, to limit the length of the prompt


def begun(commands: str) -> tuple[str, list[dict[str, str]], Episode]:
    """The demonstration's excerpt and turns, and an episode in which to execute its actions."""
    shown = demonstrations()[commands]
    sample = Sample("demonstration", shown["excerpt"], (), "", "", "", None, "train")
    episode = Episode(sample, LocalSearch(MINI_CITE_CORPUS), results=HITS)
    return shown["excerpt"], shown["turns"], episode


@cache
def trajectory(commands: str) -> tuple[dict[str, str], ...]:
    """The demonstration's turns, each with the text shown to the agent before it."""
    excerpt, actions, episode = begun(commands)
    observation, turns = "Nothing has been searched yet.", []
    for turn in actions:
        before = f"{observation}\n{countdown(episode.actions_left)}"
        turns.append({"excerpt": excerpt, "observation": before, **turn})
        observation = act(episode, turn["action"], turn["argument"])
    return tuple(turns)


def taken(commands: str) -> tuple[str, list[tuple[dict[str, str], list[Paper] | str]]]:
    """The demonstration's excerpt, and each turn with the result of its action."""
    excerpt, actions, episode = begun(commands)

    def returned(action: str, argument: str) -> list[Paper] | str:
        if action in SEARCHES:
            return episode.search(argument, SEARCHES[action])
        return episode.read(argument) if action == "read" else ""

    return excerpt, [(turn, returned(turn["action"], turn["argument"])) for turn in actions]


def demonstrations() -> dict[str, Any]:
    """An excerpt and its actions for each set of commands; pairs of excerpt and title for `none`."""
    ours = json.loads((ASSETS / "demonstrations.json").read_text(encoding="utf-8"))
    return {**ours, "search+read+find": ours["search+read"]}
