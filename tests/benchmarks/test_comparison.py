"""In what runs are not a paper's: pairs of suites that differ in one thing, and all experiments."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from jsonargparse import Namespace
from made_up import put
from torch import nn

from holdfast.benchmarks.papers.comparison import differences, of_training
from holdfast.benchmarks.papers.experiment import experiments
from holdfast.benchmarks.papers.paper import DOCS
from holdfast.benchmarks.results.runs import Run
from holdfast.benchmarks.suites import grid
from holdfast.benchmarks.suites.cell import Cell
from holdfast.benchmarks.suites.variants import merged
from holdfast.benchmarks.test import RunCLI
from holdfast.files import jsonable

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
    return [str(d) for d in differences(cells(*changes), cells(paper or {}))]


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
        (stream(source={"class_path": "Glyphs", "init_args": {"classes": 500}}), []),
        (stream(source="Digits"), ["source: Digits, not Glyphs"]),
        (stream(num_workers=3, on_device=True), []),  # changes no number
        (method("RDumb", every=1000, entropy_factor=0.4), []),
        (method("RDumb", every=100), ["every: 100, not 1000"]),
        (method("Tent", optimizer=RATE), ["optimizer.lr: 0.01, not 0.00025 (Tent)"]),
        (
            method("Tent", optimizer={"init_args": {"lr": 0.01}}),
            ["optimizer.lr: 0.01, not 0.00025 (Tent)"],
        ),
        (
            method(
                "Tent", optimizer={"class_path": "torch.optim.Adam", "init_args": {"lr": 2.5e-4}}
            ),
            [
                "optimizer: Adam, not SGD (Tent)",
                "optimizer.momentum: not set here; 0.9 in the paper's setup (Tent)",
            ],
        ),
        (
            {"methods": {"EATA": "eata-glyphs"}},
            ["optimizer.lr", "beta: 100, not 2000", "redundancy"],
        ),
        (callbacks({"class_path": "AETTA", "init_args": {"passes": 10}}), []),
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
        ({"common": {"trainer": {"precision": "bf16-mixed"}}}, ["trainer.precision: bf16-mixed"]),
        ({"seeds": [1]}, ["number of seeds: 1, not 2", "number of runs: 3, not 6"]),
        ({"methods": {"ETA": {"class_path": "ETA"}}}, ["methods: ETA", "number of runs: 8, not 6"]),
    ],
)
def test_one_thing_differs(change: dict[str, Any], sentences: list[str]) -> None:
    said = found(change)
    missing = [text for text in sentences if not any(text in own for own in said)]
    assert not missing, said
    assert len(said) == len(sentences), said


def test_runs_are_paired_by_their_factors() -> None:
    """Each with the paper's run of the same level, or else of the same place."""

    def suite(values: list[int], redundancy: float = 0.1) -> dict[str, Any]:
        arguments = {"every": "{every}", "redundancy": redundancy}
        own = {"methods": {"RDumb": {"init_args": arguments}}}
        return {"overrides": {"{every}": {"each": {"every": values}, **own}}}

    every = "every: 12, 25, 50, not 125, 250, 500"
    assert found(suite([12, 25, 50]), paper=suite([125, 250, 500])) == [every]
    assert found(suite([125, 250]), paper=suite([125, 250])) == []
    said = found(suite([250]), paper=suite([125, 250]))
    assert said == ["every: 250, not 125, 250", "number of runs: 6, not 8"]
    said = found(suite([250, 125], redundancy=0.2), paper=suite([125, 250]))
    assert said == ["redundancy: 0.2, not 0.1 (RDumb)"]


def test_the_same_values_in_other_runs() -> None:
    """Suites in which Tent has RDumb's rate and RDumb has Tent's."""
    slow = {"optimizer": {"init_args": {"lr": 0.001}}}
    said = found(method("Tent", **slow), paper=method("RDumb", **slow))
    assert set(said) == {
        "optimizer.lr: 0.001, not 0.00025 (Tent)",
        "optimizer.lr: 0.00025, not 0.001 (RDumb)",
    }


BOTH = {
    name: own
    for name, own in experiments().items()
    if {"embedded", "full"} <= own.suites.keys() and own.input in ("runs", "computed")
}


