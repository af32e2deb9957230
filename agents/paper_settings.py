"""How a run's settings differ from those of CiteME's paper."""

from typing import Any

from .data import PUBLISHED_TEST_ROWS, Dataset
from .episode import MAX_ACTIONS, RESULTS
from .records import Header

TEMPERATURE = 0.95
FIXED_TEMPERATURE = "o1"  # accepts only temperature 1
_MAX_TOKENS = 2048  # Holdfast's
_CLAUDE_MAX_TOKENS = 1024  # what LangChain sends for Anthropic's models, and for no others


def default_max_tokens(model: str, prompt: str | None) -> int | None:
    """The maximum tokens per reply if no option says so; the authors' program sends none, or Claude's."""
    if prompt == "citeme":
        return _CLAUDE_MAX_TOKENS if "claude" in model else None
    return _MAX_TOKENS


def beside_paper(header: Header, dataset: Dataset, scores: dict[str, Any], path: str) -> str:
    """How a run compares with the paper's: not, with which differences, or by which command."""
    if not dataset.is_published:
        return f"({dataset.name} is not CiteME's data: this is not a CiteME score.)"
    if scores["n"] != PUBLISHED_TEST_ROWS or scores["missing"]:
        return "(CiteME's figures are for its test split, n = 119.)"
    if differing := differences(header, dataset):
        return f"(Not the paper's settings: {'; '.join(differing)}.)"
    return (
        "The paper's settings, except for search by the Graph API instead of the website, and citation "
        "order over the 100 most relevant papers, as in the authors' program without a browser. "
        f"Compare with the paper: holdfast paper citeme --runs DATASET.csv {path}"
    )


def differences(header: Header, dataset: Dataset) -> list[str]:
    """The differences of a run's settings from the paper's, by the options that set them."""
    agent, budget, provider = header.agent, header.budget, header.provider
    if agent.their_split:
        return [f"it is imported, and its own figures are for the split {agent.their_split!r}"]
    if agent.demonstration == "optimised":
        return ["its demonstration is an optimised program"]
    if agent.name != "citeagent":
        return [f"its agent is {agent.name}, not CiteAgent"]
    # The setting of the run, and that of the paper.
    settings: dict[str, tuple[Any, Any]] = {
        "--prompt": (agent.format, "citeme"),
        "--prompts": (agent.prompts, "authors"),
        "--repairs": (agent.repairs, 0),
    }
    model = agent.model or ""
    if FIXED_TEMPERATURE not in model:
        settings["--temperature"] = agent.temperature, TEMPERATURE
    settings["--max-tokens"] = agent.max_tokens, default_max_tokens(model, "citeme")
    settings["--lm-option"] = agent.lm_options, {}
    if agent.commands != "none":
        settings["--results"] = budget.get("results"), RESULTS
        settings["--max-actions"] = budget.get("max_actions"), MAX_ACTIONS
        settings["--search"] = provider["name"], "semantic-scholar"
        settings["--field"] = provider.get("field"), "Computer Science"
        settings["searches as published"] = provider.get("as_published", False), True
        settings["--date-cap"] = budget.get("date_cap", "excerpt"), "excerpt"
    if agent.commands == "search+read":
        settings["--read-chars"] = budget.get("read_chars"), "all"
    return [
        f"{name} {ours} instead of {theirs}"
        for name, (ours, theirs) in settings.items()
        if ours != theirs
    ]
