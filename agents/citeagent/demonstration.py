"""Worked examples shown to the agent: actions of ours, taken on the mini-cite corpus."""

import json
from functools import cache
from typing import Any

from ..data import ASSETS, MINI_CITE_CORPUS, Sample
from ..episode import Episode
from ..search.local import LocalSearch
from .actions import act, countdown

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


def demonstrations() -> dict[str, Any]:
    """Our own: an excerpt and its actions for each set of commands, pairs for `none`."""
    return json.loads((ASSETS / "demonstrations.json").read_text(encoding="utf-8"))
