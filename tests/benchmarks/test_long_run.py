"""A run does not keep what its steps made: the number of live objects is the same after many more steps."""

import gc
import json
from pathlib import Path
from typing import Any

import torch
from common import plain_trainer
from lightning.pytorch import Callback
from processes import started

from holdfast.callbacks import AccuracyReset, RunRecord, SoftmaxScore, StreamCheckpoint
from holdfast.datamodules import Corrupted, Digits
from holdfast.methods import Tent

FIRST, LAST = 50, 150


class LiveObjects(Callback):
    """Counts the objects and tensors that are alive after FIRST steps and after LAST."""

    def __init__(self) -> None:
        self.counts: list[tuple[int, int]] = []

    def on_test_batch_end(self, trainer: Any, method: Any, *_: Any) -> None:
        if method.step_count in (FIRST, LAST):
            gc.collect()
            alive = gc.get_objects()
            self.counts.append((len(alive), sum(isinstance(x, torch.Tensor) for x in alive)))


def long_run(words: list[str]) -> None:
    """A run in the folder of this name, which also gets its counts."""
    folder = Path(words[0])
    options = {"each": 2 * LAST + 2, "batch_size": 2, "num_workers": 0}
    stream = Corrupted(Digits(), ["contrast"], **options)  # type: ignore[arg-type]
    live, score = LiveObjects(), SoftmaxScore()
    callbacks = [
        RunRecord(folder),
        StreamCheckpoint(folder / "checkpoints", every=25),
        score,
        AccuracyReset(score),
        live,
    ]
    plain_trainer(callbacks=callbacks).test(Tent("digits"), datamodule=stream, verbose=False)
    (folder / "counts.json").write_text(json.dumps(live.counts))


def test_live_objects_do_not_accumulate(tmp_path):
    """In a process of its own, whose objects are the run's."""
    with started(tmp_path, main=long_run) as process:
        output = process.told(300)
    assert process.returncode == 0, output
    (objects, tensors), (later_objects, later_tensors) = json.loads(
        (tmp_path / "counts.json").read_text()
    )
    assert later_objects - objects < 20
    assert later_tensors - tensors < 3
