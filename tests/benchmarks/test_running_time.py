"""How long runs will take."""

from itertools import count
from types import SimpleNamespace

import pytest

from holdfast.benchmarks.suites import running_time
from holdfast.benchmarks.suites.cell import Cell
from holdfast.benchmarks.suites.execution import length, time_left
from holdfast.benchmarks.suites.running_time import foretold, seconds_a_batch


@pytest.mark.parametrize(
    ("cores", "options", "seconds"),
    [
        pytest.param(1, {"workers": 1, "threads": 1, "jobs": 1}, 8, id="one core does everything"),
        pytest.param(2, {"workers": 1, "threads": 1, "jobs": 1}, 6, id="makes beside the step"),
        pytest.param(2, {"workers": 0, "threads": 1, "jobs": 1}, 8, id="no process beside it"),
        pytest.param(8, {"workers": 4, "threads": 1, "jobs": 1}, 2, id="four make in turn"),
        pytest.param(2, {"workers": 4, "threads": 1, "jobs": 1}, 4, id="more of them than cores"),
        pytest.param(8, {"workers": 4, "threads": 8, "jobs": 1}, 2.75, id="the step needs all"),
        pytest.param(16, {"workers": 1, "threads": 1, "jobs": 4}, 1.5, id="four runs at once"),
        pytest.param(2, {"workers": 1, "threads": 1, "jobs": 4}, 4, id="more runs than cores"),
        pytest.param(16, {"workers": 8, "threads": 0, "jobs": 1}, 2, id="a GPU is busy"),
        pytest.param(16, {"workers": 2, "threads": 0, "jobs": 1}, 3, id="a GPU waits"),
        pytest.param(16, {"workers": 8, "threads": 0, "jobs": 4}, 2, id="runs share a GPU"),
    ],
)
def test_the_slowest_part_decides(monkeypatch, cores, options, seconds):
    """Of a step of two seconds, and a batch that takes six to make."""
    monkeypatch.setattr(running_time, "cores", lambda: cores)
    assert seconds_a_batch(step=2, make=6, **options) == seconds


def test_a_run_is_foretold_from_its_network_and_its_stream(monkeypatch):
    """By a clock on which each batch and each step takes a second."""
    monkeypatch.setattr(running_time, "time", SimpleNamespace(perf_counter=count().__next__))
    monkeypatch.setattr(running_time, "cores", lambda: 1)
    data = {"source": "Digits", "calibration": "digits", "difficulty": 40, "speed": 16}

    def cell(images):
        arguments = {**data, "images": images, "seed": 3, "batch_size": 50, "num_workers": 1}
        config = {
            "threads": 1,
            "model": {"class_path": "Tent", "init_args": {"backbone": "digits"}},
            "data": {"class_path": "CCC", "init_args": arguments},
        }
        return Cell({"method": "Tent", "stream": "ccc", "seed": 3}, None, config, {})

    assert foretold([cell(500)], jobs=1) == "0:00:20"
    assert foretold([cell(250_000)], jobs=1) == "2:46:40"
    assert foretold([cell(500), cell(500)], jobs=1) == "0:00:40"


def test_the_time_left_follows_from_runs_of_the_same_length():
    def of(**arguments):
        data = {"class_path": "CCC", "init_args": arguments}
        return length(Cell({}, None, {"data": data}, {}))

    short, long = of(images=640, seed=1), of(images=64_000, seed=1)
    took = {of(images=640, seed=2, difficulty=40): [1.0, 3.0]}
    assert time_left([short, short], took) == 4
    assert time_left([short, long], took) == 0  # not known yet
    assert time_left([short, long], {**took, long: [200.0]}) == 202
