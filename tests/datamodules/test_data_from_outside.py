"""Folders and data sets as users have them: labels and pixels are what they say, or a sentence."""

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset
from torchvision import datasets

from holdfast import HoldfastError
from holdfast import datamodules as dm
from holdfast.datamodules.sources.arrays import CorruptedArray
from holdfast.methods.backbones.layers import class_numbers

ZERO = torch.zeros(1, dtype=torch.int64)
GREY = Image.new("RGB", (8, 8), (10, 20, 30))


def folders(root: Path, *names: str) -> Path:
    """A folder of classes with an image in each."""
    for name in names:
        (root / name).mkdir(parents=True)
        GREY.save(root / name / "a.png")
    return root


def by_folder(source: dm.ImageFolder) -> dict[str, int]:
    """The label of each image's folder."""
    return {source.name(i)[0]: int(source.labels[i]) for i in range(len(source))}


def test_folders_that_are_numbers_are_those_classes(tmp_path: Path) -> None:
    """ImageNet-V2 has folders 0 to 999, which sort as 0, 1, 10, 100, ..."""
    folders(tmp_path, *map(str, range(12)))
    with pytest.warns(UserWarning, match=r"from 0 to 11\. Pass labels='numbers'"):
        source = dm.ImageFolder(tmp_path, 8, None)
    assert by_folder(source) == {str(n): n for n in range(12)}
    assert source.classes == 12
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert by_folder(dm.ImageFolder(tmp_path, 8, None, "numbers")) == by_folder(source)
        alphabetical = dm.ImageFolder(tmp_path, 8, None, "folders")
    assert alphabetical.labels.tolist() == [
        label for _, label in datasets.ImageFolder(str(tmp_path)).samples
    ]
    assert by_folder(alphabetical)["10"] == 2


def test_some_numbers_of_many_classes_keep_their_numbers(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="from 3 to 207"):
        source = dm.ImageFolder(folders(tmp_path, "003", "207"), 8, None)
    assert (source.labels.tolist(), source.classes) == ([3, 207], 208)


@pytest.mark.parametrize(
    ("names", "labels", "sentence"),
    [(("1", "01"), None, "different numbers: 01"), (("1", "cat"), "numbers", "numbers: cat")],
)
def test_names_that_are_not_numbers(
    tmp_path: Path, names: tuple[str, ...], labels: Any, sentence: str
) -> None:
    with pytest.raises(HoldfastError, match=sentence):
        dm.ImageFolder(folders(tmp_path, *names), 8, None, labels)


def test_cifar_in_folders_of_numbers(tmp_path: Path) -> None:
    folders(tmp_path / "test", *map(str, range(100)))
    with pytest.warns(UserWarning, match="from 0 to 99"):
        source = dm.CIFAR(str(tmp_path), 100)
    assert source.files is not None
    assert by_folder(source.files)["10"] == 10


def test_hidden_folders_are_no_classes(tmp_path: Path) -> None:
    """Jupyter's, macOS' and Synology's, with images in them, at any depth."""
    folders(tmp_path, "cat", "dog", ".ipynb_checkpoints", "@eaDir", "__MACOSX", "cat/@eaDir")
    (tmp_path / "dog" / "._a.png").write_bytes(b"of macOS, not an image")
    source = dm.ImageFolder(tmp_path, 8, None)
    assert by_folder(source) == {"cat": 0, "dog": 1}
    assert (len(source), source.classes) == (2, 2)
    assert len(dm.ImageFolder(tmp_path, 8, None, "unknown")) == 2


def test_hidden_folders_beside_synsets(tmp_path: Path) -> None:
    folders(tmp_path, "n01440764", "n01443537", ".cache")
    assert dm.ImageNet(tmp_path, 8).labels.tolist() == [0, 1]
    assert class_numbers(str(tmp_path)) == [0, 1]


def test_parts_of_a_data_set_are_no_classes(tmp_path: Path) -> None:
    """As Hugging Face's reader took them (datasets#4015); folders of images may have such names."""
    folders(tmp_path, "train/a", "train/b", "val/a", "val/b")
    with pytest.raises(
        HoldfastError, match=r"train and val, which are parts .*val, or labels='fol"
    ):
        dm.ImageFolder(tmp_path)
    assert len(dm.ImageFolder(tmp_path, labels="folders")) == 4
    assert len(dm.ImageFolder(folders(tmp_path / "flat", "test", "train"))) == 2


