"""Files of suites whose runs take seconds, and the streams of digits in them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from common import DATA, model


def small_stream(**init_args: Any) -> dict[str, Any]:
    """CCC on digits for a few batches, with other arguments."""
    return {**DATA, "init_args": {**DATA["init_args"], **init_args}}


def corrupted_digits(corruption: str, **init_args: Any) -> dict[str, Any]:
    """Digits with one corruption, without workers."""
    given = {"source": "Digits", "corruptions": [corruption], "num_workers": 0}
    return {"class_path": "Corrupted", "init_args": {**given, **init_args}}


def write_suite(
    folder: Path,
    methods: Iterable[str] | dict[str, dict[str, Any]],
    streams: dict[str, Any],
    /,
    **keys: Any,
) -> Path:
    """folder/suite.yaml: methods, by name with their defaults, on the CPU; runs go below folder/runs.

    keys: the suite's other keys, or these; `common` and its `trainer` are added to.
    """
    common = {"trainer": {}, **keys.pop("common", {})}
    if isinstance(common["trainer"], dict):
        common["trainer"] = {"accelerator": "cpu", **common["trainer"]}
    named = methods if isinstance(methods, dict) else {name: model(name) for name in methods}
    suite = {"out": str(folder / "runs"), "common": common, "streams": streams, "methods": named}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "suite.yaml"
    path.write_text(yaml.safe_dump(suite | keys, sort_keys=False))
    return path
