"""Each method agrees with its official implementation, in a bare loop and inside a Trainer."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TensorStream, last_bits, plain_trainer
from golden_methods import COMPARED, MEASURED, SINGLE
from golden_traces import Trace, check, check_measured, compared, inputs, prepared, run
from lightning.pytorch import Callback

ELSEWHERE = {
    **{"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
    **{"MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "OMP_NUM_THREADS": "1"},
}
TIMEOUT = 900  # seconds
ROUGH = [trace for trace in COMPARED if trace.dtype == torch.float32]


@pytest.mark.parametrize("trace", COMPARED, ids=lambda trace: trace.id)
def test_trace(trace: Trace) -> None:
    """`pytest -rP` prints how much of each trace is compared."""
    ours = run(trace)
    print(f"{trace.id}: {compared(trace)} of {len(ours)} steps compared")
    assert compared(trace) >= 5
    check(trace, ours)


@pytest.mark.parametrize("trace", MEASURED, ids=lambda trace: trace.id)
def test_trace_in_float64(trace: Trace) -> None:
    check_measured(trace, run(trace))


@pytest.mark.parametrize("trace", ROUGH, ids=lambda trace: trace.id)
def test_tolerances_are_not_those_of_one_machine(trace: Trace) -> None:
    """Runs whose last two bits are others, none of those that the tolerances come from, pass, too."""
    check(trace, run(trace, last_bits(seed=1000, ulps=4)))


def test_elsewhere() -> None:
    """The traces on an older processor: this one, or what PyTorch's settings make of it."""
    here = torch.backends.cpu.get_cpu_capability() == "DEFAULT"
    env = {k: v for k, v in os.environ.items() if k not in ELSEWHERE} | ({} if here else ELSEWHERE)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    words += ["-k", "test_trace and float32"]
    done = subprocess.run(
        [sys.executable, *words], env=env, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Collect(Callback):
    """The logits of every step."""

    def __init__(self) -> None:
        self.logits: list[np.ndarray] = []

    def on_test_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:
        self.logits.append(outputs["logits"])


@pytest.mark.parametrize(
    "trace",
    [*SINGLE, *(trace._replace(dtype=torch.float32) for trace in MEASURED[::3])],
    ids=lambda trace: trace.id,
)
def test_trainer_equals_bare_loop(trace: Trace) -> None:
    """For a dozen steps: by then memories are full, and RDumb has been reset."""
    images, collect = inputs(trace)[:12], Collect()
    bare, trained = prepared(trace), prepared(trace)
    bare.fit(images[: trace.fitted])
    trained.source_images = trace.fitted * images.shape[1]
    logits = [bare.adapt(batch) for batch in images]
    stream = TensorStream(images)
    plain_trainer(callbacks=[collect]).test(trained, datamodule=stream, verbose=False)
    assert all(map(torch.equal, logits, collect.logits))
    for ours, other in zip(bare.parameters(), trained.parameters(), strict=True):
        assert torch.equal(ours, other)
    assert bare.step_count == trained.step_count == len(images)
