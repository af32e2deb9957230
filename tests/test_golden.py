"""Each method agrees with its official implementation, in a bare loop and inside a Trainer."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from conftest import GOLDEN, TensorStream, golden_network, plain_trainer
from lightning.pytorch import Callback
from torch import Tensor, nn
from torch.optim import SGD, Adam

from holdfast.callbacks import MRS, FisherRestore, Reset
from holdfast.callbacks.restore import linear_quantile
from holdfast.methods import (
    CPL,
    EATA,
    ETA,
    RPL,
    SAR,
    BNAdapt,
    CoTTA,
    RDumb,
    RoTTA,
    SoTTA,
    Source,
    Tent,
    TTAMethod,
)
from holdfast.methods.functional import damped_entropy, soft_cross_entropy
from holdfast.methods.memory import CSTU, HUS
from holdfast.methods.norm import MovingBatchNorm, use_batch_statistics

INPUTS = np.load(GOLDEN / "tta" / "inputs.npz")


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


def nesterov(lr: float) -> Any:
    return partial(SGD, lr=lr, momentum=0.9, nesterov=True)


def cotta(lr: float, keep: float, **kwargs: Any) -> Callable[[nn.Module], TTAMethod]:
    """The official runs had the stochastic restore switched off."""
    rate = 1 - keep
    return partial(CoTTA, optimizer=nesterov(lr), teacher_rate=rate, recovery=False, **kwargs)


def sar(lr: float, floor: float = 0.2) -> Callable[[nn.Module], TTAMethod]:
    def make(net: nn.Module) -> TTAMethod:
        recovery = MRS(floor, keep_average=True)
        return SAR(net, optimizer=sgd(lr), keep_momentum=True, recovery=recovery)

    return make


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
    Trace("ccc_rpl_lr0.0005", RPL, 2.1e-5, 3.3e-7),
    Trace("ccc_rpl_lr0.01", partial(RPL, optimizer=sgd(0.01)), 0.006, 2.9e-4),
    Trace("ccc_conjugate_lr0.001", CPL, 0, 0),
    Trace("ccc_conjugate_lr0.01", partial(CPL, optimizer=sgd(0.01)), 2.4e-4, 5.1e-6),
    Trace("ccc_cotta_lr0.01_ema0.999", cotta(0.01, 0.999), 8.9e-5, 1.3e-6),
    Trace("ccc_cotta_lr0.1_ema0.9", cotta(0.1, 0.9), 5.9e-5, 2e-6),
    Trace("official_cotta_all_lr0.01_ema0.999", cotta(0.01, 0.999, everything=True), 0.009, 0.0089),
    Trace("official_cotta_all_lr0.01_ema0.9", cotta(0.01, 0.9, everything=True), 0.046, 0.0018),
    Trace("sar_lr0.00025", sar(2.5e-4), 2.5e-5, 5.8e-7),
    Trace("sar_lr0.01", sar(0.01), 9e-5, 9.2e-6),
    Trace("sar_lr0.05_reset", sar(0.05, 1.345), 8.6e-4, 3.7e-6),
    Trace("sar_lr0.3", sar(0.3), 34, 0.098),
]
CHAOTIC = 1.0  # beyond this deviation only float64 runs, and the first ten losses, can be compared


class Collect(Callback):
    """Logits and trace of every step."""

    def __init__(self) -> None:
        self.logits: list[torch.Tensor] = []
        self.traces: list[dict[str, Any]] = []

    def on_test_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:
        self.logits.append(outputs["logits"])
        self.traces.append(pl_module.trace)


def run_bare(trace: Trace, dtype: torch.dtype) -> tuple[TTAMethod, list, list]:
    method = trace.method(golden_network()).to(dtype)
    images = torch.from_numpy(INPUTS["x"]).to(dtype)
    if trace.fisher_batches:
        assert isinstance(method, EATA)
        method.fit_fisher(images[: trace.fisher_batches])
    logits, traces = [], []
    for batch in images:
        logits.append(method.adapt(batch))
        recovery = method.recovery
        average = recovery.average if isinstance(recovery, MRS) else None
        due = isinstance(recovery, Reset) and recovery.should_reset(method)
        traces.append({**method.trace, "average": average, "reset": due})
    return method, logits, traces


def run_trainer(trace: Trace) -> tuple[TTAMethod, list, list]:
    method, collect = trace.method(golden_network()), Collect()
    if trace.fisher_batches:
        assert isinstance(method, EATA)
        method.fisher_images = trace.fisher_batches * INPUTS["x"].shape[1]
    stream = TensorStream(torch.from_numpy(INPUTS["x"]).float())
    plain_trainer(callbacks=[collect]).test(method, datamodule=stream, verbose=False)
    return method, collect.logits, collect.traces


by_name = pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.file)


@by_name
def test_float32(trace: Trace) -> None:
    golden = np.load(GOLDEN / "tta" / f"{trace.file}.npz")
    method, logits, traces = run_bare(trace, torch.float32)
    compare_traces(golden, traces[:10] if trace.logit_dev > CHAOTIC else traces, trace.logit_dev)
    if trace.logit_dev > CHAOTIC:
        return
    steps = len(golden["logits_sub"])
    ours = torch.stack(logits[:steps]).numpy()
    tolerance = max(1e-3, 10 * trace.logit_dev)
    np.testing.assert_allclose(
        ours[:, :, INPUTS["cols"]], golden["logits_sub"], atol=tolerance, rtol=0
    )
    np.testing.assert_allclose(ours.mean(2), golden["rowmean"], atol=tolerance, rtol=0)
    agreement = (ours.argmax(2) == golden["argmax"]).mean()
    assert agreement == 1 if trace.logit_dev <= 1e-2 else agreement >= 0.995
    if steps == len(logits):
        compare_parameters(method, golden, "final.", max(1e-5, 10 * trace.param_dev))


def compare_traces(golden: Any, traces: list, logit_dev: float) -> None:
    """Losses, and counts and resets exactly, as far as the golden run recorded them."""
    steps = min(len(traces), len(golden["logits_sub"]))
    traces = traces[:steps]
    for key, ours_key in (("n_entropy_filter", "reliable"), ("n_selected", "selected")):
        if key in golden and ours_key in traces[0]:
            assert [int(t[ours_key]) for t in traces] == golden[key][:steps].tolist()
    tolerance = 10 * max(1e-3, 10 * min(logit_dev, 1e-2))
    if "loss" in golden:
        losses = [[float(t.get(k, np.nan)) for k in ("first_loss", "loss")] for t in traces]
        expected, width = golden["loss"][:steps], golden["loss"].shape[1]
        ours = np.array(losses)[:, -width:]
        np.testing.assert_allclose(ours, expected, atol=tolerance, rtol=1e-3)
    if "reset" in golden:
        assert [t["reset"] for t in traces] == golden["reset"][:steps].astype(bool).tolist()
        averages = [t["average"] for t in traces]
        np.testing.assert_allclose(averages, golden["ema"][:steps], atol=tolerance, rtol=1e-3)


def has_float64(trace: Trace) -> bool:
    return "logits_sub_f64" in np.load(GOLDEN / "tta" / f"{trace.file}.npz")


@pytest.mark.parametrize("trace", [*filter(has_float64, TRACES)], ids=lambda trace: trace.file)
def test_float64(trace: Trace) -> None:
    golden = np.load(GOLDEN / "tta" / f"{trace.file}.npz")
    method, logits, _ = run_bare(trace, torch.float64)
    ours = torch.stack(logits).numpy()
    expected = golden["logits_sub_f64"]
    tolerance = 1e-4 * expected.std() + 1e-4
    np.testing.assert_allclose(ours[:, :, INPUTS["cols"]], expected, atol=tolerance, rtol=0)
    assert (ours.argmax(2) == golden["argmax_f64"]).all()
    compare_parameters(method, golden, "final_f64.", 1e-5)


def compare_parameters(method: TTAMethod, golden: Any, prefix: str, tolerance: float) -> None:
    """The golden parameters and statistics under `prefix`, the teacher's under `prefix` + "ema."."""
    ours = tensors(method.backbone)
    ours |= {f"ema.{name}": value for name, value in tensors(method.predictor).items()}
    compare_tensors(ours, golden, prefix, tolerance)