def test_source_models_are_trained_as_their_recipes_say(tmp_path: Path) -> None:
    runs = []
    whole = {"name": "a/cifar10-seed1.safetensors", "epochs": "200", "seed": "1"}
    embedded = {"name": "glyphs", "data": "Glyphs('train'), ...", "steps": "8000", "seed": "0"}
    short = {**whole, "epochs": "3", "seed": "2"}
    for number, facts in enumerate((whole, embedded, {}, short, {**embedded, "steps": "10"})):
        folder = tmp_path / str(number)
        names = {"method": "Tent", "stream": "s", "seed": 1, "override": ""}
        put(folder, names, {}, [0.5], facts={"weights_from": facts})
        runs.append(Run.load(folder))
    assert of_training(runs[:3]) == []
    assert [line.rpartition(": ")[2] for line in of_training(runs)] == [
        "3 epochs, not 200",
        "seed 2",
        "10 steps, not 8000",
    ]


def test_the_largest_differences_are_on_the_pages() -> None:
    """Which were once on none: severity 3 for 5, no JPEG, Fisher information of 256 images."""
    severity = {f"rdumb/{n}" for n in ("F1", "Fig2.1", "Fig2.3", "Fig2.4", "T2.1", "T2.4")}
    severity |= {"rdumb/TA.2", "rdumb/TA.3", "rdumb/holdout"}
    aetta = {f"aetta/{name}" for name in ("T1", "T2", "T3", "Fig3", "Fig5", "Fig6")}
    for names, line in (
        (severity, "severity: 3, not 5"),
        (aetta, "severities: 3, not 5"),
        (aetta - {"aetta/Fig6"}, "fisher_images: 256, not 2000"),
        ({"rdumb/runs27", "rdumb/T2.4", "rdumb/Fig2.5a"}, "quality: none, not 85"),
        ({"rdumb/T2.4"}, "every: 12, 25, 50, 100, 150, 200, not 125, 250, 500, 1000, 1500, 2000"),
    ):
        for name in names:
            assert f"\n- {line}" in (DOCS / f"{name}.md").read_text(), name


class Parsed(RunCLI):
    """Reads a configuration as a run does, and makes nothing of it."""

    def instantiate_classes(self) -> None:
        pass


@cache
def parsed(config: str) -> Namespace:
    return Parsed(json.loads(config)).config


def value(cell: Cell, place: str) -> Any:
    """What the command line makes of the setting of that name; a text of its own if there is none."""
    config = {**jsonable(cell.config), "seed_everything": False}
    found = parsed(json.dumps(config, sort_keys=True))
    first, *rest = place.split(".")
    listed: dict[str, Any] = {}
    for callback in found.trainer.callbacks or ():
        name = callback.class_path.rpartition(".")[2]
        same = sum(key.partition("_")[0] == name for key in listed)
        listed[f"{name}_{same + 1}" if same else name] = callback
    entry: Any = listed.get(first, "not there") if first not in found else found[first]
    for word in rest:
        if callable(entry):  # an optimizer by default
            made = entry([nn.Parameter(torch.zeros(1))])
            entry = Namespace(class_path=type(made).__name__, init_args=Namespace(**made.defaults))
        own = entry.get("init_args", entry) if isinstance(entry, Namespace) else {}
        if isinstance(own, dict):
            own = own.get("init_args", own)
        if word not in own:
            return "not there"
        entry = own[word]
    if callable(entry):
        return type(entry([nn.Parameter(torch.zeros(1))])).__name__
    if isinstance(entry, Namespace):
        return entry.class_path.rpartition(".")[2]
    return list(entry) if isinstance(entry, tuple) else entry


READ: set[str] = set()  # differences that several experiments have


@pytest.mark.parametrize("name", {str((a.suites, *a.only)): n for n, a in BOTH.items()}.values())
def test_no_difference_is_none(name: str) -> None:
    """Read as a run reads them, the two sides of each difference are unequal; the paper's own have none."""
    own = BOTH[name]
    theirs = own.cells("full")
    assert differences(theirs[:60], theirs[:60]) == []
    parts = () if own.input == "runs" else ("data",)
    for difference in differences(own.cells("embedded"), theirs, parts):
        assert difference.ours != difference.theirs
        if difference.pair is not None and str(difference) not in READ:
            READ.add(str(difference))
            mine, wanted = (value(cell, difference.place) for cell in difference.pair)
            assert mine != wanted, difference
