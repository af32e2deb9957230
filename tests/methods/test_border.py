"""What enters from outside is what the product takes it for, or a sentence says that it is not."""

import re
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from border_nets import BORDER_NETS, InPlace, TwoNames
from common import TensorStream, tiny_net, trainer_test
from table import TABLE, quiet
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torchmetrics.classification import MulticlassAccuracy

from holdfast import HoldfastError
from holdfast import callbacks as cb
from holdfast.callbacks.dropout import DropoutPasses
from holdfast.callbacks.functional.scores import scored
from holdfast.features import features
from holdfast.methods import RMT, SANTA, TDA, BNAdapt, CoTTA, Source, Tent, load_backbone
from holdfast.methods.backbones.libraries import read_checkpoint, renamed
from holdfast.methods.testing import image_batches, tensors
from holdfast.networks import copied

pytestmark = [quiet, pytest.mark.filterwarnings("ignore:.*not finite", "ignore:.*top ones")]


# ---- networks ---------------------------------------------------------------------------------------


def test_a_network_that_writes_into_its_input() -> None:
    """Its results are those of the same network that does not, in whatever follows the first pass."""
    net, images = tiny_net(), torch.rand(6, 3, 8, 8)
    apart = nn.Sequential(nn.BatchNorm2d(3, affine=False), net).eval()
    apart[0].running_mean.fill_(0.5)
    apart[0].running_var.fill_(0.25**2 - 1e-5)
    method = Source(InPlace(net))
    for _ in range(3):
        assert torch.allclose(method.adapt(images), apart(images), atol=1e-4)
    layers = ["net.2", "net.5"]
    dropped = DropoutPasses(method.backbone, layers)(images, 2, 0.0, torch.Generator())
    assert torch.allclose(dropped, apart(images).expand(2, -1, -1), atol=1e-4)
    penultimate, logits = features(method.backbone, images)
    assert torch.allclose(net[-1](penultimate), logits)


def test_a_layer_under_two_names_adapts_under_both() -> None:
    torch.manual_seed(0)
    kinds = (
        partial(SANTA, source_images=6),
        CoTTA,
        TABLE["RoTTA"].make,
    )  # the last replaces the layers
    for method in (make(TwoNames().eval()) for make in kinds):
        method.fit(image_batches(1))
        for images in image_batches(3):
            method.source_logits(images)
            method.adapt(images)
        pairs = [*method.parameters_with_source()]
        assert any(not torch.equal(now, source) for now, source in pairs)
        inside = {id(p) for p in method.parameters()}
        assert all(id(now) in inside for now, _ in pairs)
        layers = method.backbone.net, method.backbone.features
        assert layers[0][4] is layers[1][4] is layers[0][7]


def test_batch_norm_without_bias_is_scaled() -> None:
    """By BNAdapt(prior) as by PyTorch; a bias that does not exist does not adapt."""
    net, images = tiny_net().eval(), torch.rand(6, 3, 8, 8)
    for layer in (net[1], net[4]):
        layer.weight.data.fill_(3.0)
        layer.register_parameter("bias", None)
    for prior in (1e9, 0):  # the source's statistics, and the batch's
        method = BNAdapt(net, prior=prior)
        assert method.optimizer is None
        expected = net(images) if prior else BNAdapt(net, alpha=1.0).adapt(images)
        assert torch.allclose(method.adapt(images), expected, atol=1e-4)
    for name in ("RoTTA", "NOTE"):
        moved = TABLE[name].make(net).adapt(images)
        assert torch.allclose(moved, net(images), atol=0.5)


class Stored(nn.Module):
    """Stores a result of its forward pass."""

    def __init__(self, weight_norm: bool) -> None:
        super().__init__()
        self.body, last = tiny_net()[:-1], nn.Linear(16, 5)
        self.head = nn.utils.weight_norm(last) if weight_norm else last

    def forward(self, x: Tensor) -> Tensor:
        self.last = {"features": [self.body(x)]}
        return self.head(self.last["features"][0])


@pytest.mark.filterwarnings("ignore:.*weight_norm")
@pytest.mark.parametrize("weight_norm", [False, True])
@pytest.mark.parametrize("name", ["Tent", "RMT", "PeTTA"])
def test_networks_with_results_in_them_are_copied(name: str, weight_norm: bool) -> None:
    net, images = Stored(weight_norm).eval(), torch.rand(6, 3, 8, 8)
    net(images)
    assert torch.equal(copied(net)(images), net(images))
    method = TABLE[name].make(net)
    method.fit([images])
    assert method.adapt(images).isfinite().all()


