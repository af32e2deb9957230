"""Damaged or malicious data: each ends with a one-sentence error."""

import multiprocessing.connection
import re
import socket
from functools import partial
from multiprocessing.resource_sharer import DupFd
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from common import tiny_net
from PIL import Image
from torch.optim import SGD
from torch.utils.data import get_worker_info

from holdfast import HoldfastError
from holdfast.benchmarks.test import main as run_command
from holdfast.datamodules import Calibration, Clean, DatasetSource
from holdfast.datamodules.loader import WorkerDied, death_in_a_sentence
from holdfast.methods import Tent

TWO = np.zeros((2, 2, 21, 21), np.float32)


@pytest.mark.parametrize(
    ("accuracy", "why"),
    [
        (TWO[:, :1], "not a table of 2 x 2"),
        (TWO.astype(complex), "not a table of 2 x 2"),
        (TWO - 1, "not 0 to 100 percent"),
        (TWO + 101, "not 0 to 100 percent"),
    ],
)
def test_calibrations(tmp_path: Path, accuracy: np.ndarray, why: str) -> None:
    path = tmp_path / "c.npz"
    np.savez(path, names=np.array(["fog", "frost"]), accuracy=accuracy, provenance=np.array("{}"))
    with pytest.raises(HoldfastError, match=rf"c\.npz .*{why}"):
        Calibration.load(path)


def test_files_that_are_no_calibration(tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    with path.open("wb") as file:
        np.save(file, TWO)
    with pytest.raises(HoldfastError, match=re.escape(str(path))):
        Calibration.load(path)


def test_a_configuration_that_is_no_yaml(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("model: [")
    with pytest.raises(HoldfastError, match="parsing config"):
        run_command(["--config", str(path), "--out", str(tmp_path / "run")])


def test_labels_below_minus_one_are_refused(tmp_path: Path) -> None:
    pictures = [(Image.new("RGB", (8, 8)), label) for label in (0, -1, -2)]
    stream = Clean(DatasetSource(pictures[:2], 8, classes=1), batch_size=2, num_workers=0)
    assert sorted(next(iter(stream.test_dataloader())).labels.tolist()) == [-1, 0]
    stream = Clean(DatasetSource(pictures, 8, classes=1), batch_size=3, num_workers=0)
    with pytest.raises(HoldfastError, match="label -2\. Use class numbers from 0"):
        list(stream.test_dataloader())


class NotHandedOver(list):
    """In a worker, end the connection by which the main process fetches a batch, as its death does."""

    def __getitem__(self, index: int) -> tuple:  # type: ignore[override]
        if get_worker_info():
            multiprocessing.connection.deliver_challenge = end_connection
        return super().__getitem__(index)


def end_connection(connection: Any, authkey: bytes) -> None:
    connection.close()
    Event().wait()


def test_a_worker_that_dies_as_it_hands_over_a_batch() -> None:
    pictures = NotHandedOver([(Image.new("RGB", (8, 8)), 0)] * 4)
    stream = Clean(DatasetSource(pictures, 8, classes=1), batch_size=2, num_workers=1)
    with pytest.raises(WorkerDied, match="its connection ended"), death_in_a_sentence():
        list(stream.test_dataloader())


class LeftAlone(list):
    """In a worker, a connection like those of the main process that ends before it has a batch."""

    def __getitem__(self, index: int) -> tuple:  # type: ignore[override]
        address, _ = DupFd(2)._id  # type: ignore[attr-defined]
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(address)
        return super().__getitem__(index)


def test_workers_are_silent_if_the_main_process_leaves(capfd: pytest.CaptureFixture[str]) -> None:
    pictures = LeftAlone([(Image.new("RGB", (8, 8)), 0)] * 4)
    stream = Clean(DatasetSource(pictures, 8, classes=1), batch_size=2, num_workers=1)
    # It is served in turn: what precedes a batch has been served when the batch is there.
    assert len(list(stream.test_dataloader())) == 2
    assert "Traceback" not in capfd.readouterr().err


def test_an_empty_source() -> None:
    with pytest.raises(HoldfastError, match=r"empty.* source"):
        Clean(DatasetSource([], 8, classes=1))


@pytest.mark.parametrize("rate", [-1.0, float("inf"), float("nan")])
def test_learning_rates(rate: float) -> None:
    with pytest.raises(HoldfastError, match=r"learning rate"):
        Tent(tiny_net(), partial(SGD, lr=rate))


def test_networks_of_half_precision() -> None:
    with pytest.raises(HoldfastError, match=r"half precision.* backbone\.float\(\)"):
        Tent(tiny_net().half())
