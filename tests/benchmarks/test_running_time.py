"""How long runs will take."""

import pytest
from lightning.pytorch import Callback

from holdfast import HoldfastError
from holdfast.benchmarks.results.text_table import duration
from holdfast.benchmarks.suites import running_time
from holdfast.benchmarks.suites.cell import Cell
from holdfast.benchmarks.suites.execution import length, time_left
from holdfast.benchmarks.suites.running_time import foretold, seconds_a_batch
from holdfast.callbacks import record
from holdfast.methods import online_test


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


def config(images, callbacks=()):
    data = {"source": "Digits", "calibration": "digits", "difficulty": 40, "speed": 16}
    more = {"images": images, "seed": 3, "batch_size": 48, "num_workers": 1}
    return {
        "threads": 1,
        "model": {"class_path": "Tent", "init_args": {"backbone": "digits"}},
        "data": {"class_path": "CCC", "init_args": {**data, **more}},
        "trainer": {"accelerator": "cpu", "callbacks": [*callbacks]},
    }


class Slow(Callback):
    """Takes ten seconds before each step, by the clock of the test."""

    def on_test_batch_start(self, *_):
        Clock.seconds += 10


class Failing(Callback):
    def on_test_batch_start(self, *_):
        raise ValueError


class Clock:
    """A second passes whenever somebody looks at it."""

    seconds = 0

    def perf_counter(self):
        Clock.seconds += 1
        return self.seconds


def test_a_run_is_foretold_from_its_network_its_stream_and_what_watches_it(monkeypatch, tmp_path):
    """A quarter of a batch takes a second to make, and a step two: until its end, and to the next batch."""
    clock = Clock()
    for module in (running_time, record, online_test):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(running_time, "cores", lambda: 1)

    def foretold_of(*configs):
        names = {"method": "Tent", "stream": "ccc", "seed": 3}
        return foretold([Cell(names, tmp_path, config, {}) for config in configs], jobs=1)

    start, making = 5, 4
    assert foretold_of(config(480)) == duration(start + 10 * (2 + making))
    assert foretold_of(config(48_000)) == duration(start + 1_000 * (2 + making))
    assert foretold_of(config(480), config(480)) == duration(2 * (start + 10 * (2 + making)))
    slow = [{"class_path": f"{__name__}.Slow"}]
    assert foretold_of(config(480, slow)) == duration(start + 10 + 10 * (12 + making))
    limited = config(480)
    limited["trainer"]["limit_test_batches"] = 7
    assert foretold_of(limited) == duration(start + 7 * (2 + making))
    # It says itself why it fails, and the others are run.
    failing = [{"class_path": f"{__name__}.Failing"}]
    both = foretold_of(config(480), config(480, failing))
    assert both == duration(start + 10 * (2 + making) + 10 * making)
    (tmp_path / "record.jsonl").write_text('{"images": 384}\n')  # of a run that was interrupted
    assert foretold_of(config(480)) == duration(start + 2 * (2 + making))


def test_all_networks_that_are_missing_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = []
    for name in ("digits-seed1", "digits-seed2"):
        lacking = config(500)
        lacking["model"]["init_args"]["backbone"] = name
        cells.append(Cell({"method": "Tent"}, tmp_path, lacking, {}))
    with pytest.raises(HoldfastError, match=r"digits-seed1.*train.*digits-seed2"):
        foretold([*cells, *cells], jobs=1)


def test_the_time_left_follows_from_runs_of_the_same_length():
    def of(**arguments):
        data = {"class_path": "CCC", "init_args": arguments}
        return length(Cell({}, None, {"data": data}, {}))

    short, long = of(images=640, seed=1), of(images=64_000, seed=1)
    took = {of(images=640, seed=2, difficulty=40): [1.0, 3.0]}
    assert time_left([short, short], took) == 4
    assert time_left([short, long], took) == 0  # not known yet
    assert time_left([short, long], {**took, long: [200.0]}) == 202
