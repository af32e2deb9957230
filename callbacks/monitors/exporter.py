"""PrometheusExporter: a service's estimates and alarms, for Prometheus to scrape."""

import math
from collections.abc import Iterable
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from torch import Tensor

from ... import HoldfastError
from ..estimators.estimator import AccuracyEstimator
from ..in_predictions import InPredictions
from ..observers.observer import Observer
from ..protocols import Adapting, callbacks_of, method_of


class PrometheusExporter(InPredictions):
    """Serves http://ADDRESS:PORT/metrics in Prometheus' text format, from its own thread.

    Metrics: `holdfast_images_total`, `holdfast_steps_total`, `holdfast_resets_total`;
    `holdfast_estimate{name="AETTA"}`, accuracy in [0,1]; `holdfast_value{name="RiskMonitor_alarm"}`, each
    further column that estimators and monitors would have in a record. A value that is not known (yet)
    is NaN. In a Trainer it is a callback; in a custom loop, call `update` after each step.

    Args:
        port: 0: any free port, which the attribute `port` then names.
        address: to listen on; "" or "0.0.0.0": all.

    Raises:
        HoldfastError: if prometheus_client is not installed, or the port is already in use.
    """

    def __init__(self, port: int = 9400, address: str = "127.0.0.1") -> None:
        try:
            import prometheus_client as client
        except ImportError:
            raise HoldfastError(
                "PrometheusExporter needs prometheus_client. Run: pip install "
                "'holdfast[prometheus]'."
            ) from None
        registry = client.CollectorRegistry()
        self._counters = {
            name: client.Counter(f"holdfast_{name}", text, registry=registry)
            for name, text in (
                ("images", "Images adapted to"),
                ("steps", "Steps made"),
                ("resets", "Resets to the source model"),
            )
        }
        own: dict[str, Any] = {"labelnames": ["name"], "registry": registry}
        self._estimate = client.Gauge("holdfast_estimate", "Estimated accuracy in [0,1]", **own)
        self._value = client.Gauge("holdfast_value", "Values of estimators and monitors", **own)
        self._resets = 0
        try:
            self._server, self._thread = client.start_http_server(port, address, registry)
        except OSError as error:
            raise HoldfastError(
                f"Cannot listen on {address}:{port} ({error.strerror or error}). Choose another port, or 0."
            ) from None
        self.port = self._server.server_port

    def update(self, method: Adapting, images: Tensor, watching: Iterable[object]) -> None:
        """Publish what is known after a step on images [B,3,H,W]."""
        self._counters["images"].inc(len(images))
        self._counters["steps"].inc()
        self._counters["resets"].inc(max(0, method.reset_count - self._resets))
        self._resets = method.reset_count
        for watcher in watching:
            if isinstance(watcher, AccuracyEstimator):
                known = math.nan if watcher.latest is None else watcher.latest
                self._estimate.labels(watcher.name).set(known)
            if isinstance(watcher, Observer):
                for key, value in watcher.details.items():
                    self._value.labels(f"{watcher.name}_{key}").set(float(value))

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        self.update(method_of(pl_module), batch.images, callbacks_of(trainer))

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.close()
