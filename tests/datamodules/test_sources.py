"""Sources of clean images: small trees of real files, torchvision as the oracle."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from common import tiny_net, trainer_test
from PIL import Image
from torchvision import transforms

from holdfast import HoldfastError
from holdfast.datamodules import Clean, DatasetSource, Digits, Glyphs, ImageFolder, ImageSource
from holdfast.datamodules.counter import random_bits, scramble
from holdfast.datamodules.sources.pixels import random_box
from holdfast.datamodules.sources.tar import Sample, decode
from holdfast.methods import Source

ZERO = torch.zeros(1, dtype=torch.int64)


@pytest.fixture
def tree(tmp_path):
    """Three classes of photographs-to-be: colour, grey, palette and transparent images."""
    rng = np.random.default_rng(0)
    for name, mode, suffix in [
        ("b", "RGB", ".JPEG"),
        ("a", "L", ".png"),
        ("c", "P", ".png"),
        ("c", "RGBA", ".webp"),
    ]:
        (tmp_path / name).mkdir(exist_ok=True)
        pixels = rng.integers(0, 256, (60, 90, 3), dtype=np.uint8)
        Image.fromarray(pixels).convert(mode).save(tmp_path / name / f"{mode}{suffix}")
    (tmp_path / "a" / "notes.txt").write_text("not an image")
    return tmp_path


def pictures(count: int = 4) -> list:
    rng = np.random.default_rng(1)
    return [
        (Image.fromarray(rng.integers(0, 256, (50, 70, 3), dtype=np.uint8)), i)
        for i in range(count)
    ]


def test_splitmix64_reference_values():
    """The published generator, seeded with 0: the first outputs of Vigna's splitmix64.c."""
    state = torch.arange(1, 4) * -0x61C8864680B583EB
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [int(x) % 2**64 for x in scramble(state)] == expected


def test_folder_labels_modes_and_sizes(tree):
    source = ImageFolder(tree, size=32)
    images, labels = source.load(torch.arange(4), torch.arange(4))
    assert isinstance(source, ImageSource)
    assert (len(source), source.classes, labels.tolist()) == (4, 3, [0, 1, 2, 2])
    assert (images.shape, images.dtype) == ((4, 3, 32, 32), torch.uint8)
    assert labels.dtype == torch.int64


def test_crop_is_a_function_of_index_and_seed_alone(tree):
    source = ImageFolder(tree, size=32, crop="random")
    index, seed = torch.tensor([3, 1, 1, 0]), torch.tensor([5, 6, 7, -5])
    images, _ = source.load(index, seed)
    torch.manual_seed(1)
    alone = torch.cat(
        [source.load(i, s)[0] for i, s in zip(index.split(1), seed.split(1), strict=True)]
    )
    assert torch.equal(images, alone)
    assert not torch.equal(images[1], images[2])


def test_random_box_matches_torchvision_in_distribution():
    width, height = 200, 120
    blank = Image.new("RGB", (width, height))
    params = transforms.RandomResizedCrop.get_params
    torch.manual_seed(0)
    theirs = [params(blank, [0.08, 1.0], [3 / 4, 4 / 3]) for _ in range(4000)]
    numbers = random_bits(torch.arange(4000), 40).double() / 2**24
    ours = [random_box(width, height, row) for row in numbers.tolist()]
    for left, top, w, h in ours:
        assert 0 <= left <= width - w
        assert 0 <= top <= height - h
    theirs = torch.tensor(theirs, dtype=torch.float)[:, [1, 0, 3, 2]]
    ours = torch.tensor(ours, dtype=torch.float)
    levels = torch.linspace(0.05, 0.95, 19)
    gap = ours.quantile(levels, 0) - theirs.quantile(levels, 0)
    assert gap.abs().max() < 5


def test_a_slim_image_gets_the_central_box():
    never_fits = [0.999, 0.5, 0.5, 0.5] * 10
    assert random_box(1000, 30, never_fits) == (480, 0, 40, 30)


def test_random_crop_pixels_are_torchvisions():
    image, _ = pictures(1)[0]
    source = DatasetSource(pictures(1), size=32, crop="random", classes=1)
    seed = torch.tensor([11])
    numbers = (random_bits(seed, 41).double() / 2**24)[0].tolist()
    left, top, w, h = random_box(70, 50, numbers[1:])
    flipped = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if numbers[0] < 0.5 else image
    expected = flipped.resize((32, 32), Image.Resampling.BILINEAR, (left, top, left + w, top + h))
    difference = source.load(ZERO, seed)[0][0].int() - transforms.PILToTensor()(expected).int()
    assert difference[:, 3:-3, 3:-3].abs().max() <= 1


def test_center_crop_is_torchvisions():
    oracle = transforms.Compose(
        [transforms.Resize(256), transforms.CenterCrop(224), transforms.PILToTensor()]
    )
    source = DatasetSource(pictures(), crop="center", classes=4)
    images, _ = source.load(torch.arange(4), torch.arange(4))
    assert torch.equal(images, torch.stack([oracle(image) for image, _ in pictures()]))