def tensors(network: nn.Module) -> dict[str, Tensor]:
    return {**dict(network.named_parameters()), **dict(network.named_buffers())}


def compare_tensors(ours: dict[str, Tensor], golden: Any, prefix: str, tolerance: float) -> None:
    for key in golden:
        name = key.removeprefix(prefix)
        if key.startswith(prefix) and name in ours:
            value = ours[name].detach().numpy()
            if name.endswith("11.weight"):
                value = value[INPUTS["cols"]]
            np.testing.assert_allclose(value, golden[key], atol=tolerance, rtol=0, err_msg=key)


def test_fisher() -> None:
    trace = next(t for t in TRACES if t.file == "ccc_eata_lr0.002_k8")
    golden = np.load(GOLDEN / "tta" / f"{trace.file}.npz")
    method, *_ = run_bare(trace, torch.float32)
    assert isinstance(method, EATA)
    names = [n for n, p in method.backbone.named_parameters() if p.requires_grad]
    for name, fisher in zip(names, method.fisher, strict=True):
        np.testing.assert_allclose(fisher.numpy(), golden[f"final.fisher.{name}"], rtol=1e-3)


@by_name
def test_trainer_equals_bare_loop(trace: Trace) -> None:
    bare, logits, _ = run_bare(trace, torch.float32)
    trained, trainer_logits, _ = run_trainer(trace)
    assert torch.equal(torch.stack(logits), torch.stack(trainer_logits))
    for ours, other in zip(bare.parameters(), trained.parameters(), strict=True):
        assert torch.equal(ours, other)
    assert bare.step_count == trained.step_count == len(INPUTS["x"])


