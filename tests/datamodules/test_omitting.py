"""Streams without the images that are easy for a network."""

import pytest
import torch
from common import plain_trainer
from torch.special import entr

from holdfast import HoldfastError
from holdfast.datamodules import CCC, Corrupted, Digits, Omitting
from holdfast.methods import BNAdapt, Source, load_backbone

POOL = 120


def inner() -> Corrupted:
    return Corrupted(Digits(), ["gaussian_noise"], [5], each=200, num_workers=0)


def omitting(**options: object) -> Omitting:
    arguments = {"pool": POOL, "batch_size": 40, "num_workers": 0, **options}
    return Omitting(inner(), load_backbone("digits"), **arguments)  # type: ignore[arg-type]


def probabilities() -> tuple[torch.Tensor, torch.Tensor]:
    """Of the pool, and its labels."""
    batch = inner().batch(torch.arange(POOL))
    with torch.no_grad():
        return load_backbone("digits")(batch.images).softmax(1), batch.labels


@pytest.mark.parametrize("top", [0, 1, 2])
def test_what_is_left_has_its_label_behind_the_likeliest(top: int) -> None:
    """And comes once an epoch, in a new order."""
    data, (probs, labels) = omitting(top=top), probabilities()
    likeliest = probs.topk(max(top, 1), 1).indices
    expected = ~(likeliest[:, :top] == labels[:, None]).any(1)
    assert data.chosen.positions.tolist() == expected.nonzero().squeeze(1).tolist()
    n = int(expected.sum())
    assert n > 0
    assert (n == POOL) == (top == 0)
    first, second = (data.positions(torch.arange(n) + epoch * n).tolist() for epoch in (0, 1))
    assert sorted(first) == sorted(second) == data.chosen.positions.tolist()
    assert first != second


def test_what_is_certain_is_left_out() -> None:
    probs, _ = probabilities()
    entropies = entr(probs).sum(1)
    level = float(entropies.median())
    facts = omitting(entropy=level).chosen.facts
    left = entropies[entropies > level]
    assert facts["left"] == len(left)
    assert facts["entropy_left"] == pytest.approx(float(left.mean()), abs=1e-3)
    assert facts["entropy_omitted"] < level < facts["entropy_left"]
    assert omitting().chosen.facts["entropy_omitted"] is None


def test_a_method_adapts_to_it() -> None:
    """The network may be a method as it begins; the source model has none of the images right."""
    data = Omitting(inner(), Source("digits"), POOL, top=1, images=80, batch_size=40)  # one worker
    trainer = plain_trainer()
    trainer.test(Source("digits"), datamodule=data, verbose=False)
    assert float(trainer.callback_metrics["accuracy"]) == 0
    assert data.identity["omitting"]["left"] == data.chosen.facts["left"]
    other = Omitting(inner(), BNAdapt("digits"), POOL, top=1, num_workers=0)
    assert other.chosen.facts != data.chosen.facts


def test_a_data_set_of_the_first_images_of_a_walk() -> None:
    """Without a network nothing is left out; each epoch is a segment, whatever corruptions it holds."""
    walk = CCC(Digits(), 40, 20, 500, calibration="digits", corruptions=["fog", "contrast"])
    data = Omitting(walk, None, 90, images=250, num_workers=0)
    assert len({s.corruptions for s in map(walk.segment, range(4))}) > 1
    assert data.segments_at(torch.arange(250)).tolist() == [i // 90 for i in range(250)]
    assert (str(data.segment(0)), data.segment(0).count) == ("mixed", 90)
    assert sorted(data.positions(torch.arange(90)).tolist()) == list(range(90))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"top": 10}, "omit all 120 images"),
        ({"pool": 201}, r"pool=201.* 200 images"),
        ({"top": -1}, "top=-1"),
    ],
)
def test_refusals(options: dict, sentence: str) -> None:
    with pytest.raises(HoldfastError, match=sentence):
        _ = omitting(**options).chosen
    with pytest.raises(HoldfastError, match="need a network"):
        Omitting(inner(), None, 90, top=1)
