"""At the border, for all that is registered: observers change no run, networks stay what they are.

Each method meets each observer and each of BORDER_NETS that it accepts.
"""

import inspect
import io
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from border_nets import BORDER_NETS
from common import tiny_net
from lightning.pytorch import LightningDataModule
from table import TABLE, quiet
from torch import Tensor, nn

from holdfast import HoldfastError
from holdfast import callbacks as cb
from holdfast.batch import Batch, LabelledImages
from holdfast.methods import Tent, TTAMethod
from holdfast.methods.testing import image_batches, tensors, unlike
from holdfast.networks import named_tensors

pytestmark = [quiet, pytest.mark.filterwarnings("ignore:.*not finite", "ignore:.*top ones")]


def pairs() -> Iterator[tuple[str, str]]:
    """Each method and the networks that suit it; variants of a method on the first one only."""
    for name, row in TABLE.items():
        nets = [net for net in BORDER_NETS if net.partition(" ")[0] not in row.refuses]
        if "bn" in row.refuses:
            nets = [net for net in nets if net in ("vit in place", "clip in place")]
        elif "vit in place" in nets:
            nets.remove("vit in place")
            nets.remove("clip in place")
        yield from ((name, net) for net in (nets[:1] if "-" in name else nets))


def made(name: str, net: str) -> TTAMethod:
    torch.manual_seed(0)
    method = TABLE[name].make(BORDER_NETS[net]())
    method.fit(image_batches(1))
    return method


# ---- an observer never changes a run --------------------------------------------------------------


class Images(LabelledImages):
    """Labelled random images of 8 x 8 pixels."""

    def __len__(self) -> int:
        return 48

    def load(self, index: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        images = np.random.default_rng(0).integers(0, 256, (len(self), 3, 8, 8), dtype=np.uint8)
        return torch.from_numpy(images)[index], index % 5


class Labelled(LightningDataModule):
    """A labelled stream of these images."""

    images, start, batch_size, identity = 24, 0, 6, {"class": "Labelled"}

    def batch(self, index: Tensor) -> Batch:
        images, labels = Images().load(index, index)
        dimmed = images / 255 / (1 + index[:, None, None, None] // 6)
        return Batch(dimmed, labels, index, torch.zeros_like(index))

    def seedless(self, facts: Any) -> Any: ...

    def segment(self, number: int) -> Any: ...

    def passed(self, batch: Any) -> None: ...

    def adopt(self, network: Any) -> None: ...


SOURCE = Images()
OBSERVERS: dict[str, Callable[[nn.Module], cb.Observer]] = {
    "AETTA": lambda net: cb.AETTA(passes=2, layers=[last_norm(net)]),
    "GDE": lambda _: cb.GDE(),
    "IndependentGDE": lambda _: cb.IndependentGDE([Tent(tiny_net())]),
    "SoftmaxScore": lambda _: cb.SoftmaxScore(),
    "AdvPerturb": lambda _: cb.AdvPerturb(),
    "SrcValid": lambda _: cb.SrcValid(SOURCE, 4),
    "SourceAgreement": lambda _: cb.SourceAgreement(),
    "CalibratedConfidence": lambda _: cb.CalibratedConfidence(SOURCE, 8),
    "DoC": lambda _: cb.DoC(SOURCE, 8),
    "ATC": lambda _: cb.ATC(SOURCE, 8),
    "MaNo": lambda _: cb.MaNo(Labelled()),
    "NuclearNorm": lambda _: cb.NuclearNorm(Labelled()),
    "Concentration": lambda _: cb.Concentration(Labelled()),
    "WeightedFlips": lambda _: cb.WeightedFlips(None, held=4, stop=1, at_once=2),
    "Alarm": lambda _: cb.Alarm("SoftmaxScore"),
    "RiskMonitor": lambda _: cb.RiskMonitor(SOURCE, 40),
}
ROUNDS = 4
# Images in a batch, for methods that make views of each.
SIZES = dict.fromkeys(["MEMO", "TTAug", "VTE", "TDA-views", "TPT"], 2)


def last_norm(net: nn.Module) -> str:
    """The name of a layer in the middle, after which AETTA's dropout acts."""
    names = [name for name, layer in net.named_modules() if isinstance(layer, nn.BatchNorm2d)]
    return names[-1] if names else next(n for n, _ in net.named_modules() if n.endswith("blocks.2"))


def outcome(name: str, net: str, observers: list[Any]) -> dict[str, Tensor]:
    """The logits of two steps, the weights after them, and the random numbers that follow."""
    method = made(name, net)
    estimators = [each for each in observers if isinstance(each, cb.AccuracyEstimator)]
    monitors = [each for each in observers if hasattr(each, "alarm")]
    watch = cb.Watch(method, estimators, monitors=monitors)
    torch.manual_seed(5)
    logits = [watch.step(images) for images in image_batches(2, size=SIZES.get(name, 6))]
    return {**dict(zip("01", logits, strict=True)), **tensors(method), "random": torch.rand(3)}


@pytest.mark.parametrize(("name", "net"), pairs())
def test_an_observer_never_changes_a_run(name: str, net: str) -> None:
    """Bit for bit; and estimates lie in [0,1]. A quarter of the observers beside each pair, in turn."""
    number = list(pairs()).index((name, net))
    names = dict.fromkeys(["SoftmaxScore", *[*OBSERVERS][number % ROUNDS :: ROUNDS]])
    watching = [OBSERVERS[key](BORDER_NETS[net]()) for key in names]
    alone, beside = outcome(name, net, []), outcome(name, net, watching)
    different = [key for key in alone if not torch.equal(alone[key], beside[key])]
    assert not different, f"one of {[*names]} changes {different}"
    for callback in watching:
        if isinstance(callback, cb.AccuracyEstimator) and callback.latest is not None:
            assert 0 <= callback.latest <= 1


def test_every_observer_takes_part() -> None:
    known = {
        name
        for name, kind in vars(cb).items()
        if inspect.isclass(kind)
        and issubclass(kind, cb.Observer)
        and not issubclass(kind, cb.Recovery)
        and not inspect.isabstract(kind)
    }
    # The first two get outputs only, and see no network; the third freezes the method, as it should.
    others = {"DatasetEstimates", "PredictionStatistics", "OverheadBudget"}
    assert known - {"Observer", "Alarming"} - others == OBSERVERS.keys()
    assert {name for name, _ in pairs()} == TABLE.keys()


# ---- a network is what it was ---------------------------------------------------------------------


def shared(network: nn.Module) -> set[frozenset[str]]:
    """The names under which a network has the same parameter, of those with several."""
    names: dict[int, set[str]] = {}
    for name, parameter in network.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), set()).add(name)
    return {frozenset(group) for group in names.values() if len(group) > 1}


