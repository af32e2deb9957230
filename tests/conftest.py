"""The order of the test files, and fixtures that several share; what else they share is in common.py.

pytest-xdist's first process reads this file, too, so it imports torch only in fixtures.
"""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

# First, so that of three processes none has long to go when the others end, and in an order in which those
# that wait (sync, suite, resume, stops, ray_stops) run one after another beside two that compute.
LONGEST = (
    *("test_sync", "test_golden", "test_methods", "test_suite", "test_packaging", "test_contract"),
    *("test_accelerator", "test_readme", "test_steps_and_window", "test_corruptions"),
    *("test_resume", "test_paper", "test_command_line", "test_shipped_suites", "test_site"),
    *("test_stops", "test_not_finite", "test_calibration", "test_ray_stops"),
    "test_golden_mutations",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, then the others as they were."""
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))


def pytest_collection_finish() -> None:
    """Garbage collections, of which each run of a suite ends with one, skip all that is imported."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # what is left frozen is reported as leaks


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers as a corruption is forgotten after it, and so is docs/examples/own.py."""
    from holdfast.datamodules import corruptions
    from holdfast.datamodules.corruptions.parameters import TABLES

    monkeypatch.setattr(corruptions, "_FUNCTIONS", dict(corruptions._FUNCTIONS))
    for name, rows in TABLES.items():
        monkeypatch.setitem(TABLES, name, dict(rows))
    yield
    sys.modules.pop("own", None)  # the next test's lies elsewhere


@pytest.fixture(scope="session")
def calibration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of accuracies that fall with both severities."""
    from holdfast.datamodules import Calibration
    from holdfast.datamodules.ccc import EASY

    i, j = np.mgrid[:21, :21]
    accuracy = np.broadcast_to(80 * np.exp(-(i + j) / 12), (len(EASY), len(EASY), 21, 21))
    path = tmp_path_factory.mktemp("calibration") / "made-up.npz"
    Calibration(EASY, accuracy, {}).save(path)
    return path
