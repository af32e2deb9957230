"""When a method is built: the order in a constructor, early errors, copies, and what inspect says."""

import inspect
import logging
import pickle
import subprocess
import sys
from abc import ABC, abstractmethod
from copy import deepcopy
from typing import Any

import pytest
import torch
from common import tiny_net
from torch import Tensor, nn

from holdfast import HoldfastError
from holdfast.callbacks import PeriodicReset
from holdfast.methods import MEMO, SAR, CoTTA, RDumb, RoTTA, Tent, TTAMethod
from holdfast.methods.testing import image_batches, tensors


class Scaling(Tent):
    """Builds its network and its state from an argument."""

    scale: float

    def prepare(self) -> None:
        super().prepare()
        with torch.no_grad():
            self.backbone[-1].weight.mul_(self.scale)

    def fresh_state(self) -> dict[str, Any]:
        return {"scale": torch.tensor(self.scale)}


class After(Scaling):
    """Stores its argument after `super().__init__`, as everywhere in PyTorch."""

    def __init__(self, backbone: Any, scale: float = 0.5, **kwargs: Any) -> None:
        super().__init__(backbone, **kwargs)
        self.head = nn.Linear(5, 5)
        self.scale = scale


class Before(Scaling):
    """Stores its argument before it."""

    def __init__(self, backbone: Any, scale: float = 0.5, **kwargs: Any) -> None:
        self.scale = scale
        super().__init__(backbone, **kwargs)


@pytest.mark.parametrize("kind", [After, Before])
def test_arguments_may_be_stored_after_super_init_or_before(kind: Any) -> None:
    net = tiny_net()
    method = kind(net, scale=0.25)
    assert torch.equal(method.backbone[-1].weight, 0.25 * net[-1].weight)
    assert method.state == {"scale": torch.tensor(0.25)}
    assert method.hparams["scale"] == 0.25
    assert method.hparams["optimizer"]["init_args"]["lr"] == 2.5e-4
    images = image_batches(3)
    copies = deepcopy(method), pickle.loads(pickle.dumps(method))
    logits = [method.adapt(batch) for batch in images]
    for copy in copies:
        assert all(torch.equal(copy.adapt(b), z) for b, z in zip(images, logits, strict=True))
    method.reset()
    assert method.state == {"scale": torch.tensor(0.25)}
    assert torch.equal(method.adapt(images[0]), logits[0])


def test_a_new_method_is_complete() -> None:
    """Moving, saving and listing parameters see the whole method, without a step before them."""
    method = CoTTA(tiny_net())
    names = {name.partition(".")[0] for name, _ in method.named_parameters()}
    assert names == {"backbone", "teacher"}
    assert {p.dtype for p in method.double().parameters()} == {torch.float64}
    fresh = CoTTA(tiny_net())
    fresh.load_state_dict(CoTTA(tiny_net()).state_dict())
    assert tensors(fresh).keys() == tensors(method).keys()


def test_a_constructor_that_uses_the_network_is_told_where_to() -> None:
    class Early(Tent):
        def __init__(self, backbone: Any) -> None:
            super().__init__(backbone)
            self.width = self.backbone[-1].in_features

    with pytest.raises(HoldfastError, match=r"Early.__init__ uses self.backbone.*to prepare"):
        Early(tiny_net())


@pytest.mark.parametrize(
    "make",
    [
        lambda name: MEMO(name, views=0),
        lambda name: CoTTA(name, teacher_rate=1.5),
        lambda name: RoTTA(name, teacher_rate=2),
        lambda name: CoTTA(name, restore=2),
        lambda name: RDumb(name, every=0),
        lambda name: Tent(name, steps=0),
        lambda name: Tent(name, window=1),
        lambda name: SAR(name, recovery=False),
    ],
)
def test_arguments_are_checked_before_a_network_is_loaded(make: Any) -> None:
    with pytest.raises(HoldfastError, match="pass "):
        make("timm/a_network_that_would_be_downloaded.now")


@pytest.mark.parametrize("wrong", [True, False, "RDumb", 1000])
def test_recovery_is_the_papers_none_or_a_recovery(wrong: Any) -> None:
    with pytest.raises(HoldfastError, match=r'recovery=.*pass "paper" .* PeriodicReset\(1000\)'):
        RDumb(tiny_net(), recovery=wrong)
    assert isinstance(RDumb(tiny_net(), recovery="paper").recovery, PeriodicReset)
    assert RDumb(tiny_net(), recovery=None).recovery is None
    assert Tent(tiny_net()).recovery is None


def test_inspect_sees_the_arguments_of_the_constructor() -> None:
    assert list(inspect.signature(Tent).parameters) == ["backbone", "optimizer", "come", "kwargs"]
    assert list(inspect.signature(TTAMethod).parameters)[-1] == "recovery"


def test_a_method_may_have_abstract_bases() -> None:
    class Measuring(ABC):
        @abstractmethod
        def distance(self, logits: Tensor) -> Tensor: ...

    class Distant(Tent, Measuring):
        def distance(self, logits: Tensor) -> Tensor:
            return logits.norm()

    assert Distant(tiny_net()).distance(torch.ones(4)) == 2


def test_imports() -> None:
    """Of corruptions: numpy, torch and cv2 only; of methods: no logger and no filter is changed."""
    code = """
import sys, numpy, torch, cv2
before = {*sys.modules}
from holdfast.datamodules.corruptions import augmentation, imagecorruptions
more = {name.partition('.')[0] for name in {*sys.modules} - before} - {*sys.stdlib_module_names}
assert more == {'holdfast'}, more
import logging, warnings
import lightning.pytorch, torchmetrics, torchvision, timm, torch.distributed
def state():
    loggers = [logging.getLogger(), *logging.root.manager.loggerDict.values()]
    return {l.name: (l.level, l.disabled, len(l.filters), len(l.handlers))
        for l in loggers if isinstance(l, logging.Logger)}, [*warnings.filters]
before = state()
import holdfast.methods, holdfast.callbacks
after = state()
assert {n: after[0].get(n) for n in before[0]} == before[0], "a logger"
assert after[1] == before[1], "the filters of warnings"
assert not hasattr(holdfast.datamodules, 'Nothing')
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
    assert logging.getLogger("lightning.pytorch.utilities.rank_zero").filters == []