def test_links(tmp_path: Path) -> None:
    """A link's label is that of its own folder (datasets#5098); a folder is not read within itself."""
    folders(tmp_path / "store", "b", "a")
    for link, target in (("a", "b"), ("c", "a")):
        (tmp_path / "links").mkdir(exist_ok=True)
        (tmp_path / "links" / link).symlink_to(tmp_path / "store" / target)
    assert by_folder(dm.ImageFolder(tmp_path / "links")) == {"a": 0, "c": 1}
    (tmp_path / "store" / "a" / "up").symlink_to(tmp_path / "store")
    with pytest.raises(HoldfastError, match="up is a link to a folder that contains it"):
        dm.ImageFolder(tmp_path / "store")


def test_a_class_without_images_is_refused_by_name(tmp_path: Path) -> None:
    (folders(tmp_path, "cat", "dog") / "birds").mkdir()
    with pytest.raises(HoldfastError, match="birds contains no images"):
        dm.ImageFolder(tmp_path, 8, None)
    labels = {"birds": 0, "cat": 1, "dog": 2}
    assert dm.ImageFolder(tmp_path, 8, None, labels).labels.tolist() == [1, 2]
    with pytest.raises(HoldfastError, match=r"labels\['cat'\] has the label '0\.5'"):
        dm.ImageFolder(tmp_path, 8, None, labels | {"cat": 0.5})  # type: ignore[dict-item]


def loaded(*items: Any, classes: int = 10) -> tuple[torch.Tensor, list]:
    index = torch.arange(len(items))
    source = dm.DatasetSource(list(items), 8, None, classes)
    images, labels = source.load(index, index)
    assert torch.equal(source.labels_of(index), labels)
    return images, labels.tolist()


PIXELS = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    "image",
    [
        PIXELS,
        PIXELS.transpose(2, 0, 1),
        torch.from_numpy(PIXELS),
        torch.from_numpy(PIXELS).permute(2, 0, 1),
        PIXELS / 255,
        torch.from_numpy(PIXELS).permute(2, 0, 1) / 255,
    ],
)
def test_pixels_in_any_order_of_dimensions(image: Any) -> None:
    images, _ = loaded((image, 0))
    assert torch.equal(images[0], torch.from_numpy(PIXELS).permute(2, 0, 1))


def with_pixel(value: float) -> np.ndarray:
    image = np.full((8, 8, 3), 0.5, np.float32)
    image[0, 0] = value
    return image


@pytest.mark.parametrize(
    ("image", "sentence"),
    [
        (with_pixel(float("nan")), "without NaN"),
        (with_pixel(float("inf")), r"in \[0,1\]"),
        (torch.from_numpy(with_pixel(float("nan"))), "without NaN"),
        (np.zeros((8, 8, 7), np.uint8), r"shape \[8, 8, 7\]"),
        (np.array([["a"]]), "uint8 or floats"),
        ("photo.jpg", "is a str"),
        ([[0, 1]], "is a list"),
        (None, "is a NoneType"),
    ],
)
def test_pixels_that_are_refused(image: Any, sentence: str) -> None:
    with pytest.raises(HoldfastError, match=sentence):
        loaded((image, 0))


@pytest.mark.parametrize(
    ("label", "number"),
    [
        (3, 3),
        (np.int64(3), 3),
        (np.array([3]), 3),  # as MedMNIST has them
        (torch.tensor(3), 3),
        (True, 1),
        (None, -1),
        ([3, 4], [3, 4]),
    ],
)
def test_labels_of_all_kinds(label: Any, number: Any) -> None:
    assert loaded((GREY, label))[1] == [number]
    assert loaded({"image": GREY, "label": label})[1] == [number]


@pytest.mark.parametrize(
    "label",
    [0.9, 1.0, np.float32(0.9), torch.tensor(0.9), "cat", ("cat", 1), np.eye(3)[0], [0.9], {}],
    ids=repr,
)
def test_labels_that_are_no_class_numbers(label: Any) -> None:
    with pytest.raises(HoldfastError, match="not a class number"):
        loaded((GREY, label))


def test_labels_of_different_lengths() -> None:
    with pytest.raises(HoldfastError, match="Pad the shorter lists with -1"):
        loaded((GREY, [1, 2]), (GREY, [1]))


@pytest.mark.parametrize("row", [GREY, (GREY,), {"img": GREY}], ids=["image", "tuple", "mapping"])
def test_rows_without_labels(row: Any) -> None:
    assert loaded(row)[1] == [-1]


@pytest.mark.parametrize("key", ["label", "labels", "target", "fine_label"])
def test_rows_of_hugging_face(key: str) -> None:
    assert loaded(*({"img": GREY, key: k} for k in range(3)))[1] == [0, 1, 2]


