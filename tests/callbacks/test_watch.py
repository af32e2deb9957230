"""A Watch in production: which images it refuses, and which states it accepts."""

import copy
import io
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from common import tiny_net
from golden_traces import tensors
from torch import Tensor, nn

from holdfast import HoldfastError
from holdfast import callbacks as cb
from holdfast.methods import SAR, RDumb, Tent, normalised


class Calls(cb.SoftmaxScore):
    """Counts its calls."""

    asked = 0

    def estimate(self, method: Any, images: Tensor) -> Tensor:
        self.asked += 1
        return super().estimate(method, images)


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (np.zeros((4, 3, 8, 8), np.float32), r"numpy\.ndarray.*as_tensor"),
        ([torch.rand(3, 8, 8)] * 4, r"list.*stack"),
        (torch.rand(4, 8, 8, 3), "channels first"),
        (torch.rand(8, 8, 3), r"\[B,3,H,W\]"),
        (torch.rand(3, 8, 8), r"not \[3, 8, 8\]"),
        (torch.rand(4, 3, 8, 8).double(), "float64.*float32"),
        (torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8), "uint8.* / 255"),
        (torch.rand(4, 3, 8, 8) * 255, r"up to 2\d\d"),
        (torch.rand(4, 3, 8, 8) * 4 - 2, r"-[12].*normalises its inputs itself"),
        (torch.rand(4, 1, 8, 8), r"\[B,3,H,W\].*\[4, 1, 8, 8\]"),
        (torch.rand(0, 3, 8, 8), r"at least 1, not \[0, 3, 8, 8\]"),
        (torch.rand(4, 3, 8, 8).half(), r"float16.*float32"),
    ],
)
@pytest.mark.parametrize("way", ["adapt", "Watch", "estimator"])
def test_bad_images_are_refused_before_anything_sees_them(
    images: Any, words: str, way: str
) -> None:
    """And change nothing, not even what a reset counts."""
    score, net = Calls(), normalised(tiny_net(), [0.5] * 3, [0.25] * 3)
    watch = cb.Watch(Tent(net), [score], cb.PeriodicReset(1))
    ways = {"adapt": watch.method.adapt, "Watch": watch.step}
    before = copy.deepcopy(tensors(watch.method))
    with pytest.raises(HoldfastError, match=words):
        ways.get(way, partial(score.watch, watch.method))(images)
    assert score.asked == watch.method.step_count == watch.method.reset_count == 0
    assert all(torch.equal(value, before[key]) for key, value in tensors(watch.method).items())


def test_images_below_zero_are_warned_of_where_the_network_does_not_normalise() -> None:
    with pytest.warns(UserWarning, match=r"down to -0\.[45].*normalised\("):
        Tent(tiny_net()).adapt(torch.rand(4, 3, 8, 8) - 0.5)


@pytest.mark.filterwarnings("error")
def test_what_interpolation_leaves_below_zero_is_no_reason_to_warn() -> None:
    Tent(tiny_net()).adapt(torch.rand(4, 3, 8, 8) - 0.02)


def made(net: nn.Module, method: Any = Tent, rate: float = 1e-3, **changes: Any) -> cb.Watch:
    """A Watch with one estimator and one reset, but for these changes."""
    estimators = [cb.AETTA(passes=changes.pop("passes", 2), layers=["2", "5"])]
    arguments = {"estimators": estimators, "reset": cb.PeriodicReset(9), **changes}
    return cb.Watch(method(net, lambda params: torch.optim.SGD(params, lr=rate)), **arguments)


OTHERS: dict[str, dict[str, Any]] = {
    "method is Tent, not SAR": {"method": SAR},
    "weights": {"net": tiny_net()},
    "optimizer.*0.001.*0.01": {"rate": 0.01},
    "estimators.*AETTA.*SoftmaxScore": {"estimators": [cb.SoftmaxScore()]},
    "estimators.*passes is 2, not 7": {"passes": 7},
    "resets.*PeriodicReset": {"reset": None},
    "resets.*9.*10": {"reset": cb.PeriodicReset(10)},
    "resets.*StochasticRestore": {"reset": cb.StochasticRestore(0.5)},
    "monitors.*RiskMonitor": {"monitors": [cb.RiskMonitor(start=3)]},
}


@pytest.mark.parametrize("words", OTHERS)
def test_a_state_goes_only_to_a_watch_like_its_own(words: str) -> None:
    net = tiny_net()
    watch = made(net)
    watch.step(torch.rand(4, 3, 8, 8))
    stranger = made(**{"net": net, **OTHERS[words]})
    before = copy.deepcopy(tensors(stranger.method))
    with pytest.raises(HoldfastError, match=words):
        stranger.load_state_dict(watch.state_dict())
    after = tensors(stranger.method)
    assert all(torch.equal(value, after[key]) for key, value in before.items())


def test_a_reset_of_the_methods_own_belongs_to_it() -> None:
    net = tiny_net()
    saved = cb.Watch(RDumb(net, every=5)).state_dict()
    with pytest.raises(HoldfastError, match=r"every.*5.*6"):
        cb.Watch(RDumb(net, every=6)).load_state_dict(saved)


@pytest.mark.parametrize("state", [{}, {"method": {}}, None, "loop.pt"])
def test_what_is_no_state(state: Any) -> None:
    with pytest.raises(HoldfastError, match="state_dict"):
        made(tiny_net()).load_state_dict(state)


def test_two_estimators_of_a_class_have_names_of_their_own() -> None:
    """So a reset can listen to the second, and their states go back to them through a file."""
    net = tiny_net()

    def make() -> cb.Watch:
        scores = [cb.SoftmaxScore(1.0), cb.SoftmaxScore(4.0)]
        return cb.Watch(Tent(net), scores, cb.AccuracyReset("SoftmaxScore_2", floor=0.0))

    watch, again, file = make(), make(), io.BytesIO()
    watch.step(torch.rand(4, 3, 8, 8))
    torch.save(watch.state_dict(), file)
    file.seek(0)
    again.load_state_dict(torch.load(file, weights_only=True))
    assert [e.latest for e in again.estimators] == [e.latest for e in watch.estimators]
    assert again.estimators[0].latest != again.estimators[1].latest
