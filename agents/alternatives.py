"""Further citations that are as valid as an excerpt's own, such as CiteGuard's annotators accepted."""

from dataclasses import replace
from pathlib import Path

from .. import HoldfastError
from .data import Dataset, accepted_titles
from .tables import read_table

COLUMNS = ("id", "title")


def with_alternatives(dataset: Dataset, path: Path) -> Dataset:
    """The data set with the titles of a CSV (`id`, `title`) accepted besides its own.

    Raises:
        HoldfastError: if the file cannot be read or names no sample of the data set.
    """
    table = read_table(path, COLUMNS, "alternatives")
    rows = [(row["id"].strip(), accepted_titles(row["title"])) for row in table]
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
