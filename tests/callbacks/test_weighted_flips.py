"""Weighted flips: the official numbers, runs against two models side by side, states and errors."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from common import GOLDEN, TensorStream, tiny_net, trainer_test

from holdfast import HoldfastError
from holdfast.callbacks import WeightedFlips
from holdfast.callbacks.functional.flips import PUBLISHED, FlipFunction, fit, flips
from holdfast.methods import RDumb, Source, Tent

FOLDER = GOLDEN / "estimators"
RANDOM = torch.Generator().manual_seed(1)
COLOURS = torch.rand(12, 8, 3, 1, 1, generator=RANDOM)
IMAGES = COLOURS * torch.rand(12, 8, 3, 8, 8, generator=RANDOM)
IMAGES = (IMAGES * 255).round() / 255


def test_flips_and_published_functions() -> None:
    golden = json.loads((FOLDER / "entropy_enigma_flips.json").read_text())
    for table in golden["tables"].values():
        arrays = (np.array(table[k]) for k in ("pred_start", "pred_end", "conf_start"))
        start, end, confidence = arrays
        share = table["n"] / 1000
        weighted = share * flips(start, end, confidence)
        unweighted = share * flips(start, end, confidence, weighted=False)
        assert weighted == pytest.approx(table["weighted_flips"], abs=1e-9)
        assert unweighted == pytest.approx(table["unweighted_flips"], abs=1e-9)
    for key, name in (
        ("weighted_deg2", "resnet50"),
        ("unweighted_deg1", "resnet50-unweighted-linear"),
    ):
        percent = [100 * PUBLISHED[name](count) for count in golden["f_grid"]["flips"]]
        # The paper clips, the official code does not.
        np.testing.assert_allclose(percent, np.clip(golden["f_grid"][key], 0, 100), atol=1e-9)


def test_fit_recovers_a_polynomial(tmp_path: Path) -> None:
    x = np.array([0.0, 100, 300, 500])
    f = fit(np.stack([x, 80 - 0.1 * x - 1e-5 * x**2], 1), 2, False, 7, stream="s")
    assert f.coefficients == pytest.approx((-1e-5, -0.1, 80))
    f.save(tmp_path / "f.json")
    again = FlipFunction.load(tmp_path / "f.json")
    assert again(200) == pytest.approx(0.596)
    assert again.provenance["stream"] == "s"
    for text in ("{", "{}", "[]"):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(HoldfastError, match=r"bad\.json does not contain an f"):
            FlipFunction.load(tmp_path / "bad.json")
    with pytest.raises(HoldfastError, match="cannot be written"):
        f.save(tmp_path / "bad.json" / "f.json")
    with pytest.raises(HoldfastError, match="degree 2"):
        fit(np.array([[1, 2], [1, 3], [2, 2]]), 2, True, 7)


def tent() -> Tent:
    torch.manual_seed(0)
    return Tent(tiny_net(), lambda params: torch.optim.SGD(params, lr=1.0, momentum=0.9))


def by_hand(held: torch.Tensor, steps: int) -> dict[str, float]:
    """The flips of Tent after that many steps, with two models side by side."""
    source, adapted = tent(), tent()
    for images in IMAGES[:steps]:
        adapted.adapt(images)
    groups = [(source.predict(x).softmax(1), adapted.predict(x)) for x in held.split(10)]
    start, end = (torch.cat(part) for part in zip(*groups, strict=True))
    arrays = start.argmax(1).numpy(), end.argmax(1).numpy(), start.amax(1).numpy()
    assert (arrays[0] != arrays[1]).sum() >= 2
    return {"flips": flips(*arrays), "unweighted": flips(*arrays, weighted=False)}


@pytest.mark.parametrize("stop", [5, 9])
def test_flips_of_a_run(stop: int) -> None:
    """20 images fill three batches: the first predictions come late, but with the first weights."""
    watch = WeightedFlips(None, held=20, stop=stop, at_once=10)
    metrics = trainer_test(tent(), TensorStream(IMAGES), watch)
    expected = by_hand(IMAGES.flatten(0, 1)[:20], stop)
    assert metrics["WeightedFlips_flips"] == pytest.approx(expected["flips"])
    assert metrics["WeightedFlips_unweighted"] == pytest.approx(expected["unweighted"])


def test_each_reset_begins_anew() -> None:
    torch.manual_seed(0)
    sgd = lambda params: torch.optim.SGD(params, lr=0.05)  # noqa: E731
    method = RDumb(tiny_net(), sgd, 6, entropy_factor=1.0, redundancy=2.0)
    watch = WeightedFlips("resnet50", held=16, stop=4, any_backbone=True, at_once=8)
    answers = []
    for images in IMAGES:
        answers.append(watch.watch(method, images))
        method.adapt(images)
    assert [step for step, answer in enumerate(answers) if answer is not None] == [4, 10]


def test_flips_are_counted_before_a_reset_that_is_due() -> None:
    """RDumb's reset and the paper's stop both come after 1,000 steps, as may the stream's end."""

    def made(every: int) -> tuple[RDumb, WeightedFlips]:
        torch.manual_seed(0)
        sgd = lambda params: torch.optim.SGD(params, lr=1.0, momentum=0.9)  # noqa: E731
        method = RDumb(tiny_net(), sgd, every, entropy_factor=1.0, redundancy=2.0)
        return method, WeightedFlips(None, 16, 4, at_once=8)

    method, watch = made(every=4)
    for images in IMAGES[:5]:
        watch.watch(method, images)
        method.adapt(images)
    assert method.reset_count == 1
    assert watch.logged["_unweighted"] > 0
    other, late = made(every=9)
    trainer_test(other, TensorStream(IMAGES[:4]), late)
    assert late.logged == watch.logged


def test_a_model_that_does_not_adapt_has_no_flips_to_speak_of() -> None:
    watch = WeightedFlips("resnet50", held=16, stop=4, any_backbone=True, at_once=8)
    metrics = trainer_test(Source(tiny_net()), TensorStream(IMAGES), watch)
    assert metrics["WeightedFlips_flips"] == 0
    assert "WeightedFlips" not in metrics


def test_a_published_f_speaks_for_its_network_only() -> None:
    with pytest.raises(HoldfastError, match="any_backbone"):
        trainer_test(tent(), TensorStream(IMAGES), WeightedFlips())
    with pytest.raises(HoldfastError, match="Unknown f 'resnet51'"):
        WeightedFlips("resnet51")
