"""In what runs are not a paper's: pairs of suites that differ in one thing, and all experiments."""

from typing import Any

import pytest

from holdfast.benchmarks.suites import grid
from holdfast.benchmarks.suites.cell import Cell
from holdfast.benchmarks.suites.comparison import differences
from holdfast.benchmarks.suites.grid import merged

SUITE: dict[str, Any] = {
    "out": "x",
    "seeds": [1, 2],
    "common": {
        "trainer": {"accelerator": "cpu", "callbacks": [{"class_path": "AETTA"}]},
        "model": {"init_args": {"backbone": "glyphs"}},
    },
    "streams": {"CIN-C": {"class_path": "CINC", "init_args": {"source": "Glyphs"}}},
    "methods": {"Tent": {"class_path": "Tent"}, "RDumb": {"class_path": "RDumb"}, "EATA": "eata"},
}


def cells(*changes: dict[str, Any]) -> list[Cell]:
    return list(grid.cells(merged(SUITE, *changes)))


def found(*changes: dict[str, Any], paper: dict[str, Any] | None = None) -> list[str]:
    """What is said of the suite with these changes, beside the paper's."""
    return differences(cells(*changes), cells(paper or {}))


def stream(**init_args: Any) -> dict[str, Any]:
    return {"streams": {"CIN-C": {"init_args": init_args}}}


def method(name: str, **init_args: Any) -> dict[str, Any]:
    return {"methods": {name: {"class_path": name, "init_args": init_args}}}


def callbacks(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"common": {"trainer": {"callbacks": list(entries)}}}


RATE = {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.01, "momentum": 0.9}}


@pytest.mark.parametrize(
    ("change", "sentences"),
    [
        ({}, []),
        (stream(severity=5), []),  # the default, spelt out
        (stream(severity=3), ["severity: 3, not 5"]),  # the paper's suite leaves it at its default
        (stream(quality=None), ["quality: none, not 85"]),
        (stream(num_workers=3, on_device=True), []),  # changes no number
        (
            method("Tent", optimizer={**RATE, "init_args": {"lr": 0.01, "momentum": 0.0}}),
            ["optimizer.lr: 0.01, not 0.00025 (Tent)", "optimizer.momentum: 0, not 0.9 (Tent)"],
        ),
        (
            callbacks({"class_path": "AETTA", "init_args": {"passes": 5}}),
            ["AETTA.passes: 5, not 10"],
        ),
        (callbacks(), ["AETTA: not set here; AETTA in the paper's setup"]),
        (callbacks({"class_path": "AETTA"}, {"class_path": "GDE"}), []),  # it only watches
        (
            callbacks({"class_path": "AETTA"}, {"class_path": "SegmentReset"}),
            ["SegmentReset: SegmentReset; the paper's setup has no such setting"],
        ),
        ({"seeds": [1]}, ["number of seeds: 1, not 2", "number of runs: 3, not 6"]),
        ({"methods": {"ETA": {"class_path": "ETA"}}}, ["methods: ETA", "number of runs: 8, not 6"]),
    ],
)
def test_one_thing_differs(change, sentences):
    said = found(change)
    missing = [text for text in sentences if not any(text in own for own in said)]
    assert not missing, said
    assert len(said) == len(sentences), said


def test_runs_are_paired_by_their_factors():
    """Each with the paper's run of the same level, or else of the same place."""

    def suite(values: list[int], redundancy: float = 0.1) -> dict[str, Any]:
        arguments = {"every": "{every}", "redundancy": redundancy}
        own = {"methods": {"RDumb": {"init_args": arguments}}}
        return {"overrides": {"{every}": {"each": {"every": values}, **own}}}

    every = "every: 12, 25, 50, not 125, 250, 500"
    assert found(suite([12, 25, 50]), paper=suite([125, 250, 500])) == [every]
    said = found(suite([250]), paper=suite([125, 250]))
    assert said == ["every: 250, not 125, 250", "number of runs: 6, not 8"]
    said = found(suite([250, 125], redundancy=0.2), paper=suite([125, 250]))
    assert said == ["redundancy: 0.2, not 0.1 (RDumb)"]


def test_the_same_values_in_other_runs():
    """Suites in which Tent has RDumb's rate and RDumb has Tent's."""
    slow = {"optimizer": {**RATE, "init_args": {"lr": 0.001, "momentum": 0.9}}}
    said = found(method("Tent", **slow), paper=method("RDumb", **slow))
    assert set(said) == {
        "optimizer.lr: 0.001, not 0.00025 (Tent)",
        "optimizer.lr: 0.00025, not 0.001 (RDumb)",
    }