# ---- SoTTA ----------------------------------------------------------------------------------------


class WithoutMemory(SoTTA):
    """Takes each batch for the memory's content, as the golden runs do."""

    def update(self, images: Tensor) -> Tensor:
        logits = self.predict(images)
        self.learn(images)
        return logits


class WithBatchStatistics(WithoutMemory):
    def prepare(self) -> None:
        use_batch_statistics(self.backbone)


@pytest.mark.parametrize(
    ("file", "kind", "dev"),
    [
        ("esm_adam_lr0.001_batchstats", WithBatchStatistics, 5.3e-4),
        ("esm_adam_lr0.001_learnedstats0.2", WithoutMemory, 1.1e-3),
        ("esm_adam_lr0.01_learnedstats0.2", WithoutMemory, 3.2e-3),
    ],
)
def test_sotta_step(file: str, kind: type[WithoutMemory], dev: float) -> None:
    golden = np.load(GOLDEN / "sotta" / f"{file}.npz")
    method = kind(golden_network(), optimizer=partial(Adam, lr=float(golden["lr"])))
    logits, losses = [], []
    for batch in torch.from_numpy(INPUTS["x"]).float():
        logits.append(method.adapt(batch))
        losses.append([float(method.trace["first_loss"]), float(method.trace["loss"])])
    ours, tolerance = torch.stack(logits).numpy(), max(1e-3, 10 * dev)
    expected = golden["logits_eval_sub"]
    np.testing.assert_allclose(ours[:, :, INPUTS["cols"]], expected, atol=tolerance, rtol=0)
    assert (ours.argmax(2) == golden["argmax"]).all()
    np.testing.assert_allclose(losses, golden["loss"], atol=tolerance, rtol=0)
    compare_parameters(method, golden, "final.", tolerance)


def test_damped_entropy() -> None:
    golden = np.load(GOLDEN / "sotta" / "hloss.npz")
    logits = torch.from_numpy(golden["logits"])
    for temperature in (1, 2):
        ours = damped_entropy(logits / temperature).mean().item()
        assert ours == pytest.approx(float(golden[f"hloss_T{temperature}"]), rel=1e-6)


@pytest.mark.parametrize("file", ["hus_a", "hus_b", "hus_c_nothreshold"])
def test_hus(file: str) -> None:
    golden = np.load(GOLDEN / "sotta" / f"{file}.npz")
    threshold = np.nan_to_num(float(golden["threshold"]), nan=0.0)
    random = Random(int(golden["python_random_seed"]))
    memory, content = HUS(int(golden["capacity"]), threshold, random), HUS.empty()
    for i, (label, value) in enumerate(zip(golden["pred"], golden["confidence"], strict=True)):
        offer(memory, content, i, label, value)
        assert stored(memory, content) == [n for n in golden["ids"][i] if n >= 0]


# ---- RoTTA ----------------------------------------------------------------------------------------


