"""CiteME's prompt: parts printed in its paper, completed by Holdfast or from the authors' repository.

The paper (arXiv:2407.12861, appendix E) prints the message that introduces an excerpt and the format of
replies and search results, but not the system prompt, the demonstrations and the other messages.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .actions import ACTIONS, Commands, demonstrated, demonstrations
from .authors_prompt import authors_texts, is_original
from .search.provider import Paper

# From appendix E, for the setting with all commands and a demonstration.
_INTRODUCTION = (
    "You are now given an excerpt. Find me the paper cited in the excerpt, using the tools described "
    "above."
)
ADVICE = (
    " Please make sure that the paper you select really corresponds to the excerpt: there will be "
    "details mentioned in the excerpt that should appear in the paper. If you read an abstract and it "
    "seems like it could be the paper we’re looking for, read the paper to make sure. Also: sometimes "
    "you’ll read a paper that cites the paper we’re looking for. In such cases, please go to the "
    "references in order to find the full name of the paper we’re looking for, and search for it, and "
    "then select it."
)

# The rest is Holdfast's.
_TASK = (
    "You know the literature on machine learning. From an excerpt of a paper one citation was taken "
    "out; [CITATION] marks the place and means nothing else."
)
_GUESS = "Name the paper that was cited: its full title only. If you are not sure, guess."
_TITLE_ONLY = "Here is an excerpt. Give the title of the paper cited in it, and nothing else."
COMMANDS = {
    "search_relevance": ("query", "search for papers, the best matching ones first"),
    "search_citation_count": ("query", "search for papers, the most cited ones first"),
    "read": ("paper_id", "read the text of a paper of the last search"),
    "select": ("paper_id", "choose a paper of a search as the answer, which ends the task"),
}


@dataclass(frozen=True)
class Prompt:
    """All texts of a setting that the model is shown apart from papers and the excerpt.

    `unknown` is the text around an unknown id and the list of known ids. `no_pdf` and `unreadable` stand
    for the reason why a paper cannot be read, which is shown if they are empty. `source` says whose texts
    these are: "ours", "authors", or "changed" for a clone that differs from the paper's.
    """

    system: str
    introduction: str
    last: str = "This is your last action. Select a paper now."
    nothing: str = "The search found no paper. Use another query."
    unknown: Sequence[str] = ("No search has shown a paper ", ". The known papers are ", ".")
    no_pdf: str = ""
    unreadable: str = ""
    source: str = "ours"


def prompt(commands: Commands, demonstration: bool, clone: Path | None = None) -> Prompt:
    """The texts of one of CiteME's six settings, in Holdfast's words or those of a clone."""
    if clone:
        texts = authors_texts(clone, commands, demonstration)
        is_theirs = is_original(texts, commands, demonstration)
        return Prompt(**texts, source="authors" if is_theirs else "changed")
    if commands == "none":
        pairs = demonstrations()["none"] if demonstration else []
        examples = [f"Excerpt: {p['excerpt']}\nAnswer: {p['title']}" for p in pairs]
        system = "\n\n".join([f"{_TASK} {_GUESS}", *examples])
    else:
        system = f"{_TASK} Find the paper that was cited.\n\n{_described(commands)}"
        if demonstration:
            system += f"\n\nAn example:\n\n{_trajectory(commands)}"
    introduction = _INTRODUCTION if commands != "none" else _TITLE_ONLY
    if demonstration and commands == "search+read":
        introduction += ADVICE
    return Prompt(system, f"{introduction}\n\n")


def _described(commands: Commands) -> str:
    """The commands and the JSON format of replies, in Holdfast's words."""
    lines = [
        'In every turn reply with one JSON object, {"reason": ..., "action": ...}, and nothing else. The '
        "reason is a short explanation. The action is one of"
    ]
    for name in ACTIONS[commands]:
        argument, about = COMMANDS[name]
        lines.append(f'- {{"name": "{name}", "{argument}": ...}}: {about}')
    return "\n".join(lines)


def shown(papers: list[Paper]) -> str:
    """Search results as in appendix E: id, title, abstract, citation count."""
    return "\n\n".join(
        f"- Paper ID: {p.id}\n   Title: {p.title}\n   Abstract: {p.abstract}\n"
        f"   Citation Count: {p.citations}"
        for p in papers
    )


def reply_of(reason: str, action: str, argument: str) -> str:
    """A reply in the form of appendix E."""
    return json.dumps({"reason": reason, "action": {"name": action, COMMANDS[action][0]: argument}})


def _trajectory(commands: Commands) -> str:
    """Holdfast's demonstration as a conversation."""
    excerpt, turns = demonstrated(commands)
    lines = [f"User: {_INTRODUCTION}\n\n{excerpt}"]
    for turn, seen in turns:
        lines.append(f"Assistant: {reply_of(**turn)}")
        observation = seen if isinstance(seen, str) else shown(seen)
        lines += [f"User: {observation}"] if observation else []
    return "\n\n".join(lines)
