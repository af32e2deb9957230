"""The methods on a pretended accelerator, in a process of its own.

PyTorch counts the devices at a process' first backward pass, so this one must be known before it.
"""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_methods_on_an_accelerator() -> None:
    cases = Path(__file__).with_name("accelerator_cases.py")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run([*words, str(cases)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-5000:]
