"""Rows of a batch that are selected, for whose number the host of an accelerator waits."""

from torch import Tensor


def rows_where(mask: Tensor) -> Tensor:
    """The rows [n] int64 at which a mask [B] is True; the host waits for their number, once."""
    return mask.nonzero().squeeze(1)


def first_rows(mask: Tensor, count: int) -> Tensor:
    """`rows_where` of a mask [B] with a known number of rows, for which nothing waits."""
    return mask.int().argsort(descending=True, stable=True)[:count]
