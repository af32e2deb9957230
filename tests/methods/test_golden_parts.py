"""Memories, statistics, losses and LAME agree with the official implementations."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from common import GOLDEN, golden_network
from golden_traces import INPUTS

from holdfast.features import features
from holdfast.methods import LAME
from holdfast.methods.functional import damped_entropy, opinion_entropy, soft_cross_entropy
from holdfast.methods.lame import affinity_of
from holdfast.methods.note import PBRS
from holdfast.methods.parts.norm import InstanceAwareBatchNorm, MovingBatchNorm
from holdfast.methods.rotta import CSTU
from holdfast.methods.sotta import HUS


def offer(memory: Any, content: dict[str, Any], number: int, label: int, value: float) -> None:
    image = torch.full((1, 1, 1, 1), float(number))
    value = torch.tensor([value], dtype=torch.float64)
    memory.add(content, image, torch.tensor([int(label)]), value)


def stored(memory: Any, content: dict[str, Any]) -> list[int]:
    return memory.read(content)[0].flatten().int().tolist() if content["items"] else []


@pytest.mark.parametrize("file", ["hus_a", "hus_b", "hus_c_nothreshold"])
def test_hus(file: str) -> None:
    golden = np.load(GOLDEN / "sotta" / f"{file}.npz")
    threshold = np.nan_to_num(float(golden["threshold"]), nan=0.0)
    memory, content = HUS(int(golden["capacity"]), threshold), HUS.empty()
    memory.random.seed(int(golden["python_random_seed"]))
    for i, (label, value) in enumerate(zip(golden["pred"], golden["confidence"], strict=True)):
        offer(memory, content, i, label, value)
        assert stored(memory, content) == [n for n in golden["ids"][i] if n >= 0]


@pytest.mark.parametrize("file", ["note_pbrs_a", "note_pbrs_b_small", "note_pbrs_c_blocks"])
def test_pbrs(file: str) -> None:
    golden = np.load(GOLDEN / "tta2" / f"{file}.npz")
    memory, content = PBRS(int(golden["capacity"])), PBRS.empty()
    memory.random.seed(int(golden["python_random_seed"]))
    for i, label in enumerate(golden["pred"]):
        offer(memory, content, i, label, 0.0)
        assert stored(memory, content) == [n for n in golden["ids"][i] if n >= 0]


@pytest.mark.parametrize("case", ["a2d", "b2d_k1", "c2d_1x1", "e1d", "f2d_k0"])
def test_instance_aware_batch_norm(case: str) -> None:
    golden = np.load(GOLDEN / "tta2" / "note_iabn.npz")

    def of(name: str) -> torch.Tensor:
        return torch.from_numpy(golden[f"{case}.{name}"].astype(np.float64))

    layer = InstanceAwareBatchNorm(len(of("weight")), momentum=float(of("momentum"))).double()
    layer.k = float(of("k"))
    start = {key: of(key) for key in ("weight", "bias")}
    start |= {key: of(f"{key}0") for key in ("running_mean", "running_var")}
    layer.load_state_dict(start, strict=False)
    close = partial(torch.testing.assert_close, rtol=1e-5, atol=2e-5)
    for i, x in enumerate(of("x")):
        layer.zero_grad()
        y = layer.train()(x.requires_grad_())
        (y * torch.sin(torch.arange(y.numel(), dtype=y.dtype)).view_as(y)).sum().backward()
        close(y.detach(), of("y_train")[i])
        for key, tensor in (("x", x), ("weight", layer.weight), ("bias", layer.bias)):
            close(tensor.grad, of(f"grad_{key}")[i])
        for key in ("running_mean", "running_var"):
            close(getattr(layer, key), of(key)[i])
        close(layer.eval()(x).detach(), of("y_eval")[i])


@pytest.mark.parametrize("early_quota", [True, False], ids=["RoTTA", "SoTTA_variant"])
@pytest.mark.parametrize("file", ["bank_a", "bank_b_ties", "bank_c_lambda", "bank_d_manyclasses"])
def test_cstu(file: str, early_quota: bool) -> None:
    golden = np.load(GOLDEN / "rotta" / f"{file}.npz")
    variant = golden if early_quota else np.load(GOLDEN / "rotta" / f"{file}__SoTTA_variant.npz")
    capacity, classes, aged, unsure = (
        golden[key].item() for key in ("capacity", "num_class", "lambda_t", "lambda_u")
    )
    memory, content = CSTU(capacity, classes, aged, unsure, early_quota), CSTU.empty()
    for i, (label, value) in enumerate(zip(golden["pred"], golden["uncertainty"], strict=True)):
        offer(memory, content, i, label, value)
        assert stored(memory, content) == [n for n in variant["ids"][i] if n >= 0]
        if early_quota:
            ages = (memory.read(content)[1] * capacity).round().int().tolist()
            assert ages == [n for n in golden["ages"][i] if n >= 0]


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


def test_damped_entropy() -> None:
    golden = np.load(GOLDEN / "sotta" / "hloss.npz")
    logits = torch.from_numpy(golden["logits"])
    for temperature in (1, 2):
        ours = damped_entropy(logits / temperature).mean().item()
        assert ours == pytest.approx(float(golden[f"hloss_T{temperature}"]), rel=1e-6)


# ---- LAME, and COME's loss -------------------------------------------------------------------------

SETTINGS = {
    "rbf5": {},
    "rbf3": {"neighbours": 3},
    "knn5": {"affinity": "knn"},
    "knn40": {"affinity": "knn", "neighbours": 40},
    "knn5_sym": {"affinity": "knn", "symmetric": True},
    "linear": {"affinity": "linear"},
}


def images_of(steps: int) -> torch.Tensor:
    """The first batches of the common problem, [N,B,3,16,16]."""
    return torch.from_numpy(INPUTS["x"][:steps]).float()


@pytest.mark.parametrize("name", SETTINGS)
def test_probabilities(name: str) -> None:
    theirs = np.load(GOLDEN / "tta2" / f"lame_{name}.npz")
    method = LAME(golden_network().eval(), **SETTINGS[name])
    columns = INPUTS["cols"]
    for step, images in enumerate(images_of(len(theirs["argmax"]))):
        probs = method.adapt(images).exp()
        expected = theirs["probs_sub"][step][:, : len(columns)]
        if name != "rbf5":  # that file is whole: more columns
            np.testing.assert_allclose(probs[:, columns], expected, atol=1e-4)
        np.testing.assert_allclose(probs.amax(1), theirs["maxprob"][step], atol=1e-4)
        assert (probs.argmax(1).numpy() == theirs["argmax"][step]).mean() > 0.95


def test_affinity() -> None:
    theirs = np.load(GOLDEN / "tta2" / "lame_rbf5.npz")
    net = golden_network().eval()
    for step, images in enumerate(images_of(len(theirs["kernel"]))):
        with torch.no_grad():
            found, _ = features(net, images)
        first = theirs["features_first_sample"][step]
        np.testing.assert_allclose(found[0], first, atol=1e-4)
        kernel = affinity_of(torch.nn.functional.normalize(found), "rbf", 5)
        np.testing.assert_allclose(kernel, theirs["kernel"][step], atol=1e-3)


def test_opinion_entropy() -> None:
    theirs = np.load(GOLDEN / "tta2" / "come_entropy.npz")
    logits = torch.from_numpy(theirs["logits"].astype(np.float64)).requires_grad_()
    entropy = opinion_entropy(logits)
    np.testing.assert_allclose(entropy.detach(), theirs["entropy_f64"], rtol=1e-9)
    entropy.sum().backward()
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad[:, ::4], theirs["grad_f64"], rtol=1e-6, atol=1e-12)
