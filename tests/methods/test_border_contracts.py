"""At the border, for every method: observers change no run, and networks stay what they are."""

import io
from collections.abc import Callable, Iterator
from copy import deepcopy

import pytest
import torch
from border_nets import BORDER_NETS
from common import tiny_net
from table import TABLE, quiet
from torch import Tensor, nn

from holdfast import HoldfastError
from holdfast import callbacks as cb
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
        yield from ((name, net) for net in (nets[:1] if "-" in name else nets[:2]))


# What an observer may do with a method: predictions of it and of the source, dropout inside, gradients with
# respect to images, copies. The others predict; tests/callbacks/test_contract.py has all, beside Tent.
OBSERVERS: list[Callable[[nn.Module], cb.AccuracyEstimator]] = [
    lambda net: cb.AETTA(passes=2, layers=[last_norm(net)]),
    lambda _: cb.AdvPerturb(),
    lambda _: cb.GDE(),
    lambda _: cb.WeightedFlips(None, held=4, stop=1, at_once=2),
    lambda _: cb.SourceAgreement(),
    lambda _: cb.IndependentGDE([Tent(tiny_net())]),
]
# Images in a batch, for methods that make views of each.
SIZES = dict.fromkeys(["MEMO", "TTAug", "VTE", "TDA-views", "TPT"], 2)


def last_norm(net: nn.Module) -> str:
    """The name of a layer in the middle, after which AETTA's dropout acts."""
    names = [name for name, layer in net.named_modules() if isinstance(layer, nn.BatchNorm2d)]
    return names[-1] if names else next(n for n, _ in net.named_modules() if n.endswith("blocks.2"))


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
    """And no observer changes a run: half of them watch the other method, bit for bit."""
    torch.manual_seed(0)
    given = BORDER_NETS[net]()
    before = {key: value.clone() for key, value in given.state_dict().items()}
    layers = [(type(layer), layer.training) for layer in given.modules()]
    first, *batches = image_batches(3, size=SIZES.get(name, 6))
    method, other = TABLE[name].make(given), TABLE[name].make(given)
    check_identity(method, given, "construction")
    half = OBSERVERS[list(pairs()).index((name, net)) % 2 :: 2]
    watch = cb.Watch(other, [make(BORDER_NETS[net]()) for make in half])
    images, logits = first.clone(), []
    for each, step in ((method, method.adapt), (other, watch.step)):
        torch.manual_seed(1)
        each.fit([images])
        logits.append(torch.cat([step(images).flatten(), torch.rand(3)]))
    assert torch.equal(*logits), "an observer changes a step, or the random numbers that follow"
    method.predict(images)
    source = method.source_logits(images)
    assert torch.equal(images, first), "the images have changed"
    check_identity(method, given, "a step and predictions")
    if "dropout" not in net:
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
    for step in (method.adapt, watch.step, copy.adapt):
        torch.manual_seed(1)
        logits.append(step(batches[1]))
    assert all(0 <= e.latest <= 1 for e in watch.estimators if e.latest is not None)
    assert torch.equal(logits[0], logits[1]), "a resumed method with observers has other logits"
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
