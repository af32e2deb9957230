"""CiteME's published figures for runs in its settings; for other runs, the differences."""

import json
from collections.abc import Mapping
from typing import Any

from ..data import ASSETS, PUBLISHED_TEST_ROWS, Dataset
from ..episode import MAX_ACTIONS, RESULTS
from ..schema import Header
from ..score import Scores
from ..stats import wilson

TEMPERATURE = 0.95
FIXED_TEMPERATURE = ("o1",)  # models that accept only temperature 1
# Differences of every run, stated wherever the figures are shown.
ALWAYS = (
    "Not quite CiteME's setting: search by the Graph API instead of the website, citation order over the "
    "100 most relevant papers, the source excluded by a stricter match of its title."
)


def beside_published(header: Header, dataset: Dataset, scores: Scores) -> str:
    """The figures of CiteME's tables 4 and 5 for the run's setting, or the reason for omitting them."""
    if not dataset.is_published:
        return f"(CiteME's figures are not shown: {dataset.name} is not CiteME's data.)"
    if scores.n != PUBLISHED_TEST_ROWS or scores.missing:
        return (
            "(CiteME's figures are for its test split, n = 119. Complete a run with --split test to "
            "compare.)"
        )
    if differing := differences(header, dataset):
        return (
            "(CiteME's figures are not shown, as this run differs: " + "; ".join(differing) + ".)"
        )
    agent = header.agent
    lines = [f"  this run                     {scores.accuracy}"]
    for row in published()["rows"]:
        if (row["commands"], row["demonstration"]) != (agent.commands, agent.demonstration):
            continue
        low, high = wilson(row["correct"], row["n"])
        lines.append(
            f"  table {row['table']}: {row['model']:<20} {row['correct']}/{row['n']} = "
            f"{row['printed_percent']} % [{100 * low:.1f}, {100 * high:.1f}]{further(row)}"
        )
    lines.append(f"  people, two minutes each: {published()['human_percent']} %")
    return "\n".join([*lines, f"  {ALWAYS}"])


def further(row: Mapping[str, Any]) -> str:
    """Other figures that CiteME prints for a cell: outcomes, cost, and accuracy by year."""
    said = [f"{name} {n}" for name, n in row.get("outcomes", {}).items() if name != "correct"]
    if "usd_per_sample" in row:
        said.append(f"{row['usd_per_sample']} USD and {row['seconds_per_sample']} s per sample")
    if "in_2024" in row:
        before, since = (row[key]["printed_percent"] for key in ("before_2024", "in_2024"))
        said.append(f"{before} % before 2024, {since} % in it")
    return f"; {', '.join(said)}" if said else ""


def differences(header: Header, dataset: Dataset) -> list[str]:
    """The differences of a run's settings from the paper's, as text."""
    agent, budget, provider = header.agent, header.budget, header.provider
    if agent.their_split:
        return [f"it is imported, and its own figures are for the split {agent.their_split!r}"]
    if agent.name != "citeagent":
        return [f"its agent is {agent.name}, not CiteAgent"]
    said = []
    if agent.format != "citeme":
        form = {"json": "Holdfast's JSON", "plain": "plain lines"}.get(
            agent.format, "DSPy's fields"
        )
        said.append(
            f"its prompt is Holdfast's, with {form} instead of CiteME's JSON (--prompt citeme)"
        )
    elif agent.prompts != "authors":
        shown = "prompt and demonstration are" if agent.demonstration else "prompt is"
        said.append(
            f"its system {shown} Holdfast's (--prompts FOLDER reads those of CiteME's authors)"
        )
    if agent.structured:
        said.append("the server enforces a schema on replies (--structured)")
    if agent.repairs:
        said.append("unusable replies are sent back (--repairs 0)")
    if agent.commands == "search+read" and budget.read_chars != "all":
        said.append(f"a read shows {budget.read_chars or 0:,} characters (--read-chars all)")
    fixed = any(name in (agent.model or "") for name in FIXED_TEMPERATURE)
    if agent.temperature != TEMPERATURE and not fixed:
        said.append(f"temperature {agent.temperature} instead of {TEMPERATURE}")
    if agent.commands == "none":
        return said
    if budget.results != RESULTS:
        said.append(f"{budget.results} results per search instead of {RESULTS}")
    if budget.max_actions != MAX_ACTIONS:
        said.append(f"{budget.max_actions} actions instead of {MAX_ACTIONS}")
    if provider.name != "semantic-scholar":
        said.append(f"its search is {provider.name}, not Semantic Scholar")
    elif provider.field != "Computer Science":
        said.append('its search is not limited to a field (--field "Computer Science")')
    if undated := sum(sample.date is None for sample in dataset.samples):
        said.append(f"{undated} excerpts without a year have no date cap (there 2024)")
    return said


def published() -> dict[str, Any]:
    """CiteME's printed figures, from published.json."""
    return json.loads((ASSETS / "published.json").read_text(encoding="utf-8"))
