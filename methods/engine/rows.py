"""Selecting rows of a batch; with an accelerator, the host waits to learn their number."""

from torch import Tensor


def rows_where(mask: Tensor) -> Tensor:
    """The rows [n] int64 at which a mask [B] is True; the host waits for their number, once."""
    return mask.nonzero().squeeze(1)


def first_rows(mask: Tensor, count: int) -> Tensor:
    """`rows_where` of a mask [B] with a known number of rows, for which the host does not wait."""
    return mask.int().argsort(descending=True, stable=True)[:count]