def offer(memory: Any, content: dict[str, Any], number: int, label: int, value: float) -> None:
    image = torch.full((1, 1, 1, 1), float(number))
    value = torch.tensor([value], dtype=torch.float64)
    memory.add(content, image, torch.tensor([int(label)]), value)


def stored(memory: Any, content: dict[str, Any]) -> list[int]:
    return memory.read(content)[0].flatten().int().tolist() if content["items"] else []


@pytest.mark.parametrize("early_quota", [True, False], ids=["RoTTA", "SoTTA_variant"])
@pytest.mark.parametrize("file", ["bank_a", "bank_b_ties", "bank_c_lambda", "bank_d_manyclasses"])
def test_cstu(file: str, early_quota: bool) -> None:
    golden = np.load(GOLDEN / "rotta" / f"{file}.npz")
    variant = golden if early_quota else np.load(GOLDEN / "rotta" / f"{file}__SoTTA_variant.npz")
    capacity, classes, *lambdas = (
        golden[key].item() for key in ("capacity", "num_class", "lambda_t", "lambda_u")
    )
    memory, content = CSTU(capacity, classes, *lambdas, early_quota), CSTU.empty()
    for i, (label, value) in enumerate(zip(golden["pred"], golden["uncertainty"], strict=True)):
        offer(memory, content, i, label, value)
        assert stored(memory, content) == [n for n in variant["ids"][i] if n >= 0]
        if early_quota:
            ages = (memory.read(content)[1] * capacity).round().int().tolist()
            assert ages == [n for n in golden["ages"][i] if n >= 0]


def test_memory_takes_a_batch_as_it_takes_single_images() -> None:
    labels, values = torch.randint(5, (70,)), torch.rand(70)
    images = torch.arange(70.0).view(-1, 1, 1, 1)
    memory, whole, single = CSTU(16, 5), CSTU.empty(), CSTU.empty()
    memory.add(whole, images, labels, values)
    for i in range(70):
        memory.add(single, images[i : i + 1], labels[i : i + 1], values[i : i + 1])
    for a, b in zip(memory.read(whole), memory.read(single), strict=True):
        assert torch.equal(a, b)


def test_moving_batch_norm() -> None:
    golden = np.load(GOLDEN / "rotta" / "robust_bn.npz")
    layer = MovingBatchNorm(6, float(golden["eps"]), float(golden["momentum"]))
    names = ("weight", "bias", "running_mean", "running_var")
    state = {name: torch.from_numpy(golden[name]) for name in names}
    layer.load_state_dict(state, strict=False)
    close = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)
    for i, x in enumerate(torch.from_numpy(golden["x"])):
        x.requires_grad_(True)
        y = layer.train()(x)
        (y * torch.sin(torch.arange(y.numel(), dtype=y.dtype)).view_as(y)).sum().backward()
        close(y.detach(), torch.from_numpy(golden["y_train"][i]))
        close(x.grad, torch.from_numpy(golden["grad_input_of_sum_y_sin_index"][i]))
        close(layer.running_mean, torch.from_numpy(golden["source_mean_after"][i]))
        close(layer.running_var, torch.from_numpy(golden["source_var_after"][i]))
        close(layer.eval()(x).detach(), torch.from_numpy(golden["y_eval_after"][i]))
    golden = np.load(GOLDEN / "rotta" / "robust_bn1d.npz")
    layer = MovingBatchNorm(4, momentum=0.05).train()
    for x, y in zip(golden["x"], golden["y_train"], strict=True):
        close(layer(torch.from_numpy(x)).detach(), torch.from_numpy(y))
    close(layer.running_mean, torch.from_numpy(golden["source_mean_final"]))
    close(layer.running_var, torch.from_numpy(golden["source_var_final"]))


def test_timeliness() -> None:
    golden = np.load(GOLDEN / "rotta" / "timeliness.npz")
    student, teacher = (torch.from_numpy(golden[f"{w}_logits"]) for w in ("student", "teacher"))
    entropy = soft_cross_entropy(student, teacher)
    np.testing.assert_allclose(entropy, golden["cross_entropy"], rtol=1e-5)
    weight = torch.sigmoid(-torch.from_numpy(golden["ages"]))
    np.testing.assert_allclose(weight, golden["weight"], rtol=1e-5)
    assert (entropy * weight).mean().item() == pytest.approx(float(golden["loss"]), rel=1e-5)


