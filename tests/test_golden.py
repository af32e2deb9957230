"""Each method agrees with its official implementation, in a bare loop and inside a Trainer."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from conftest import GOLDEN, TensorStream, plain_trainer
from lightning.pytorch import Callback
from torch import nn
from torch.optim import SGD, Adam

from holdfast.methods import EATA, ETA, BNAdapt, RDumb, Source, Tent, TTAMethod

INPUTS = np.load(GOLDEN / "tta" / "inputs.npz")


def network() -> nn.Module:
    net = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 1000)),
    )
    weights = np.load(GOLDEN / "tta" / "weights.npz")
    net.load_state_dict({name: torch.from_numpy(weights[name]) for name in weights})
    return net.eval()


class Trace(NamedTuple):
    """A golden trace, the method that should reproduce it, and the official float32 deviations."""

    file: str
    method: Callable[[nn.Module], TTAMethod]
    logit_dev: float
    param_dev: float
    fisher_batches: int = 0


def sgd(lr: float) -> Any:
    return partial(SGD, lr=lr, momentum=0.9)


def eata(lr: float, **kwargs: Any) -> Callable[[nn.Module], TTAMethod]:
    return partial(EATA, optimizer=sgd(lr), **kwargs)


HALF_OF_MAX = 0.5 - 1 / np.log(1000)  # ln(1000)/2 - 1, the official class' default margin
TRACES = [
    Trace("ccc_pretrained", Source, 3.3e-5, 0),
    Trace("ccc_batchnorm", BNAdapt, 2.5e-5, 0),
    Trace("ccc_tent_lr0.00025", Tent, 2.4e-5, 3.6e-7),
    Trace("ccc_tent_lr0.01", partial(Tent, optimizer=sgd(0.01)), 2.3e-4, 5.8e-6),
    Trace(
        "official_tent_adam_lr0.001",
        partial(Tent, optimizer=partial(Adam, lr=1e-3)),
        2.4e-5,
        6.1e-7,
    ),
    Trace("ccc_eta_lr0.00025", ETA, 3.3e-5, 5.3e-7),
    Trace("ccc_eta_lr0.002", partial(ETA, optimizer=sgd(0.002)), 2.1e-4, 4.1e-6),
    Trace("ccc_eta_lr0.01", partial(ETA, optimizer=sgd(0.01)), 0.012, 4.9e-4),
    Trace(
        "official_eta_lr0.002_default_margin",
        partial(ETA, optimizer=sgd(0.002), entropy_factor=HALF_OF_MAX),
        *(4.3e-5, 8.4e-7),
    ),
    Trace("ccc_eata_lr0.00025_k8", eata(2.5e-4), 2.2e-5, 2.6e-7, 8),
    Trace("ccc_eata_lr0.002_k8", eata(0.002), 3.2e-5, 4.1e-7, 8),
    Trace("ccc_eata_lr0.002_k5_alpha50", eata(0.002, beta=50.0), 8.6e-5, 1.9e-6, 5),
    Trace("ccc_rdumb_lr0.00025_reset10", partial(RDumb, every=10), 2.1e-5, 2.4e-7),
    Trace(
        "ccc_rdumb_lr0.002_reset10", partial(RDumb, optimizer=sgd(0.002), every=10), 3.2e-5, 3.9e-7
    ),
]


class Collect(Callback):
    """Logits and trace of every step."""

    def __init__(self) -> None:
        self.logits: list[torch.Tensor] = []
        self.traces: list[dict[str, Any]] = []

    def on_test_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:
        self.logits.append(outputs["logits"])
        self.traces.append(pl_module.trace)


def run_bare(trace: Trace, dtype: torch.dtype) -> tuple[TTAMethod, list, list]:
    method = trace.method(network()).to(dtype)
    images = torch.from_numpy(INPUTS["x"]).to(dtype)
    if trace.fisher_batches:
        assert isinstance(method, EATA)
        method.fit_fisher(images[: trace.fisher_batches])
    logits, traces = [], []
    for batch in images:
        logits.append(method.adapt(batch))
        traces.append(method.trace)
    return method, logits, traces


def run_trainer(trace: Trace) -> tuple[TTAMethod, list, list]:
    method, collect = trace.method(network()), Collect()
    if trace.fisher_batches:
        assert isinstance(method, EATA)
        method.fisher_images = trace.fisher_batches * INPUTS["x"].shape[1]
    stream = TensorStream(torch.from_numpy(INPUTS["x"]).float())
    plain_trainer(callbacks=[collect]).test(method, datamodule=stream, verbose=False)
    return method, collect.logits, collect.traces


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.file)
def test_float32(trace: Trace) -> None:
    golden = np.load(GOLDEN / "tta" / f"{trace.file}.npz")
    method, logits, traces = run_bare(trace, torch.float32)
    ours = torch.stack(logits).numpy()
    tolerance = max(1e-3, 10 * trace.logit_dev)
    np.testing.assert_allclose(
        ours[:, :, INPUTS["cols"]], golden["logits_sub"], atol=tolerance, rtol=0
    )
    np.testing.assert_allclose(ours.mean(2), golden["rowmean"], atol=tolerance, rtol=0)
    agreement = (ours.argmax(2) == golden["argmax"]).mean()
    assert agreement == 1 if trace.logit_dev <= 1e-2 else agreement >= 0.995
    for key, ours_key in (("n_entropy_filter", "reliable"), ("n_selected", "selected")):
        if key in golden and ours_key in traces[0]:
            assert [int(t[ours_key]) for t in traces] == golden[key].tolist()
    if "loss" in golden:
        losses = [float(t.get("loss", np.nan)) for t in traces]
        np.testing.assert_allclose(losses, golden["loss"][:, 0], atol=10 * tolerance, rtol=1e-3)
    compare_parameters(method, golden, "final.", max(1e-5, 10 * trace.param_dev))


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.file)
def test_float64(trace: Trace) -> None:
    golden = np.load(GOLDEN / "tta" / f"{trace.file}.npz")
    if "logits_sub_f64" not in golden:
        pytest.skip("this trace has no float64 run")
    method, logits, _ = run_bare(trace, torch.float64)
    ours = torch.stack(logits).numpy()
    expected = golden["logits_sub_f64"]
    tolerance = 1e-4 * expected.std() + 1e-4
    np.testing.assert_allclose(ours[:, :, INPUTS["cols"]], expected, atol=tolerance, rtol=0)
    assert (ours.argmax(2) == golden["argmax_f64"]).all()
    compare_parameters(method, golden, "final_f64.", 1e-5)


def compare_parameters(method: TTAMethod, golden: Any, prefix: str, tolerance: float) -> None:
    params = dict(method.backbone.named_parameters())
    for key in golden:
        name = key.removeprefix(prefix)
        if key.startswith(prefix) and name in params:
            ours = params[name].detach().numpy()
            np.testing.assert_allclose(ours, golden[key], atol=tolerance, rtol=0, err_msg=key)


def test_fisher() -> None:
    trace = next(t for t in TRACES if t.file == "ccc_eata_lr0.002_k8")
    golden = np.load(GOLDEN / "tta" / f"{trace.file}.npz")
    method, *_ = run_bare(trace, torch.float32)
    assert isinstance(method, EATA)
    names = [n for n, p in method.backbone.named_parameters() if p.requires_grad]
    for name, fisher in zip(names, method.fisher, strict=True):
        np.testing.assert_allclose(fisher.numpy(), golden[f"final.fisher.{name}"], rtol=1e-3)


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.file)
def test_trainer_equals_bare_loop(trace: Trace) -> None:
    bare, logits, _ = run_bare(trace, torch.float32)
    trained, trainer_logits, _ = run_trainer(trace)
    assert torch.equal(torch.stack(logits), torch.stack(trainer_logits))
    for ours, other in zip(bare.parameters(), trained.parameters(), strict=True):
        assert torch.equal(ours, other)
    assert bare.step_count == trained.step_count == len(INPUTS["x"])
