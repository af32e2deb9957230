"""A method is for one thread at a time, and says so."""

import threading
from copy import deepcopy

import pytest
import torch
from conftest import tiny_net

from holdfast import HoldfastError
from holdfast.methods import BNAdapt

IMAGES = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))


class Slow(BNAdapt):
    """Waits in the middle of a step until it may go on."""

    def __init__(self) -> None:
        super().__init__(tiny_net())
        self.begun, self.may_end = threading.Event(), threading.Event()

    def update(self, images: torch.Tensor) -> torch.Tensor:
        self.begun.set()
        assert self.may_end.wait(60)
        return super().update(images)


def test_a_step_during_another_is_refused() -> None:
    method, logits = Slow(), []
    thread = threading.Thread(target=lambda: logits.append(method.adapt(IMAGES)))
    thread.start()
    try:
        assert method.begun.wait(60)
        with pytest.raises(HoldfastError, match="Another thread"):
            method.adapt(IMAGES)
    finally:
        method.may_end.set()
        thread.join()
    assert logits[0].shape == (4, 5)
    assert method.step_count == 1
    method.adapt(IMAGES)
    assert method.step_count == 2


def test_a_copy_has_a_turn_of_its_own() -> None:
    method = BNAdapt(tiny_net())
    with method._turn:
        copy = deepcopy(method)
        thread = threading.Thread(target=copy.adapt, args=(IMAGES,))
        thread.start()
        thread.join()
    assert copy.step_count == 1
