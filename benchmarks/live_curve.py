"""The accuracy of a run over its stream, shown while the run makes it."""

import sys
from itertools import pairwise
from statistics import fmean
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from tqdm import tqdm

from ..callbacks.curves import batches_ahead

BARS = "▁▂▃▄▅▆▇█"
WIDTH, TOP = 48, 0.64  # bars of a whole stream; the accuracy at which a bar is highest
PARTS = 4  # lines of a run whose output is not a terminal


def bars(values: list[float], total: int) -> str:
    """Accuracies in [0,1] of a stream's first batches as bars, `WIDTH` for all of its `total` batches.

    >>> bars([0.0, 0.0, 0.3, 0.3], 8)
    '▁▁▁▁▁▁▁▁▁▁▁▁▄▄▄▄▄▄▄▄▄▄▄▄'
    """
    ends = [round(total * k / WIDTH) for k in range(WIDTH + 1)]
    windows = [(min(a, b - 1), b) for a, b in pairwise(ends) if 0 < b <= len(values)]
    means = [fmean(values[a:b]) for a, b in windows]
    return "".join(BARS[min(int(len(BARS) * mean / TOP), len(BARS) - 1)] for mean in means)


class LiveCurve(Callback):
    """Shows the accuracy so far of a run with labels: in a terminal a line of bars that grows, in place of
    the Trainer's progress bar; elsewhere the accuracy in each quarter of the stream.
    """

    def __init__(self) -> None:
        self.values: list[float] = []  # the accuracy of each batch

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if trainer.progress_bar_callback is not None:
            trainer.progress_bar_callback.disable()

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.total = len(self.values) + int(batches_ahead(trainer))
        self.line = tqdm(bar_format="{desc}", file=sys.stdout, disable=None, leave=True)

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *_: Any
    ) -> None:
        self.values.append(float(outputs["accuracy"]))
        name, done = type(pl_module).__name__, len(self.values)
        shown = f"{name:8}{bars(self.values, self.total):{WIDTH}}{fmean(self.values):7.1%}"
        self.line.set_description_str(shown, refresh=False)
        self.line.update()
        if self.line.disable and done * PARTS % self.total < PARTS:
            part = self.values[-max(1, self.total // PARTS) :]
            steps = f"steps {done - len(part) + 1} to {done} of {self.total}"
            print(f"{name}, {steps}: accuracy {fmean(part):.1%}")

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.line.close()

    def state_dict(self) -> dict[str, Any]:
        return {"values": self.values}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.values = state_dict["values"]
