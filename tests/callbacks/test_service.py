"""One Watch behind many threads: the FastAPI service of the docs."""

import sys
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from importlib import import_module
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from common import tiny_net

from holdfast.callbacks import PeriodicReset, SoftmaxScore, Watch
from holdfast.datamodules import Digits
from holdfast.methods import Tent

testclient = pytest.importorskip("fastapi.testclient")
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def as_file(images: np.ndarray) -> bytes:
    file = BytesIO()
    np.save(file, images)
    return file.getvalue()


def test_24_requests_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    service = import_module("service")
    sys.modules.pop("service")
    images = Digits().images[:192].permute(0, 2, 3, 1).numpy()
    labels = Digits().labels[:192]
    with testclient.TestClient(service.app) as client, ThreadPoolExecutor(24) as pool:
        bodies = [as_file(part) for part in np.split(images, 24)]
        answers = list(pool.map(lambda body: client.post("/classify", content=body), bodies))
        assert [answer.status_code for answer in answers] == [200] * 24
        classes = torch.tensor([n for answer in answers for n in answer.json()["classes"]])
        assert (classes == labels).float().mean() > 0.9
        assert service.watch.method.step_count == 24
        refused = client.post("/classify", content=as_file(images[:2, :, :, :1]))
        assert (refused.status_code, service.watch.method.step_count) == (422, 24)
        assert client.get("/health").json()["alarm"] is False


def test_threads_take_turns_and_a_copy_has_a_lock_of_its_own() -> None:
    """As many steps and resets as calls, and states from between two steps."""
    watch = deepcopy(Watch(Tent(tiny_net()), [SoftmaxScore()], PeriodicReset(5)))
    with ThreadPoolExecutor(8) as pool:
        steps = [pool.submit(watch.step, torch.rand(4, 3, 8, 8)) for _ in range(24)]
        states = [pool.submit(watch.state_dict) for _ in range(4)]
        assert all(step.result().isfinite().all() for step in steps)
    assert watch.method.step_count == 24
    for state in states:
        watch.load_state_dict(state.result())
