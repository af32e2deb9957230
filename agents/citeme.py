"""CiteAgent as in its paper: one conversation, JSON replies, complete papers, no retries.

Press et al., "CiteME", arXiv:2407.12861, section 3, and the authors' code: replies are parsed as there
(`lenient_json`), `read` takes ids of the last search only and `select` ids of any search, the last turn
contains a warning, and an unknown id costs an action.
"""

import re
from pathlib import Path
from typing import Any

import dspy

from . import citeme_prompts as prompts
from .actions import ACTIONS, SEARCHES, Commands, refusal
from .episode import Episode, Stop, UnknownId
from .lenient_json import action_in
from .lm import Conversation, describe
from .records import clean, fingerprint
from .search.provider import Paper, ReadError

_Messages = list[dict[str, str]]


class CiteMEAgent:
    """The agent in one of the paper's six settings.

    `clone` is a clone of the authors' repository, whose prompts and messages replace Holdfast's; raises
    `HoldfastError` if it is none, or langchain-core is missing.
    """

    def __init__(
        self,
        lm: dspy.LM,
        commands: Commands = "search+read",
        demonstration: bool = False,
        clone: Path | None = None,
    ) -> None:
        self.lm, self.commands, self.demonstration = lm, commands, demonstration
        self.prompt = prompts.prompt(commands, demonstration, clone)

    def answer(self, episode: Episode) -> None:
        # o1 takes no system prompt.
        role = "user" if re.search(r"(^|/)o1\b", self.lm.model) else "system"
        messages: _Messages = [
            {"role": role, "content": self.prompt.system},
            _user(f"{self.prompt.introduction}{episode.sample.excerpt}"),
        ]
        conversation = Conversation(episode)
        if self.commands == "none":
            episode.guess(_title_in(conversation.reply(self.lm, messages)))
        else:
            self._search(messages, conversation)

    def _search(self, messages: _Messages, conversation: Conversation) -> None:
        """Take actions until one of them is an answer."""
        episode = conversation.episode
        searches: list[list[Paper]] = []
        while episode.actions_left > 0:
            if episode.is_last_turn:
                messages.append(_user(self.prompt.last))
            action, argument = self._ask(messages, conversation)
            known = searches[-1:] if action == "read" else searches
            ids = [paper.id for papers in known for paper in papers]
            try:
                if action == "select":
                    return episode.select(argument)
                text = self._look(action, argument, episode, searches)
            except UnknownId:
                before, between, after = self.prompt.unknown
                text = f"{before}{argument}{between}{ids}{after}"
            messages.append(_user(text))
        raise episode.out_of_actions()

    def _look(
        self, action: str, argument: str, episode: Episode, searches: list[list[Paper]]
    ) -> str:
        """The text that a search or a paper gives; a search is appended to `searches`."""
        if action in SEARCHES:
            try:
                searches.append(episode.search(argument, SEARCHES[action]))
            except ReadError as error:
                return refusal(action, error)
            return prompts.shown(searches[-1]) or self.prompt.nothing
        latest = {paper.id: paper for papers in searches[-1:] for paper in papers}
        is_ours = self.prompt.source == "ours"
        try:
            return episode.read(argument, among=latest, with_headings=is_ours)
        except ReadError as error:
            text = self.prompt.unreadable
            if latest[argument].pdf is None:
                text = self.prompt.no_pdf
            return text or refusal(action, error)

    def _ask(self, messages: _Messages, conversation: Conversation) -> tuple[str, str]:
        """Request the next action and its argument; raises `Stop` if the reply has none."""
        reply = conversation.reply(self.lm, messages)
        messages.append({"role": "assistant", "content": reply})
        arguments = {name: [prompts.COMMANDS[name][0]] for name in ACTIONS[self.commands]}
        try:
            name, (argument,) = action_in(reply, arguments)
        except ValueError as error:
            problem = conversation.explained(f"{error}, in: {reply[:300]}")
            raise Stop("bad_format", problem) from None
        return name, clean(argument)

    def describe(self) -> dict[str, Any]:
        """The model, its settings, and the hash of the prompt."""
        prompt = self.prompt
        return {
            "name": "citeagent",
            **describe(self.lm),
            "commands": self.commands,
            "demonstration": self.demonstration,
            "prompt": fingerprint([prompt.system, prompt.introduction, prompt.last]),
            "repairs": 0,
            "format": "citeme",
            "prompts": prompt.source,
        }


def _title_in(reply: str) -> str:
    """The title of a guess, without a lead-in that the authors' code drops, too."""
    lead_in, _, title = reply.partition(":")
    is_lead_in = lead_in.lower().startswith("based on")
    if is_lead_in or "guess" in lead_in or "most likely" in lead_in:
        return title.strip()
    return reply


def _user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}
