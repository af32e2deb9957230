"""What makes the host wait for an accelerator, in one place: numbers that it reads, and counts of rows."""

from functools import reduce

import torch
from torch import Tensor


def on_host(*tensors: Tensor) -> list[Tensor]:
    """Tensors of one shape on the CPU, by one transfer; integers must be below 2^24."""
    if all(tensor.device.type == "cpu" for tensor in tensors):
        return list(tensors)
    kind = reduce(torch.promote_types, (t.dtype for t in tensors), torch.float32)
    whole = torch.stack([t.detach().to(kind) for t in tensors]).cpu()
    return [part.to(tensor.dtype) for part, tensor in zip(whole, tensors, strict=True)]


def rows_where(mask: Tensor) -> Tensor:
    """The rows [n] int64 at which a mask [B] is True; the host waits for their number, once."""
    return mask.nonzero().squeeze(1)


def first_rows(mask: Tensor, count: int) -> Tensor:
    """`rows_where` of a mask with a known number of rows, for which nothing waits."""
    return mask.int().argsort(descending=True, stable=True)[:count]
