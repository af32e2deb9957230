"""Batches that a CUDA GPU finishes beside the step before them."""

from collections.abc import Iterator

import torch

from ..batch import Batch


def ahead(batches: Iterator[Batch], device: torch.device) -> Iterator[Batch]:
    """Batches whose making `next` gives to the device, each while the one before it is used.

    The work of a batch is queued in a CUDA stream of its own before its predecessor is handed over, so
    that it runs beside the predecessor's step. Other devices have no such queue: `batches` as they are.
    """
    if device.type != "cuda":
        yield from batches
        return
    side = torch.cuda.Stream(device)
    ready: tuple[Batch, torch.cuda.Event] | None = None
    while True:
        with torch.cuda.stream(side):
            batch = next(batches, None)
            made = side.record_event()
        if ready is not None:
            yield _handed_over(*ready, device)
        if batch is None:
            return
        ready = batch, made


def _handed_over(batch: Batch, made: torch.cuda.Event, device: torch.device) -> Batch:
    """The batch, on which the stream of the step waits without the host."""
    current = torch.cuda.current_stream(device)
    current.wait_event(made)
    if batch.images.is_cuda:
        # Else the allocator could give its memory to the next batch while the step still reads it.
        batch.images.record_stream(current)
    return batch
