"""Glyphs: the same pixels in any batch, splits apart, labels fair, the selection reproducible."""

import pytest
import torch
import torch.nn.functional as F

from holdfast import HoldfastError
from holdfast.datamodules import Glyphs
from holdfast.datamodules.sources.glyphs import LENGTH, templates


@pytest.fixture(scope="module")
def glyphs():
    return Glyphs()


@pytest.mark.parametrize(("size", "threads"), [(1, 2), (7, 1), (64, 2)])
def test_pixels_do_not_depend_on_the_batch(glyphs, size, threads):
    index = torch.randint(LENGTH, (144,), generator=torch.Generator().manual_seed(0))
    whole, labels = glyphs.load(index)
    torch.set_num_threads(threads)
    parts = [glyphs.load(part) for part in index.split(size)]
    assert torch.equal(whole, torch.cat([images for images, _ in parts]))
    assert torch.equal(labels, torch.cat([labels for _, labels in parts]))
    order = torch.randperm(144)
    assert torch.equal(glyphs.load(index[order])[0], whole[order])


def test_no_global_randomness(glyphs):
    index = torch.arange(16)
    torch.manual_seed(0)
    first, state = glyphs.load(index)[0], torch.get_rng_state()
    assert torch.equal(first, Glyphs().load(index, index + 1)[0])
    assert torch.equal(state, torch.get_rng_state())


def test_splits_and_indices_differ():
    index = torch.arange(500)
    images = [Glyphs(split).load(index)[0] for split in ("train", "calibration", "stream")]
    assert len(torch.cat(images).flatten(1).unique(dim=0)) == 1500


def test_every_class_occurs_about_equally(glyphs):
    labels = glyphs.labels_of(torch.arange(20_000))
    counts = labels.bincount(minlength=500).double()
    chi_squared = ((counts - 40).square() / 40).sum()
    assert 499 - 5 * 32 < chi_squared < 499 + 5 * 32  # mean 499, standard deviation 31.6


def test_images_are_bright_and_dark_and_never_flat(glyphs):
    images = glyphs.load(torch.arange(512))[0].float()
    assert abs(images.mean() - 127.5) < 8
    assert images.flatten(1).std(1).min() > 8


def test_another_size_is_the_same_picture(glyphs):
    index = torch.arange(64) * 977
    fine, labels = Glyphs(size=64).load(index)
    small, same = glyphs.load(index)
    assert fine.shape == (64, 3, 64, 64)
    assert torch.equal(labels, same)
    assert (F.avg_pool2d(fine.float(), 2) - small.float()).abs().mean() < 4
    with pytest.raises(HoldfastError, match=r"size=4.* 8 .* 512"):
        Glyphs(size=4)


def test_no_two_classes_look_alike():
    shapes = templates().view(500, -1).float() / 255
    distance = torch.cdist(shapes, shapes).fill_diagonal_(torch.inf)
    assert distance.min() > 20
