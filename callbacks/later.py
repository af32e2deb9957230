"""Copies from host to accelerator and back, and numbers that stay there until several steps are read."""

import time
from functools import reduce
from typing import Any

import torch
from torch import Tensor


def on_host(*tensors: Tensor) -> list[Tensor]:
    """Tensors of one shape on the CPU, by one transfer; integers must be below 2^24."""
    if all(tensor.device.type == "cpu" for tensor in tensors):
        return list(tensors)
    kind = reduce(torch.promote_types, (t.dtype for t in tensors), torch.float32)
    whole = torch.stack([t.detach().to(kind) for t in tensors]).cpu()
    return [part.to(tensor.dtype) for part, tensor in zip(whole, tensors, strict=True)]


def on_device(values: Tensor, device: torch.device) -> Tensor:
    """Copy values [...] of the host to a device without waiting for what the device still computes."""
    # MPS would read them when they may be gone (pytorch/pytorch#189690).
    if device.type in ("cpu", "mps"):
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


class Later:
    """Scalars by name, with associated data, that are waiting to be read.

    >>> later = Later()
    >>> later.add({"loss": torch.tensor(0.5)}, "step 0")  # to be read now: a CPU has no need to wait
    True
    >>> later.read()
    [({'loss': 0.5}, 'step 0')]

    Args:
        steps: maximum number of steps that are queued, on an accelerator.
        seconds: maximum time for which they are queued.
    """

    def __init__(self, steps: int = 50, seconds: float = 1.0) -> None:
        self.steps, self.seconds, self.since = steps, seconds, time.monotonic()
        self.waiting: list[tuple[dict[str, Any], Any]] = []

    def add(self, values: dict[str, Any], note: Any) -> bool:
        """Queue a step's values; returns whether it is time to read."""
        self.waiting.append((values, note))
        full = len(self.waiting) >= self.steps
        far = [v for v in values.values() if isinstance(v, Tensor) and v.device.type != "cpu"]
        return full or not far or time.monotonic() - self.since >= self.seconds

    def read(self) -> list[tuple[dict[str, float], Any]]:
        """All queued values as numbers; empties the queue."""
        waiting, self.waiting, self.since = self.waiting, [], time.monotonic()
        places = [
            (number, name)
            for number, (values, _) in enumerate(waiting)
            for name, value in values.items()
            if isinstance(value, Tensor) and value.device.type != "cpu"
        ]
        if places:
            far = [waiting[number][0][name].reshape(()) for number, name in places]
            for (number, name), value in zip(places, on_host(*far), strict=True):
                waiting[number][0][name] = value
        return [({k: float(v) for k, v in values.items()}, note) for values, note in waiting]
