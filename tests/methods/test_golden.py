"""Each method agrees with its official implementation; that a Trainer gives the same is its contract."""

import os
import subprocess
import sys

import pytest
import torch
from conftest import last_bits
from golden_methods import COMPARED, MEASURED, ROUGH
from golden_traces import Trace, check, check_measured, compared, run

ELSEWHERE = {
    **{"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
    **{"MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "OMP_NUM_THREADS": "1"},
}
TIMEOUT = 900  # seconds
BESIDE = "ccc_tent_lr0.00025 or ccc_eata_lr0.002_k8 or rotta"


@pytest.mark.parametrize("trace", COMPARED, ids=lambda trace: trace.id)
def test_trace(trace: Trace) -> None:
    """In the precision that determines most of it; `pytest -rP` prints how much is compared."""
    ours = run(trace)
    print(f"{trace.id}: {compared(trace)} of {len(ours)} steps compared")
    assert compared(trace) >= 5
    check(trace, ours)


@pytest.mark.parametrize("trace", ROUGH, ids=lambda trace: trace.id)
def test_trace_in_float32(trace: Trace) -> None:
    """Also on another machine: with other last two bits than those that the tolerances come from."""
    assert compared(trace) >= 5
    check(trace, run(trace, last_bits(seed=1000, ulps=4)))


@pytest.mark.parametrize("trace", MEASURED, ids=lambda trace: trace.id)
def test_trace_by_measured_tolerances(trace: Trace) -> None:
    check_measured(trace, run(trace))


def test_elsewhere() -> None:
    """Some traces on an older processor: this one, or what PyTorch's settings make of it."""
    here = torch.backends.cpu.get_cpu_capability() == "DEFAULT"
    env = {k: v for k, v in os.environ.items() if k not in ELSEWHERE} | ({} if here else ELSEWHERE)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    words += ["-k", f"float32 and ({BESIDE})"]
    done = subprocess.run(
        [sys.executable, *words], env=env, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.returncode == 0, done.stdout + done.stderr