def with_lock() -> nn.Module:
    net = tiny_net()
    net.lock = threading.Lock()  # type: ignore[assignment]
    return net


def not_a_number() -> nn.Module:
    net = tiny_net()
    net[4].running_var[3] = torch.nan
    return net


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "lock": (with_lock, r"cannot be copied: .*lock"),
    "lazy": (lambda: nn.Sequential(nn.LazyConv2d(4, 3), tiny_net()), "has no values yet"),
    "meta": (lambda: tiny_net().to("meta"), "has no values yet"),
    "NaN": (not_a_number, r"4\.running_var contains NaN"),
    "quantised": (
        lambda: nn.Sequential(torch.ao.nn.quantized.Conv2d(3, 4, 3), tiny_net()),
        "quantised layers, such as Conv2d",
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", REFUSED)
def test_networks_that_are_refused(kind: str) -> None:
    make, sentence = REFUSED[kind]
    with pytest.raises(HoldfastError, match=sentence):
        Tent(make())


def test_data_parallel_is_unwrapped() -> None:
    net, images = tiny_net(), torch.rand(6, 3, 8, 8)
    for make in (CoTTA, partial(SANTA, source_images=6)):
        with pytest.warns(UserWarning, match="without its DataParallel"):
            method = make(nn.DataParallel(net))
        assert torch.equal(method.adapt(images), make(net).adapt(images))


class Counting(nn.Module):
    """Changes a buffer in every forward pass."""

    ema: Tensor

    def __init__(self, how: str) -> None:
        super().__init__()
        self.net, self.how = tiny_net(), how
        self.register_buffer("ema", torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean((0, 1, 3)).detach()
        if self.how == "reassigned":
            self.ema = 0.9 * self.ema + 0.1 * mean
        elif self.how == "in place" or (self.how == "training" and self.training):
            self.ema.lerp_(mean, 0.1)
        elif self.how == "cache" and len(self.ema) != x.shape[2] // 2:
            self.ema = torch.arange(x.shape[2] // 2)
        return self.net(x)


@pytest.mark.parametrize("how", ["reassigned", "in place", "training", "cache"])
def test_buffers_that_predictions_change(how: str) -> None:
    """Refused at the first pass; what is changed in training only, or depends on the size, is not."""
    method, images = Tent(Counting(how)), torch.rand(6, 3, 8, 8)
    if how in ("training", "cache"):
        assert method.predict(images).shape == method.adapt(images).shape == (6, 5)
        return
    for step in (method.predict, method.adapt):
        with pytest.raises(HoldfastError, match=r"changes its buffer 'ema'"):
            step(images)


def test_a_network_without_gradients_inside() -> None:
    class Detached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = tiny_net()

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                return self.net(x)

    with pytest.raises(HoldfastError, match="backbone's logits have no gradient"):
        Tent(Detached()).adapt(torch.rand(6, 3, 8, 8))
    assert Source(Detached()).adapt(torch.rand(6, 3, 8, 8)).shape == (6, 5)


class Recurrent(nn.Module):
    """An LSTM over the rows of the images, behind batch normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.lstm = nn.BatchNorm2d(3), nn.LSTM(24, 5, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(self.norm(x).permute(0, 2, 1, 3).flatten(2))[0][:, -1]


@pytest.mark.parametrize("net", [Recurrent, BORDER_NETS["in place, dropout"]])
def test_cotta_on_networks_that_vmap_refuses(net: Any) -> None:
    method, images = CoTTA(net(), threshold=2.0, views=3), torch.rand(6, 3, 8, 8)
    for _ in range(2):
        assert method.adapt(images).isfinite().all()
    assert method.one_by_one


def test_activation_checkpointing() -> None:
    """Works with batch statistics; a sentence where the backward pass would have other ones."""

    class Again(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = tiny_net()

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(self.net, x, use_reentrant=False)

    images, net = torch.rand(6, 3, 8, 8), Again()
    plain, again = Tent(net.net), Tent(net)
    for _ in range(2):
        assert torch.equal(plain.adapt(images), again.adapt(images))
    for name in ("RoTTA", "PeTTA", "NOTE", "AdaContrast"):
        method = TABLE[name].make(net)
        before = tensors(method)
        with pytest.raises(HoldfastError, match="activation checkpointing off"):
            method.adapt(images)
        assert all(torch.equal(value, before[key]) for key, value in tensors(method).items())


def test_tda_with_too_many_classes() -> None:
    net = tiny_net(classes=20_000)
    with pytest.raises(HoldfastError, match=r"20,000 classes .* 3\.2 GB"):
        TDA(net).adapt(torch.rand(2, 3, 8, 8))


# ---- outputs, labels, images --------------------------------------------------------------------------


class Masked(nn.Module):
    """Masks a class."""

    def __init__(self) -> None:
        super().__init__()
        self.net = tiny_net()

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).masked_fill(torch.arange(5) == 2, -torch.inf)


@pytest.mark.parametrize("name", [name for name in TABLE if "bn" not in TABLE[name].refuses])
def test_a_masked_class_has_no_probability(name: str) -> None:
    """And every step counts."""
    method = TABLE[name].make(Masked())
    method.fit(image_batches(1))
    for images in image_batches(4, size=2 if name in ("MEMO", "TTAug", "VTE") else 6):
        logits = method.adapt(images)
        assert logits.isfinite().all()
        assert "not_finite" not in method.trace
        assert not logits.softmax(1)[:, 2].gt(1e-6).any()


def test_scores_of_a_masked_class() -> None:
    images = torch.rand(4, 8, 3, 8, 8)
    net = Masked().eval()
    labels = torch.stack([net(batch).argmax(1) for batch in images])
    logged = trainer_test(Source(net), TensorStream(images, labels))
    assert logged["accuracy"] == 1
    assert 0 < logged["nll"] < 2
    raw = scored(torch.tensor([[1.0, 1.0, -torch.inf]]), torch.tensor([0]))
    assert raw["nll"].item() == pytest.approx(0.6931, abs=1e-4)
    assert raw["correct"].all()


def test_what_has_no_class_has_no_likelihood() -> None:
    logits, labels = torch.tensor([[9.0, 0, 0], [9.0, 0, 0]]), torch.tensor([0, 3])
    alone, both = scored(logits[:1], labels[:1]), scored(logits, labels)
    assert both["nll"] == alone["nll"]
    assert both["accuracy"] == 0.5
    assert scored(logits, torch.tensor([3, 3]))["nll"].isnan()


def test_metrics_leave_out_what_has_no_class() -> None:
    net, images = tiny_net().eval(), torch.rand(1, 8, 3, 8, 8)
    labels = net(images[0]).argmax(1)
    labels[4:] = 5
    method = Source(net, metrics={"top": MulticlassAccuracy(5, average="micro")})
    logged = trainer_test(method, TensorStream(images, labels[None]))
    assert logged["top"] == 1
    assert logged["accuracy"] == 0.5


@pytest.mark.parametrize("first", [0, 1])
def test_labels_that_count_from_one(first: int, recwarn: pytest.WarningsRecorder) -> None:
    """A warning after 50 images of 5 classes, since label 5 may mean none of them."""
    labels = torch.arange(60).view(6, 10) % 5 + 1
    labels[0, 0] = first
    trainer_test(Source(tiny_net()), TensorStream(torch.rand(6, 10, 3, 8, 8), labels))
    sentences = [str(warning.message) for warning in recwarn]
    assert any("labels count from 1" in text for text in sentences) == (first == 1)


def test_source_images_from_which_nan_is_learned() -> None:
    """Nothing of it stays."""
    method = RMT(tiny_net(), lambda p: torch.optim.SGD(p, lr=1e30), warm_up=60, source_images=6)
    before = tensors(method)
    with pytest.raises(HoldfastError, match="learned NaN"):
        method.fit(image_batches(4))
    assert method.unfitted
    assert all(torch.equal(value, before[key]) for key, value in tensors(method).items())


@pytest.mark.parametrize("name", ["RoTTA", "PeTTA", "NOTE", "SoTTA", "GTTA", "Tent-window"])
def test_images_of_another_size_than_those_that_are_stored(name: str) -> None:
    method = Tent(tiny_net(), window=4) if name == "Tent-window" else TABLE[name].make(tiny_net())
    images = torch.rand(6, 3, 8, 8)
    method.adapt(images)
    before = tensors(method)
    with pytest.raises(HoldfastError, match=r"stores images of \[8, 8\] .* of \[12, 8\]"):
        method.adapt(torch.rand(6, 3, 12, 8))
    assert all(torch.equal(value, before[key]) for key, value in tensors(method).items())
    assert method.adapt(images).isfinite().all()


@pytest.mark.parametrize("name", ["Tent", "MEMO"])  # MEMO predicts by an update
def test_images_that_require_a_gradient(name: str) -> None:
    """They give the same step, and get none."""
    (images,) = image_batches(1)
    net, wanting = tiny_net(), images.clone().requires_grad_()
    methods = [TABLE[name].make(net) for _ in range(2)]
    predicted = [m.predict(x) for m, x in zip(methods, (images, wanting), strict=True)]
    adapted = [m.adapt(x) for m, x in zip(methods, (images, wanting), strict=True)]
    assert torch.equal(*predicted)
    assert torch.equal(*adapted)
    assert wanting.grad is None
    assert not adapted[1].requires_grad


# ---- checkpoints ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prefix", ["", "module.", "_orig_mod.", "module._orig_mod.", "model.", "net.module."]
)
@pytest.mark.parametrize("container", ["state_dict", "model", "model_state_dict", "state_dict_ema"])
def test_prefixes_and_containers(prefix: str, container: str, tmp_path: Path) -> None:
    """What wraps a network puts a prefix before its names; other names there are left out."""
    expected = tiny_net().state_dict()
    state = {prefix + name: tensor for name, tensor in expected.items()}
    if prefix in ("model.", "_orig_mod."):
        state["criterion.weight"] = torch.ones(2)
    torch.save({container: state, "epoch": 3}, tmp_path / "weights.pth")
    loaded = renamed(read_checkpoint(tmp_path / "weights.pth"), expected.keys())
    assert loaded.keys() == expected.keys()
    assert all(torch.equal(loaded[name], expected[name]) for name in expected)


def test_names_of_a_network_that_begin_like_a_prefix() -> None:
    names = {"model.0.weight": torch.ones(1), "net.0.weight": torch.ones(1)}
    assert renamed(names, names.keys()) == names


def test_early_densenets() -> None:
    names = ["features.denseblock1.denselayer2.norm1.weight", "features.norm0.bias"]
    early = {
        "features.denseblock1.denselayer2.norm.1.weight": torch.ones(1),
        "features.norm0.bias": torch.ones(1),
    }
    assert [*renamed(early, dict.fromkeys(names).keys())] == names


def test_files_with_odd_content(tmp_path: Path) -> None:
    state = load_backbone("digits")[1].state_dict()
    cases = {
        "a key that is no text": ({3: torch.ones(2)}, "no state dict"),
        "a scalar bias": ({"fc.bias": torch.tensor(1.0)}, "do not fit"),
        "others": ({name[:-3]: tensor for name, tensor in state.items()}, "do not fit"),
    }
    for content, sentence in cases.values():
        torch.save(content, tmp_path / "odd.pth")
        with pytest.raises(HoldfastError, match=sentence):
            load_backbone(f"torchvision/squeezenet1_1:{tmp_path / 'odd.pth'}")


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("open('absent.bin')", r"No such file .*'absent\.bin'; .*ownnets\.py, line 6\)"),
        (
            "normalised(torch.nn.Identity(), [123.7] * 3, [58.4] * 3)",
            r"^mean=.* Divide values for images in \[0,255\] by 255\.$",
        ),
    ],
)
def test_a_factory_that_fails(
    body: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file and line are in the message; a sentence of ours is not cut."""
    first = "import torch; from holdfast.methods.backbones.layers import normalised"
    lines = [first, "", "", "def make():"]
    (tmp_path / "ownnets.py").write_text("\n".join([*lines, "", f"    return {body}", ""]))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "ownnets", raising=False)
    with pytest.raises(HoldfastError) as caught:
        load_backbone("ownnets.make")
    assert re.search(sentence, str(caught.value))


# ---- callbacks ------------------------------------------------------------------------------------


def test_a_watch_takes_a_single_monitor_and_one_reset() -> None:
    monitor = cb.RiskMonitor(start=3)
    watch = cb.Watch(Tent(tiny_net()), cb.SoftmaxScore(), monitors=monitor)
    watch.step(torch.rand(6, 3, 8, 8))
    assert watch.monitors == [monitor]
    assert watch.estimators[0].latest is not None
    with pytest.raises(HoldfastError, match=r"reset=list: pass one Reset"):
        cb.Watch(Tent(tiny_net()), reset=[cb.PeriodicReset(2)])  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [cb.RiskMonitor, cb.SrcValid, cb.DoC, cb.DatasetEstimates])
def test_a_source_that_is_none(make: Any) -> None:
    with pytest.raises(HoldfastError, match="source=Tensor: pass labelled images"):
        make(torch.rand(64, 3, 8, 8))
