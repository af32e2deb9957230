"""A stream's pixels depend on the position alone."""

import pickle
from itertools import islice
from pathlib import Path

import pytest
import torch
from common import joined, same

from holdfast.datamodules import CCC, Batch, Digits, Glyphs, ImageSource

N = 150


def stream(calibration: Path, source: ImageSource | None = None, **kwargs: object) -> CCC:
    """A short stream in which every batch of 64 meets several corruptions."""
    arguments = {"images": N, "speed": 11, "table": "cifar", "num_workers": 0, **kwargs}
    return CCC(source or Glyphs(), 10.0, calibration=calibration, **arguments)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def whole(calibration: Path) -> Batch:
    data = stream(calibration)
    return data.batch(torch.arange(N))


def test_what_a_spawned_worker_gets(whole: Batch, calibration: Path) -> None:
    """Nothing but the stream's pickle, which makes the same batches."""
    data = stream(calibration)
    data.segment_at(100)  # a running generator, which cannot be sent
    dataset = pickle.loads(pickle.dumps(data.test_dataloader().dataset))
    assert torch.equal(joined(list(dataset)).images, whole.images)


def test_seed_changes_everything(whole: Batch, calibration: Path) -> None:
    other = stream(calibration, seed=44).batch(torch.arange(N))
    assert not torch.equal(other.labels, whole.labels)
    assert not torch.equal(other.images, whole.images)
    seeds: list[torch.Tensor] = []

    class Noted(Glyphs):
        def load(
            self, index: torch.Tensor, seed: torch.Tensor | None = None
        ) -> tuple[torch.Tensor, torch.Tensor]:
            assert seed is not None
            seeds.append(seed)
            return super().load(index, seed)

    for number in (43, 44):  # of crops, too
        stream(calibration, Noted(), seed=number).clean(torch.arange(10))
    assert not (seeds[0] == seeds[1]).any()


def test_any_position_of_an_endless_stream(whole: Batch, calibration: Path) -> None:
    data, middle = stream(calibration, images=None), torch.tensor([97, 3, 149])
    assert same(data.batch(middle), Batch(*(part[middle] for part in whole)))
    found = joined(list(islice(data.test_dataloader(), 5)))
    assert found.index.tolist() == list(range(5 * 64))
    assert torch.equal(found.images[:N], whole.images)


def test_no_repeats_within_a_segment(calibration: Path) -> None:
    """A cell draws different images; when it is larger than the set, each comes up equally often."""
    digits = Digits()
    data = stream(calibration, digits, speed=2 * len(digits), images=None)
    index = torch.arange(2 * len(digits))
    drawn = data.source_index(index, torch.zeros_like(index))
    assert drawn.bincount().tolist() == [2] * len(digits)
    assert drawn[: len(digits)].unique().numel() == len(digits)


@pytest.mark.parametrize(
    ("images", "words"), [({}, "7,500,000 images"), ({"images": None}, "an endless")]
)
def test_a_very_long_stream_is_not_begun_without_a_word(images: dict, words: str) -> None:
    data = CCC(Digits(), 30.0, calibration="digits", **images)
    with pytest.warns(UserWarning, match=f"{words}.*images=64_000"):
        data.setup("test")
