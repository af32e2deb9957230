"""Worked examples shown to the agent: actions of ours, taken on the mini-cite corpus."""

import json
from functools import cache
from typing import Any

from ..data import ASSETS, MINI_CITE_CORPUS, Sample
from ..episode import Episode
from ..protocol import Paper
from ..search.local import LocalSearch
from .actions import SEARCHES, act, countdown

HITS = 4  # per search, to keep the prompt short


@cache
def trajectory(commands: str) -> tuple[dict[str, str], ...]:
    """The demonstration's turns, its actions taken on the mini-cite corpus."""
    shown = demonstrations()[commands]
    sample = Sample("demonstration", shown["excerpt"], (), "", "", "", None, "train")
    episode = Episode(sample, LocalSearch(MINI_CITE_CORPUS), results=HITS)
    observation, turns = "Nothing has been searched yet.", []
    for turn in shown["turns"]:
        inputs = {
            "excerpt": shown["excerpt"],
            "observation": f"{observation}\n{countdown(episode.actions_left)}",
        }
        turns.append({**inputs, **turn})
        observation = act(episode, turn["action"], turn["argument"])
    return tuple(turns)


def taken(commands: str) -> tuple[str, list[tuple[dict[str, str], list[Paper] | str]]]:
    """The demonstration's excerpt, and each of its turns with what its action returned."""
    given = demonstrations()[commands]
    sample = Sample("demonstration", given["excerpt"], (), "", "", "", None, "train")
    episode = Episode(sample, LocalSearch(MINI_CITE_CORPUS), results=HITS)
    turns: list[tuple[dict[str, str], list[Paper] | str]] = []
    for turn in given["turns"]:
        action, argument = turn["action"], turn["argument"]
        if action in SEARCHES:
            turns.append((turn, episode.search(argument, SEARCHES[action])))
        else:
            turns.append((turn, episode.read(argument) if action == "read" else ""))
    return given["excerpt"], turns


def demonstrations() -> dict[str, Any]:
    """Our own: an excerpt and its actions for each set of commands, pairs for `none`."""
    ours = json.loads((ASSETS / "demonstrations.json").read_text(encoding="utf-8"))
    return {**ours, "search+read+find": ours["search+read"]}
