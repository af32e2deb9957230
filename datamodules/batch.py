"""The one thing a datamodule hands over."""

from typing import NamedTuple

from torch import Tensor


class Batch(NamedTuple):
    """Images of a stream, with where they stand in it."""

    images: Tensor  # [B,3,H,W] float32 in [0,1]
    labels: Tensor  # [B] int64; or [B,K], several that count as right, filled up with -1
    index: Tensor  # type: ignore[assignment]  # [B] int64, position in the stream
    segment: Tensor  # [B] int64, number of the stretch of constant corruption
