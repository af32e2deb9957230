"""The one thing a datamodule hands over."""

from typing import NamedTuple

from torch import Tensor


class Batch(NamedTuple):
    """Images of a stream, with where they stand in it."""

    images: Tensor  # [B,3,H,W] float32 in [0,1]
    # [B] int64, -1 where it is not known; or [B,K], several that count as right, filled up with -1
    labels: Tensor
    index: Tensor  # type: ignore[assignment]  # [B] int64, position in the stream
    segment: Tensor  # [B] int64, number of the stretch of constant corruption
