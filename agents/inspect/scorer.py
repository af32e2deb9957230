"""Our judgement as a scorer of Inspect: CiteME's matcher, the strict one, whether it was found."""

from typing import Any

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from ..data import Sample
from ..episode import RETRIED
from ..matching import THRESHOLD
from ..score import judge
from .samples import sample_of

RECORD = "record"  # key of a sample's record in its store


@scorer(metrics={"*": [mean(), stderr()]})
def citeme_scorer(threshold: float = THRESHOLD, searches: bool = True) -> Scorer:
    """Scores of 0 or 1: `correct` by CiteME's matcher, `strict`, and `found` where the agent may search.

    `found` is 0 without a search, too. A user's solver, which stores no record, is judged by the
    title that its output is. What a service left unanswered is not scored.
    """

    async def score(state: TaskState, target: Target) -> Score | None:
        sample = sample_of(state.metadata)
        record = state.store.get(RECORD) or guessed(sample.id, state.output.completion)
        return verdict(record, sample, threshold, searches)

    return score


def verdict(
    record: dict[str, Any], sample: Sample, threshold: float = THRESHOLD, searches: bool = True
) -> Score | None:
    """The scores of a record of ours, None where a service left it unanswered.

    All are finite: Inspect writes a NaN as one, and its log is no longer JSON.
    """
    row = judge(record, sample, threshold)
    if row["outcome"] in RETRIED:
        return None
    value = {"correct": float(row["official"]), "strict": float(row["strict"])}
    if searches:
        value["found"] = float(row["found"] is not None)
    return Score(
        value=value,  # type: ignore[arg-type]
        answer=(record["selection"] or {}).get("title"),
        explanation=f"{row['outcome']}; accepted: {' | '.join(sample.titles)}",
        metadata={"outcome": row["outcome"], "found": row["found"], "detail": record["detail"]},
    )


def guessed(sample_id: str, title: str) -> dict[str, Any]:
    """The record of an answer of which nothing but its title is known."""
    title = title.strip()
    return {
        "sample": sample_id,
        "repeat": 0,
        "status": "guessed" if title else "no_selection",
        "detail": "",
        "selection": {"id": None, "title": title, "ids": []} if title else None,
        "seconds": 0.0,
        "events": [],
    }
