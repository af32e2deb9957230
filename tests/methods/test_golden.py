"""Each method agrees with its official implementation; that a Trainer gives the same is its contract."""

import pytest
from common import last_bits
from golden_methods import COMPARED, MEASURED, ROUGH
from golden_traces import Trace, check, check_measured, compared, run


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