def check_identity(method: TTAMethod, given: nn.Module, moment: str) -> None:
    """The optimizer's parameters are the method's, and what the network shares is shared."""
    inside = {id(p) for p in method.parameters()}
    groups = method.optimizer.param_groups if method.optimizer is not None else []
    optimized = [p for group in groups for p in group["params"]]
    assert all(id(p) in inside for p in optimized), f"{moment}: others are optimized"
    assert len({map(id, optimized)}) <= max(len(optimized), 1)
    networks = {id(net): net for net in (method.backbone, method.predictor)}
    for net in networks.values():
        assert shared(net) == shared(given), f"{moment}: other layers are shared"
        assert {id(t) for _, t in named_tensors(net)} <= {
            id(t) for t in (*net.parameters(), *net.buffers())
        }


@pytest.mark.parametrize(("name", "net"), pairs())
def test_a_network_is_what_it_was(name: str, net: str) -> None:
    torch.manual_seed(0)
    given = BORDER_NETS[net]()
    before = {key: value.clone() for key, value in given.state_dict().items()}
    layers = [(type(layer), layer.training) for layer in given.modules()]
    first, *batches = image_batches(3, size=SIZES.get(name, 6))
    method, other = TABLE[name].make(given), TABLE[name].make(given)
    check_identity(method, given, "construction")
    images = first.clone()
    method.fit([images])
    method.adapt(images)
    method.predict(images)
    source = method.source_logits(images)
    assert torch.equal(images, first), "the images have changed"
    check_identity(method, given, "a step and predictions")
    if net != "dropout":
        assert torch.equal(source, method.source_logits(images))
    method.reset()
    check_identity(method, given, "a reset")
    method.adapt(batches[0])
    file = io.BytesIO()
    torch.save(method.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    copy = deepcopy(method)
    for each in (other, copy):
        check_identity(each, given, "a resume or copy")
    logits = []
    for each in (method, other, copy):
        torch.manual_seed(1)
        logits.append(each.adapt(batches[1]))
    assert torch.equal(logits[0], logits[1]), "a resumed method has other logits"
    assert torch.equal(logits[0], logits[2]), "a copied method has other logits"
    assert not unlike(method, other)
    assert not unlike(method, copy)
    assert [(type(layer), layer.training) for layer in given.modules()] == layers
    for key, value in given.state_dict().items():
        assert torch.equal(value, before[key]), f"{key} of the network that was passed has changed"


# ---- each batch is checked: images in test_watch.py, later ones and labels in accelerator_cases.py ----


class Switch(nn.Module):
    """A network whose outputs can be changed."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.change = tiny_net(), "nothing"

    def forward(self, x: Tensor) -> Tensor:
        logits = self.net(x)
        return {
            "nothing": lambda: logits,
            "probabilities": lambda: logits.softmax(1),
            "vector": lambda: logits[:, 0],
            "one logit": lambda: logits[:, :1],
            "maps": lambda: logits[:, :, None, None],
            "more rows": lambda: logits.repeat(4, 1),
        }[self.change]()


OUTPUTS = {
    "probabilities": "returns probabilities.*without its last Softmax",
    "vector": "one value per image",
    "one logit": "one value per image",
    "maps": "one row for each image",
    "more rows": "one row for each image",
}


@pytest.mark.parametrize("steps", [0, 2])
def test_outputs_refused_first_are_refused_third(steps: int) -> None:
    for change, message in OUTPUTS.items():
        method = Tent(Switch())
        for images in image_batches(steps):
            method.adapt(images)
        before = tensors(method)
        method.backbone.change = change  # type: ignore[assignment]
        with pytest.raises(HoldfastError, match=message):
            method.adapt(torch.rand(6, 3, 8, 8))
        assert all(torch.equal(value, before[key]) for key, value in tensors(method).items())
