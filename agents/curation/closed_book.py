"""What a model answers from memory is dropped, as CiteME dropped 124 of 254 (section 2)."""

from typing import Any

from ... import HoldfastError
from ..data import Dataset, Sample
from ..episode import RETRIED
from ..results import Key
from ..score import judge

Records = dict[Key, dict[str, Any]]


def known_by_heart(
    records: Records, dataset: Dataset, tries: int, threshold: float
) -> list[Sample]:
    """The samples that at least one of `tries` answers got right, by CiteME's matcher.

    Raises:
        HoldfastError: if a sample has fewer answers, as it might yet be known.
    """
    known = []
    for sample in dataset.samples:
        answers = [
            record
            for (name, _), record in records.items()
            if name == sample.id and record["status"] not in RETRIED
        ]
        if any(judge(record, sample, threshold)["official"] for record in answers):
            known.append(sample)
        elif len(answers) < tries:
            raise HoldfastError(
                f"{sample.id} has {len(answers)} of {tries} answers: finish the run, or give a smaller "
                "--tries."
            )
    return known
