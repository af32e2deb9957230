"""Our judgement as a scorer of Inspect: CiteME's matcher, the strict one, whether it was found."""

import math
from typing import Any

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from ..data import Sample
from ..episode import RETRIED
from ..matching import THRESHOLD
from ..score import judge
from .samples import sample_of

RECORD = "record"  # where a sample's record lies in its store


@scorer(metrics={"*": [mean(), stderr()]})
def citeme_scorer(threshold: float = THRESHOLD) -> Scorer:
    """Scores of 0 or 1: `correct` by CiteME's matcher, `strict`, and `found` of samples that searched.

    A solver of one's own, which leaves no record, is judged by the title that its output is. What a
    service left unanswered is not scored.
    """

    async def score(state: TaskState, target: Target) -> Score:
        sample = sample_of(state.metadata)
        record = state.store.get(RECORD) or guessed(sample.id, state.output.completion)
        return verdict(record, sample, threshold)

    return score


def verdict(record: dict[str, Any], sample: Sample, threshold: float = THRESHOLD) -> Score:
    """The scores of a record of ours."""
    row = judge(record, sample, threshold)
    answer = (record["selection"] or {}).get("title")
    about = {"outcome": row["outcome"], "found": row["found"], "detail": record["detail"]}
    if row["outcome"] in RETRIED:
        return Score.unscored(explanation=row["outcome"], metadata=about)
    found = float(row["found"] is not None) if row["searched"] else math.nan
    return Score(
        value={"correct": float(row["official"]), "strict": float(row["strict"]), "found": found},
        answer=answer,
        explanation=f"{row['outcome']}; accepted: {' | '.join(sample.titles)}",
        metadata=about,
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
