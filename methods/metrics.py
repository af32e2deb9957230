"""Metrics of a test in which every rank counts all images."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import MeanMetric, Metric, MetricCollection

Metrics = (
    Metric
    | MetricCollection
    | Sequence[Metric | MetricCollection]
    | dict[str, Metric | MetricCollection]
)


class WeightedMean(MeanMetric):
    """The weighted mean of values, without torchmetrics' check for NaN, which makes the host
    wait."""

    def update(self, value: Tensor, weight: Tensor) -> None:  # type: ignore[override]
        weight = weight.to(self.dtype)
        self.mean_value += torch.where(weight > 0, value * weight, 0).sum()
        self.weight += weight.sum()


def counted_here(metric: Any) -> Any:
    """The metric, saved in checkpoints and not added up over ranks."""
    metric.persistent(True)
    metric.sync_on_compute = metric._to_sync = False
    return metric
