"""CiteME's prompt: parts printed in its paper, completed by Holdfast or from the authors' files.

The paper (arXiv:2407.12861, appendix E) prints the message that introduces an excerpt and the format of
replies and search results, but not the system prompt and the demonstrations. Those are in
`prompt_templates/*.txt` of https://github.com/bethgelab/CiteME and are not bundled here.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from .actions import ACTIONS, Commands, demonstrated, demonstrations
from .data import reading
from .search.provider import Paper

_FORMAT = "<FORMAT_INSTRUCTIONS>"  # replaced by the description of the commands
_FORMAT_FILE = "format_instructions.txt"  # optional, in the authors' folder: their description
AUTHORS_FILES: dict[tuple[Commands, bool], str] = {
    ("none", False): "zero_shot_no_search.txt",
    ("none", True): "few_shot_no_search.txt",
    ("search", False): "zero_shot_search.txt",
    ("search", True): "few_shot_search_no_read.txt",
    ("search+read", False): "zero_shot_search.txt",
    ("search+read", True): "few_shot_search.txt",
}

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
LAST = "This is your last action. Select a paper now."
_NOTHING_FOUND = "The search found no paper. Use another query."
COMMANDS = {
    "search_relevance": ("query", "search for papers, the best matching ones first"),
    "search_citation_count": ("query", "search for papers, the most cited ones first"),
    "read": ("paper_id", "read the text of a paper of the last search"),
    "select": ("paper_id", "choose a paper of a search as the answer, which ends the task"),
}


@dataclass(frozen=True)
class Prompt:
    """The system prompt, the text before an excerpt, and whether the authors' files were used."""

    system: str
    introduction: str
    from_authors: bool


def prompt(commands: Commands, demonstration: bool, folder: Path | None = None) -> Prompt:
    """The prompt for one of CiteME's six settings; `folder` contains the authors' files.

    Raises:
        HoldfastError: if the folder lacks the setting's file.
    """
    if folder:
        system = _from_file(folder / AUTHORS_FILES[commands, demonstration])
        if commands != "none":
            path = folder / _FORMAT_FILE
            instructions = _from_file(path) if path.exists() else _described(commands)
            system = system.replace(_FORMAT, instructions)
    elif commands == "none":
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
    return Prompt(system, introduction, folder is not None)


def _described(commands: Commands) -> str:
    """The commands and the JSON format of replies, in Holdfast's words."""
    lines = [
        f'- {{"name": "{name}", "{COMMANDS[name][0]}": ...}}: {COMMANDS[name][1]}'
        for name in ACTIONS[commands]
    ]
    return "\n".join(
        [
            'In every turn reply with one JSON object, {"reason": ..., "action": ...}, and nothing '
            "else. The reason is a short explanation. The action is one of",
            *lines,
        ]
    )


def shown(papers: list[Paper]) -> str:
    """Search results as in appendix E: id, title, abstract, citation count."""
    if not papers:
        return _NOTHING_FOUND
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


def _from_file(path: Path) -> str:
    """The text of a file of CiteME's authors; raises `HoldfastError` if it cannot be read."""
    wanted = "the folder prompt_templates of CiteME's repository with --prompts, or omit it"
    with reading(path, "a prompt", wanted):
        return path.read_text(encoding="utf-8")