def test_images_of_the_right_size_are_not_resized():
    """ImageNet-C and its relatives are published at 224x224, cut out already."""
    picture = Image.fromarray(np.random.default_rng(2).integers(0, 256, (32, 32, 3), np.uint8))
    source = DatasetSource([(picture, 0)], size=32, crop="center", classes=1)
    assert torch.equal(source.load(ZERO, ZERO)[0][0], transforms.PILToTensor()(picture))


@pytest.mark.parametrize(("dtype", "name"), [(np.uint16, "deep.png"), (np.float32, "real.tif")])
def test_images_of_more_than_8_bits_are_refused(tmp_path, dtype, name):
    (tmp_path / "a").mkdir()
    Image.fromarray(np.ones((9, 9), dtype)).save(tmp_path / "a" / name)
    with pytest.raises(HoldfastError, match=rf"{name} .* 8 bits"):
        ImageFolder(tmp_path, 9).load(ZERO, ZERO)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda path: ImageFolder(path / "absent"), "CLASS/NAME"),
        (lambda path: ImageFolder(path), "CLASS/NAME"),
        (lambda path: DatasetSource(pictures()), "classes=COUNT"),
        (lambda path: DatasetSource(pictures(), crop="middle", classes=4), "random or center"),
        (lambda path: DatasetSource(pictures(), 32, None, 4).load(ZERO, ZERO), "70x50"),
        (
            lambda path: DatasetSource([(-torch.ones(3, 9, 9), 0)], 9, None, 1).load(ZERO, ZERO),
            "normalisation",
        ),
        (lambda path: Digits("test"), "train, calibration or stream"),
        (lambda path: Glyphs("test"), "train, calibration or stream"),
    ],
)
def test_refusals_are_one_sentence(tmp_path, build, sentence):
    with pytest.raises(HoldfastError, match=sentence) as error:
        build(tmp_path)
    assert "\n" not in str(error.value)


def test_digits_splits_are_disjoint_and_complete():
    splits = [Digits(split) for split in ("train", "calibration", "stream")]
    assert [len(split) for split in splits] == [1000, 300, 497]
    scans = torch.cat([split.images[:, 0] for split in splits]).flatten(1)
    assert len(scans.unique(dim=0)) == 1797
    images, labels = splits[2].load(torch.arange(497), torch.arange(497))
    assert images.shape == (497, 3, 32, 32)
    assert labels.bincount().min() > 30


def test_postscript_is_no_image(tree):
    """Pillow would give it to Ghostscript, whatever the file is called."""
    Image.new("RGB", (8, 8)).save(tree / "a" / "script.jpg", "EPS")
    with pytest.raises(HoldfastError, match=r"script\.jpg cannot be read"):
        ImageFolder(tree).load(torch.tensor([1]), ZERO)
    with pytest.raises(HoldfastError, match="cannot be decoded"):
        decode(Sample("", (tree / "a" / "script.jpg").read_bytes(), 0))


def test_a_misspelt_class_is_refused(tree):
    assert len(ImageFolder(tree, labels={"a": 0, "b": 1})) == 2
    with pytest.raises(HoldfastError, match=r"/bb cannot be read .No such"):
        ImageFolder(tree, labels={"a": 0, "bb": 1})


def test_a_folder_of_images_without_classes(tree, tmp_path):
    everything = ImageFolder(tree, size=8, labels="unknown")
    assert (len(everything), everything.classes) == (4, 0)
    assert everything.load(torch.arange(4), torch.arange(4))[1].tolist() == [-1] * 4
    assert everything.name(0)[0] == "a"
    flat = tmp_path / "incoming"
    flat.mkdir()
    Image.new("RGB", (9, 9)).save(flat / "1.png")
    with pytest.raises(HoldfastError, match=r"CLASS/NAME\.jpg, or labels='unknown'"):
        ImageFolder(flat)
    assert ImageFolder(flat, size=8, labels="unknown").name(0) == ("", "1.png")
    with pytest.raises(HoldfastError, match="Unknown labels='none'"):
        ImageFolder(flat, labels="none")


@pytest.mark.filterwarnings("error:the images have")
@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        (2, "labels go up to 3.* 2 logits"),
        (3, "3 logits"),
        (4, None),
        (5, "have 4 classes.* 5 logits"),
    ],
)
def test_labels_and_logits_fit(tree, classes, sentence):
    (tree / "d").mkdir()
    Image.new("RGB", (40, 40)).save(tree / "d" / "0.png")  # the fourth class
    stream = Clean(ImageFolder(tree, 32), batch_size=8, num_workers=0)
    context = nullcontext() if sentence is None else pytest.raises(Exception, match=sentence)
    with context as error:
        trainer_test(Source(tiny_net(classes)), stream)
    assert error is None or isinstance(error.value, UserWarning if classes == 5 else HoldfastError)
