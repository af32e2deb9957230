"""A run does not keep what its steps made: the number of live objects is the same after many more steps."""

import gc
from typing import Any

import torch
from common import plain_trainer
from lightning.pytorch import Callback

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


def test_live_objects_do_not_accumulate(tmp_path):
    options = {"each": 2 * LAST + 2, "batch_size": 2, "num_workers": 0}
    stream = Corrupted(Digits(), ["contrast"], **options)
    live, score = LiveObjects(), SoftmaxScore()
    saving = StreamCheckpoint(tmp_path / "checkpoints", every=25)
    callbacks = [RunRecord(tmp_path), saving, score, AccuracyReset(score), live]
    plain_trainer(callbacks=callbacks).test(Tent("digits"), datamodule=stream, verbose=False)
    (objects, tensors), (later_objects, later_tensors) = live.counts
    assert later_objects - objects < 20
    assert later_tensors - tensors < 3
