"""The methods on a pretended accelerator, in a process of its own.

PyTorch counts the devices at a process' first backward pass, so this one must be known before it.
"""

from pathlib import Path

import pytest
from processes import started


@pytest.mark.slow
def test_methods_on_an_accelerator() -> None:
    words = "-q", "-p", "no:cacheprovider", "-p", "no:xdist"
    with started(*words, Path(__file__).with_name("accelerator_cases.py"), main=pytest.main) as run:
        shown = run.told(600)
    assert run.returncode == 0, shown[-5000:]
