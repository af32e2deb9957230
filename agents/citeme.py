"""CiteAgent as in its paper: one conversation, JSON replies, complete papers, no retries.

Press et al., "CiteME", arXiv:2407.12861, section 3, and the authors' code: text before the first `{` is
dropped, `read` takes ids of the last search only and `select` ids of any search, the last turn contains a
warning, and an unknown id costs an action. Unlike in the authors' code, pages are numbered.
"""

import json
import re
from pathlib import Path
from typing import Any

import dspy

from . import citeme_prompts as prompts
from .actions import ACTIONS, ARGUMENT_CHARS, SEARCHES, Commands
from .episode import Episode, Stop, UnknownId
from .lm import Conversation, describe
from .records import clean, fingerprint

# Text before the title of a guess, as in the authors' code.
_LEAD_IN = re.compile(r"\A\s*(based on|[^:]*guess|[^:]*most likely)[^:]*:", re.IGNORECASE)
_Messages = list[dict[str, str]]


class CiteMEAgent:
    """The agent in one of the paper's six settings.

    Args:
        lm: the language model.
        commands: the agent's actions.
        demonstration: show the model a worked example.
        prompt_folder: prompts of CiteME's authors; by default Holdfast's own.

    Raises:
        HoldfastError: if a prompt cannot be read.
    """

    def __init__(
        self,
        lm: dspy.LM,
        commands: Commands = "search+read",
        demonstration: bool = False,
        prompt_folder: Path | None = None,
    ) -> None:
        self.lm, self.commands, self.demonstration = lm, commands, demonstration
        self.prompt = prompts.prompt(commands, demonstration, prompt_folder)

    def __call__(self, episode: Episode) -> None:
        # o1 takes no system prompt.
        role = "user" if re.search(r"(^|/)o1\b", self.lm.model) else "system"
        messages: _Messages = [
            {"role": role, "content": self.prompt.system},
            _user(f"{self.prompt.introduction}\n\n{episode.sample.excerpt}"),
        ]
        conversation = Conversation(self.lm, episode)
        if self.commands == "none":
            title = conversation.reply(messages)
            episode.guess(_LEAD_IN.sub("", title, count=1).strip())
        else:
            self._search(messages, conversation)

    def _search(self, messages: _Messages, conversation: Conversation) -> None:
        """Take actions until one of them is an answer."""
        episode = conversation.episode
        latest: set[str] = set()  # ids of the last search
        while episode.actions_left > 0:
            if episode.is_last_turn:
                messages.append(_user(prompts.LAST))
            action, argument = self._ask(messages, conversation)
            try:
                if action == "select":
                    return episode.select(argument)
                if action == "read":
                    text = episode.read(argument, among=latest)
                else:
                    papers = episode.search(argument, SEARCHES[action])
                    latest, text = {paper.id for paper in papers}, prompts.shown(papers)
            except UnknownId as error:
                text = f"{error} Its papers are: {', '.join(sorted(latest)) or 'none'}."
            messages.append(_user(text))
        raise episode.out_of_actions()

    def _ask(self, messages: _Messages, conversation: Conversation) -> tuple[str, str]:
        """Request the next action and its argument; raises `Stop` if the reply has none."""
        reply = conversation.reply(messages)
        messages.append({"role": "assistant", "content": reply})
        try:
            return parsed(reply, ACTIONS[self.commands])
        except ValueError as error:
            problem = conversation.explained(f"{error}, in: {reply[:300]}")
            raise Stop("bad_format", problem) from None

    def describe(self) -> dict[str, Any]:
        """The model, its settings, and the hash of the prompt."""
        return {
            "name": "citeagent",
            **describe(self.lm),
            "commands": self.commands,
            "demonstration": self.demonstration,
            "prompt": fingerprint([self.prompt.system, self.prompt.introduction, prompts.LAST]),
            "repairs": 0,
            "format": "citeme",
            "prompts": "authors" if self.prompt.from_authors else "ours",
        }


def parsed(reply: str, actions: tuple[str, ...]) -> tuple[str, str]:
    """The action and the argument of a JSON reply; raises `ValueError` if there are none."""
    start = reply.find("{")
    if start < 0:
        raise ValueError("it has no JSON object")
    try:
        # Allow line breaks in strings, and the end of a code block after the object.
        content = json.loads(reply[start:].strip(" \n\r\t`"), strict=False)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error.msg})") from None
    action = content.get("action")
    if not isinstance(content.get("reason"), str) or not isinstance(action, dict):
        raise ValueError("it lacks the reason or the action")
    name = action.get("name")
    if name not in actions:
        raise ValueError(f"{name!r} is none of the actions {', '.join(actions)}")
    key = prompts.COMMANDS[name][0]
    if not isinstance(action.get(key), (str, int)):
        raise ValueError(f"the action {name} lacks its {key}")
    return name, clean(str(action[key]), ARGUMENT_CHARS)


def _user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}
