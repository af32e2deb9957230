"""When the logits of a step were ready and when its update ended, without a wait for an accelerator."""

import time
from typing import Any

import torch
from torch import Tensor


class Clock:
    """The marks of a step: its start, each output of a network, and its end.

    On a CUDA device they are events in the current stream, which nobody waits for until they are read;
    elsewhere the host's time.
    """

    def __init__(self) -> None:
        self.on_device = False
        self.started: Any = None
        self.outputs: list[tuple[Tensor, Any]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return Clock, ()  # a copy of a method has a clock of its own: events cannot be copied

    def mark(self) -> Any:
        """This moment."""
        if not self.on_device:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def start(self, device: torch.device) -> None:
        """Begin a step on a device."""
        self.on_device, self.outputs = device.type == "cuda", []
        self.started = self.mark()

    def output(self, logits: Tensor) -> None:
        """Note the logits [B,C] of a network."""
        if self.started is not None:
            self.outputs.append((logits.detach(), self.mark()))

    def stop(self, logits: Tensor) -> "dict[str, Elapsed]":
        """The times of the step that returns these logits [B,C]: `logits_ready` and `update_ended`.

        Logits are ready when the network had computed them; those that are computed from several outputs,
        or after the update, when the step ends.
        """
        end = self.mark()
        ready = [mark for output, mark in self.outputs if _same_memory(output, logits)]
        started, self.started, self.outputs = self.started, None, []
        marks = {"logits_ready": ready[-1] if ready else end, "update_ended": end}
        return {name: Elapsed(started, mark) for name, mark in marks.items()}


class Elapsed:
    """The seconds between two marks, as a number when it is read."""

    def __init__(self, start: Any, end: Any) -> None:
        self.start, self.end = start, end

    def __float__(self) -> float:
        if isinstance(self.start, float):
            return self.end - self.start
        self.end.synchronize()  # no wait after the step's numbers have been read
        return self.start.elapsed_time(self.end) / 1000

    def __reduce__(self) -> tuple[Any, ...]:
        return Elapsed, (0.0, float(self))


def _same_memory(one: Tensor, other: Tensor) -> bool:
    try:
        return one.untyped_storage()._cdata == other.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # a tensor within torch.func has no memory
        return False
