"""Further citations that are as valid as an excerpt's own, such as CiteGuard's annotators accepted."""

import csv
from dataclasses import replace
from pathlib import Path

from .. import HoldfastError
from ..files import reason
from .data import Dataset, accepted_titles

COLUMNS = ("id", "title")


def with_alternatives(dataset: Dataset, path: Path) -> Dataset:
    """The data set with the titles of a CSV (`id`, `title`) accepted besides its own.

    Raises:
        HoldfastError: if the file cannot be read or names no sample of the data set.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [
                (row["id"].strip(), accepted_titles(row["title"])) for row in csv.DictReader(file)
            ]
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, AttributeError) as error:
        raise HoldfastError(
            f"{path} cannot be read as alternatives ({reason(error)}): give a CSV with the columns "
            f"{' and '.join(COLUMNS)}, one valid citation per row."
        ) from None
    further: dict[str, tuple[str, ...]] = {}
    for sample, titles in rows:
        further[sample] = further.get(sample, ()) + titles
    if not further.keys() & {sample.id for sample in dataset.samples}:
        raise HoldfastError(
            f"{path} names no sample of {dataset.name}: give the ids of its column id."
        )
    return replace(
        dataset,
        samples=tuple(replace(s, titles=s.titles + further.get(s.id, ())) for s in dataset.samples),
    )