class Table:
    """What DatasetSource reads of a `datasets.Dataset`: rows, columns and a ClassLabel."""

    column_names = ["image", "label"]  # noqa: RUF012
    features = {"label": SimpleNamespace(num_classes=5)}  # noqa: RUF012
    decoded = 0

    def __len__(self) -> int:
        return 4

    def __getitem__(self, key: int | str) -> Any:
        labels = [2, 0, 4, 1]
        if isinstance(key, str):
            return labels
        self.decoded += 1
        return {"image": GREY, "label": labels[key]}


def test_a_table_says_its_classes_and_its_labels_without_images() -> None:
    source = dm.DatasetSource(table := Table(), 8, None)
    assert (source.classes, source.labels_of(torch.arange(4)).tolist()) == (5, [2, 0, 4, 1])
    assert table.decoded == 0
    assert source.load(torch.tensor([2]), ZERO)[1].tolist() == [4]


def test_a_mapping_of_arrays() -> None:
    columns = {"image": np.stack([PIXELS] * 3), "label": np.array([1, 0, 2])}
    source = dm.DatasetSource(columns, 8, None, classes=3)
    images, labels = source.load(torch.arange(3), torch.arange(3))
    assert torch.equal(images[1], torch.from_numpy(PIXELS).permute(2, 0, 1))
    assert (len(source), labels.tolist()) == (3, [1, 0, 2])
    for wrong in ({"train": columns}, columns | {"label": [0]}):
        with pytest.raises(HoldfastError, match="split of a DatasetDict"):
            dm.DatasetSource(wrong, 8, None, classes=3)


def test_rows_that_have_no_numbers() -> None:
    with pytest.raises(HoldfastError, match="not streamed"):
        dm.DatasetSource(iter([(GREY, 0)]), 8, None, classes=1)


def relabelled(tmp_path: Path) -> dm.DatasetSource:
    folders(tmp_path, "a", "b", "c", "d")
    data = datasets.ImageFolder(str(tmp_path), target_transform=lambda label: 3 - label)
    return dm.DatasetSource(data, 8, None)


def test_labels_after_the_target_transform(tmp_path: Path) -> None:
    """Those by which a stream orders are those that are scored."""
    source = relabelled(tmp_path)
    assert source.labels_of(torch.arange(4)).tolist() == [3, 2, 1, 0]
    stream = dm.CorrelatedLabels(dm.Clean(source, num_workers=0), delta=0)
    batch = stream.batch(torch.arange(4))
    assert torch.equal(stream.labels(torch.arange(4)), batch.labels)


def test_items_that_contradict_the_targets(tmp_path: Path) -> None:
    data = datasets.ImageFolder(str(folders(tmp_path, "a", "b")))
    data.targets = [1, 0]
    with pytest.raises(HoldfastError, match="the label 0, but 1 in its `targets`"):
        dm.DatasetSource(data, 8, None).load(ZERO, ZERO)


def sources(folder: Path) -> dict[str, dm.ImageSource]:
    np.save(folder / "fog.npy", np.zeros((10, 32, 32, 3), np.uint8))
    np.save(folder / "labels.npy", np.arange(10))
    return {
        "Digits": dm.Digits(),
        "Glyphs": dm.Glyphs(),
        "CorruptedArray": CorruptedArray(folder, "fog", 2, 10),
        "ImageFolder": dm.ImageFolder(folders(folder / "images", "a", "b"), 8, None),
        "numbered groups": dm.ImageFolder(folder / "images", 8, labels={"a": [3, -1], "b": [0, 5]}),
        "ImageNet": dm.ImageNet(folders(folder / "imagenet", "n01440764", "n01443537"), 8),
        "torchvision": relabelled(folder / "torchvision"),
        "tensors": dm.DatasetSource(
            TensorDataset(torch.rand(3, 3, 8, 8), torch.tensor([2, 0, 1])), 8, None, 3
        ),
        "rows": dm.DatasetSource([{"image": GREY, "label": k} for k in (1, 0)], 8, None, 2),
        "table": dm.DatasetSource(Table(), 8, None),
    }


def test_there_is_one_route_to_the_labels(tmp_path: Path) -> None:
    """With and without pixels a source gives the same labels."""
    differing = []
    for name, source in sources(tmp_path).items():
        index = torch.arange(min(len(source), 20)).flip(0)
        if not torch.equal(source.labels_of(index), source.load(index, index)[1]):
            differing.append(name)
    assert differing == []


def test_float_labels_of_corrupted_cifar(tmp_path: Path) -> None:
    np.save(tmp_path / "fog.npy", np.zeros((10, 32, 32, 3), np.uint8))
    np.save(tmp_path / "labels.npy", np.arange(10) / 2)
    with pytest.raises(HoldfastError, match="float64, not class numbers"):
        CorruptedArray(tmp_path, "fog", 1, 10)