class WithoutViews(RoTTA):
    """Shows the student the memory as it is, as the golden runs do."""

    def view(self, images: Tensor) -> Tensor:
        return images


@pytest.mark.parametrize(
    ("file", "dtype", "tolerance"),
    [("full_default", torch.float32, 1.2e-2), ("full_f64_nu0.02_K50", torch.float64, 2e-5)],
)
def test_rotta(file: str, dtype: torch.dtype, tolerance: float) -> None:
    golden = np.load(GOLDEN / "rotta" / f"{file}.npz")
    classes, net = int(golden["num_class"]), golden_network()
    net[-1].weight = nn.Parameter(net[-1].weight[:classes].detach())
    net[-1].bias = nn.Parameter(net[-1].bias[:classes].detach())
    method = WithoutViews(net, teacher_rate=float(golden["nu"])).to(dtype)
    logits, occupancy, losses = [], [], []
    for batch in torch.from_numpy(INPUTS["x"]).to(dtype):
        logits.append(method.adapt(batch))
        occupancy.append(len(method.state["memory"]["items"]))
        losses.append([float(method.trace.get("loss", np.nan))])
    ours = torch.stack(logits).numpy()
    columns = INPUTS["cols"] if classes == 1000 else slice(None, None, 4)
    np.testing.assert_allclose(ours[:, :, columns], golden["logits_sub"], atol=tolerance, rtol=0)
    assert (ours.argmax(2) == golden["argmax"]).all()
    assert occupancy == golden["occupancy"].tolist()
    np.testing.assert_allclose(losses, golden["loss"], atol=tolerance)
    ages = CSTU(64, classes).read(method.state["memory"])[1]
    np.testing.assert_allclose(ages, golden["final_ages"], rtol=1e-6)
    for who, net in (("student", method.backbone), ("teacher", method.teacher)):
        values = {k.replace("running_", "source_"): v for k, v in tensors(net).items()}
        compare_tensors(values, golden, f"final.{who}.", tolerance)


# ---- PETAL ----------------------------------------------------------------------------------------


class PETAL(CoTTA):
    """CoTTA on all parameters with a Gaussian prior on the weights, for FisherRestore's golden runs."""

    def __init__(self, net: nn.Module, golden: Any) -> None:
        self.golden = {key: golden[key].item() for key in ("spw", "cov_constant", "mean_scale")}
        recovery = FisherRestore(golden["perc"].item())
        super().__init__(net, nesterov(golden["lr"].item()), everything=True, recovery=recovery)

    def descend(self, loss: Tensor) -> None:
        scale, variance = self.golden["mean_scale"], self.golden["cov_constant"] + 1e-6
        distances = [
            ((p - scale * source) ** 2 / variance).sum()
            for p, source in self.parameters_with_source()
        ]
        super().descend(loss + self.golden["spw"] * 0.5 * torch.stack(distances).sum())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("file", ["fim_perc0.03", "fim_perc0.3_spw1e-3"])
def test_fisher_restore(file: str, dtype: torch.dtype) -> None:
    golden = np.load(GOLDEN / "petal" / f"{file}.npz")
    suffix, prefix = ("", "final.") if dtype == torch.float32 else ("_f64", "final_f64.")
    method = PETAL(golden_network(), golden).to(dtype)
    for i, batch in enumerate(torch.from_numpy(INPUTS["x"][:8]).to(dtype)):
        logits = method.adapt(batch)
        expected = golden[f"logits_sub{suffix}"][i]
        np.testing.assert_allclose(logits[:, INPUTS["cols"]], expected, atol=1e-3, rtol=0)
        fisher = torch.cat([p.grad.flatten() ** 2 for p, _ in method.parameters_with_source()])
        threshold = linear_quantile(fisher, golden["perc"].item())
        assert threshold.item() == pytest.approx(golden[f"threshold{suffix}"][i], rel=1e-3)
        assert (fisher < threshold).sum() == golden[f"n_restored{suffix}"][i]
    if dtype == torch.float32:
        names = [name for name, _ in method.backbone.named_parameters()]
        for name, (p, source) in zip(names, method.parameters_with_source(), strict=True):
            assert abs((p == source).sum().item() - golden[f"n_equal_source.{name}"]) <= 1, name
    compare_parameters(method, golden, prefix, 1e-3 if dtype == torch.float32 else 1e-5)
