"""Files changed at random: each is read, or refused in a sentence; `mutants.py` tries more of them."""

import os
from pathlib import Path

import pytest
from fuzzed import SUBJECTS
from mutants import outcomes

COUNT = {"configurations": 6}  # about a second each; others are read faster


@pytest.mark.parametrize("subject", SUBJECTS)
def test_changed_files_are_read_or_refused(subject: str, tmp_path: Path) -> None:
    count = int(os.environ.get("HOLDFAST_MUTANTS", COUNT.get(subject, 100)))
    found = outcomes(subject, count, tmp_path)
    assert found["read"] + found["refused"] == count, found
