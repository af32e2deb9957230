"""Samples in Inspect's format, whose metadata contain everything needed for scoring, and their scorer."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from inspect_ai import dataset as inspect_dataset
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from ..data import Dataset, Sample
from ..matching import THRESHOLD
from ..schema import RETRIED, Record, checked
from ..score import judge

RECORD = "record"  # key of a sample's record in its store


@scorer(metrics={"*": [mean(), stderr()]})
def citeme_scorer(threshold: float = THRESHOLD, searches: bool = True) -> Scorer:
    """Scores of 0 or 1: `correct` by CiteME's matcher, `strict`, and `found` if the agent may search.

    `found` is also 0 if the agent did not search. For a solver that stores no record, its output is the
    title. Samples that end in a provider error or crash are not scored.
    """

    async def score(state: TaskState, target: Target) -> Score | None:
        sample = sample_of(state.metadata)
        record = record_in(state.store) or Record.guessed(
            sample.id, state.output.completion.strip()
        )
        return verdict(record, sample, threshold, searches)

    return score


def verdict(
    record: Record, sample: Sample, threshold: float = THRESHOLD, searches: bool = True
) -> Score | None:
    """The scores of a record; None for one that ended in a provider error or crash.

    All are finite, as Inspect would write NaN, which is not JSON.
    """
    row = judge(record, sample, threshold)
    if row.outcome in RETRIED:
        return None
    value = {"correct": float(row.official), "strict": float(row.strict)}
    if searches:
        value["found"] = float(row.found is not None)
    return Score(
        value=value,  # type: ignore[arg-type]
        answer=record.selection.title if record.selection else None,
        explanation=f"{row.outcome}; accepted: {' | '.join(sample.titles)}",
        metadata={"outcome": row.outcome, "found": row.found, "detail": record.detail},
    )


def record_in(store: Any) -> Record | None:
    """The record in a sample's store (a `Store`, or a mapping in a log); None if there is none."""
    content = store.get(RECORD)
    return checked(content, Record) if content else None


def samples(dataset: Dataset) -> inspect_dataset.MemoryDataset:
    """A data set of Inspect: excerpts as inputs, accepted titles as targets."""
    return inspect_dataset.MemoryDataset(
        [
            inspect_dataset.Sample(
                id=sample.id,
                input=sample.excerpt,
                target=list(sample.titles),
                metadata=metadata(sample),
            )
            for sample in dataset.samples
        ],
        name=dataset.name,
    )


def metadata(sample: Sample) -> dict[str, Any]:
    """The sample's fields as plain values."""
    return {**asdict(sample), "titles": list(sample.titles)}


def sample_of(values: Mapping[str, Any]) -> Sample:
    """The sample from `metadata`; further values are ignored."""
    fields = {name: values[name] for name in Sample.__dataclass_fields__}
    return Sample(**{**fields, "titles": tuple(fields["titles"])})
