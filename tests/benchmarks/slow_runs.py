"""Runs that nearly always wait for a batch, so that a signal finds them there, in groups of their own."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import yaml
from common import BATCH
from processes import Command, started
from small_suites import small_stream

STEPS = 14
SLOW = """
import time
from pathlib import Path
from holdfast.datamodules import Digits

class Slow(Digits):
    def load(self, *args):
        time.sleep(PAUSE)
        return super().load(*args)

class Stuck(Digits):
    def load(self, *args):
        Path("stuck").touch()
        while True: pass
"""


def config(source: str = "Slow", **changes: Any) -> dict[str, Any]:
    """A run whose main process nearly always waits for a batch."""
    given = {"source": f"slow.{source}", "images": STEPS * BATCH, "num_workers": 2}
    data = small_stream(**{**given, **changes})
    return {"data": data, "trainer": {"accelerator": "cpu"}}


def write(folder: Path, content: dict[str, Any], pause: float = 0.3) -> Path:
    """The file of a run or a suite, beside its source."""
    (folder / "slow.py").write_text(SLOW.replace("PAUSE", str(pause)))
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def group(folder: Path, *words: str | Path) -> AbstractContextManager[Command]:
    """`holdfast WORDS` as the head of a process group of its own, none of which outlives the test."""
    return started(*words, folder=folder, session=True)
