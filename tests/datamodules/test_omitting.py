"""Streams without the images that are easy for a network."""

import pytest
import torch
from conftest import joined, plain_trainer
from torch.special import entr

from holdfast import HoldfastError
from holdfast.datamodules import CCC, Corrupted, Digits, Omitting
from holdfast.methods import BNAdapt, Source, load_backbone

POOL = 120


def inner(seed: int = 43) -> Corrupted:
    return Corrupted(Digits(), ["gaussian_noise"], [5], each=200, seed=seed, num_workers=0)


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
    """And comes once an epoch, with the pixels of the other stream."""
    data, (probs, labels) = omitting(top=top), probabilities()
    likeliest = probs.topk(max(top, 1), 1).indices
    expected = ~(likeliest[:, :top] == labels[:, None]).any(1)
    assert data.chosen.positions.tolist() == expected.nonzero().squeeze(1).tolist()
    n = int(expected.sum())
    assert n > 0
    assert (n == POOL) == (top == 0)
    for epoch in (0, 1):
        index = torch.arange(epoch * n, epoch * n + n)
        positions = data.positions(index)
        assert sorted(positions.tolist()) == data.chosen.positions.tolist()
        ours, theirs = data.batch(index), inner().batch(positions)
        assert torch.equal(ours.images, theirs.images)
        assert torch.equal(ours.labels, theirs.labels)
        assert torch.equal(ours.index, index)
    assert data.positions(torch.arange(n)).tolist() != data.positions(index).tolist()


def test_what_is_certain_is_left_out() -> None:
    probs, _ = probabilities()
    entropies = entr(probs).sum(1)
    level = float(entropies.median())
    facts = omitting(entropy=level).chosen.facts
    assert facts["left"] == int((entropies > level).sum())
    assert facts["entropy_left"] == pytest.approx(
        float(entropies[entropies > level].mean()), abs=1e-3
    )
    assert facts["entropy_omitted"] < level < facts["entropy_left"]
    assert omitting().chosen.facts["entropy_omitted"] is None


def test_workers_and_batch_sizes_make_the_same_stream() -> None:
    whole = omitting(top=1).batch(torch.arange(90))
    for workers in (0, 1):
        data = omitting(top=1, images=90, num_workers=workers)
        batches = joined(list(data.test_dataloader()))
        assert torch.equal(batches.images, whole.images)
    assert omitting(top=1).identity == omitting(top=1).identity
    assert omitting(top=1).identity != omitting(top=2).identity


def test_a_method_adapts_to_it() -> None:
    """The network may be a method as it begins; the source model has none of the images right."""
    data = Omitting(inner(), Source("digits"), POOL, top=1, images=80, batch_size=40, num_workers=0)
    trainer = plain_trainer()
    trainer.test(Source("digits"), datamodule=data, verbose=False)
    assert float(trainer.callback_metrics["accuracy"]) == 0
    assert data.identity["omitting"]["left"] == data.chosen.facts["left"]
    other = Omitting(inner(), BNAdapt("digits"), POOL, top=1, num_workers=0)
    assert other.chosen.facts != data.chosen.facts


def test_a_data_set_of_the_first_images_of_a_walk() -> None:
    """Without a network nothing is left out; each epoch is a segment, whatever corruptions it holds."""
    walk = CCC(
        Digits(),
        40,
        20,
        images=500,
        calibration="digits",
        corruptions=["fog", "contrast"],
        quality=None,
    )
    data = Omitting(walk, None, 90, images=250, batch_size=50, num_workers=0)
    assert data.chosen.positions.tolist() == list(range(90))
    assert len({s.corruptions for s in map(walk.segment, range(4))}) > 1
    batches = joined(list(data.test_dataloader()))
    assert batches.segment.tolist() == [i // 90 for i in range(250)]
    assert str(data.segment(0)) == "mixed"
    assert data.segment(0).count == 90
    whole = walk.batch(torch.arange(90))
    order = data.positions(torch.arange(90))
    assert torch.equal(batches.images[:90], whole.images[order])
    with pytest.raises(HoldfastError, match=r"top=1 and entropy=0 need a network"):
        Omitting(walk, None, 90, top=1)


def test_bad_options() -> None:
    with pytest.raises(HoldfastError, match="omit all 120 images"):
        _ = omitting(top=10).chosen
    with pytest.raises(HoldfastError, match=r"pool=201.* 200 images"):
        omitting(pool=201)
    with pytest.raises(HoldfastError, match="top=-1"):
        omitting(top=-1)
