"""Several updates on a batch, and a sliding window over a stream of single images."""

from functools import partial

import pytest
import torch
from common import tiny_net
from table import TABLE, quiet

from holdfast import HoldfastError
from holdfast.callbacks.recovery import arguments
from holdfast.methods import BNAdapt
from holdfast.methods.testing import differing, image_batches, spoiled, tensors, verify

pytestmark = [quiet, pytest.mark.filterwarnings("ignore:Some images are not finite")]
MEMORY = ["RoTTA", "PeTTA", "SoTTA", "NOTE"]
SINGLY = ["MEMO"]


def test_steps_are_updates_on_the_same_batch() -> None:
    net, (first, second) = tiny_net(), image_batches(2)
    make = TABLE["Tent"].make
    several, single = make(net, steps=3), make(net)
    for images in (first, second):
        for _ in range(3):
            expected = single.adapt(images)
        assert torch.equal(several.adapt(images), expected)
    assert differing(tensors(several), tensors(single)) == set()
    assert (several.step_count, single.step_count) == (2, 6)


@pytest.mark.parametrize("name", ["EATA", "CoTTA", "ETA-ASR", "RoTTA"])
def test_passes_keep_what_all_methods_promise(name: str) -> None:
    """Of several kinds of state: what is learnt of the source, a teacher, a recovery, a memory."""
    options = {"steps": 2} | ({} if name in MEMORY + SINGLY else {"window": 8})
    for check in ("reset", "resume"):
        verify(check, partial(TABLE[name].make, **options), "bn")


def test_a_window_is_a_batch_of_the_newest_images() -> None:
    net, images = tiny_net(), torch.rand(9, 3, 8, 8)
    windowed, batch = TABLE["Tent"].make(net, window=4), TABLE["Tent"].make(net)
    for number in range(9):
        logits = windowed.adapt(images[number : number + 1])
        seen = images[max(0, number - 3) : number + 1]
        expected = batch.adapt(seen) if number % 4 == 3 else batch.predict(seen)
        assert torch.equal(logits, expected[-1:])
        assert ("loss" in windowed.trace) == (number % 4 == 3)
    assert differing(tensors(windowed), tensors(batch)) == set()


def test_a_window_takes_batches_and_leaves_bad_images_out() -> None:
    net, batches = tiny_net(), image_batches(4, size=6)
    windowed, other = BNAdapt(net, window=9), BNAdapt(net, window=9)
    windowed.adapt(batches[0])
    other.adapt(batches[0])
    good = [0, 2, 3, 4, 5]
    assert torch.equal(windowed.adapt(spoiled(batches[1]))[good], other.adapt(batches[1][good]))
    assert windowed.state["window"]["images"].isfinite().all()
    assert windowed.state["window"]["images"].shape[0] == 9
    single = BNAdapt(net, window=4)
    assert torch.equal(single.adapt(batches[2]), BNAdapt(net).adapt(batches[2])), "larger batches"


def test_settings_are_checked_and_in_the_provenance() -> None:
    net = tiny_net()
    for name in MEMORY + SINGLY:
        with pytest.raises(HoldfastError, match="Leave window out"):
            TABLE[name].make(net, window=8)
    found = arguments(TABLE["RDumb"].make(net, steps=2, window=16))
    assert (found["steps"], found["window"]) == (2, 16)
    assert "steps" not in arguments(partial(TABLE["RDumb"].make)(net))
