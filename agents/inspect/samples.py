"""Samples as Inspect's, and back: their metadata contain everything that scoring needs."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from inspect_ai import dataset as inspect_dataset

from ..data import Dataset, Sample


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
