"""Data sets in folders and arrays: layouts, labels, orders, broken files, refusals."""

import gc
import json
import multiprocessing
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from common import tiny_net, trainer_test
from PIL import Image

from holdfast import HoldfastError
from holdfast import datamodules as dm
from holdfast.callbacks import SoftmaxScore
from holdfast.callbacks.functional.scores import counted_labels
from holdfast.datamodules.calibration import ASSETS
from holdfast.datamodules.cinc import THREE_D
from holdfast.datamodules.corruptions import CORRUPTIONS, EXTRA
from holdfast.datamodules.sets import FAMILIES
from holdfast.imagenet import synsets
from holdfast.methods import Source

SYNSETS = ["n01440764", "n01484850", "n02123045"]  # tench, great white shark, tabby
LABELS = [0, 2, 281]


def tree(root: Path, classes: list[str] = SYNSETS, images: int = 2, size: int = 24) -> Path:
    """Real JPEGs under root/CLASS/."""
    rng = np.random.default_rng(len(str(root)))
    for name in classes:
        (root / name).mkdir(parents=True)
        for number in range(images):
            pixels = rng.integers(0, 256, (size, size + 4, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{number}.JPEG")
    return root


def labels(stream: dm.Stream) -> list[int]:
    return sorted(torch.cat([batch.labels for batch in stream.test_dataloader()]).tolist())


def shown(stream: dm.Stream) -> list[str]:
    """The segments of a finite stream, as text."""
    assert stream.images is not None
    return [str(stream.segment(k)) for k in range(stream.segment_at(stream.images - 1) + 1)]


def test_imagenet_labels_come_from_the_synsets(tmp_path: Path) -> None:
    source = dm.ImageNet(tree(tmp_path / "val"), size=32)
    assert source.classes == 1000
    assert labels(dm.Clean(source, num_workers=0)) == sorted(LABELS * 2)
    assert source.name(0) == ("n01440764", "0.JPEG")
    with pytest.raises(HoldfastError, match=r"n01440764/NAME\.JPEG .*image-net\.org"):
        dm.ImageNet(tmp_path)
    (tmp_path / "val" / "cats").mkdir()
    with pytest.raises(HoldfastError, match="val/cats is not an ImageNet class"):
        dm.ImageNet(tmp_path / "val")


def test_cinc_orders() -> None:
    first = dm.CINC(dm.Digits(), order=0, each=3)
    assert [name.split("@")[0] for name in shown(first)][:3] == [
        *("brightness", "pixelate", "gaussian_noise")
    ]
    assert len(set(dm.CINC.orders)) == 10
    assert all(sorted(order) == sorted(CORRUPTIONS) for order in dm.CINC.orders)
    assert len(set(dm.CINCHoldout.orders)) == 24
    assert all(sorted(order) == sorted(EXTRA) for order in dm.CINCHoldout.orders)
    assert len(set(dm.CIN3DCC.orders)) == 10
    assert all(sorted(order) == sorted(THREE_D) for order in dm.CIN3DCC.orders)
    assert shown(dm.CINC(dm.Digits(), seed=7, each=3)) == shown(
        dm.CINC(dm.Digits(), order=7, each=3)
    )


def test_lengths_are_the_papers() -> None:
    class Validation(dm.Digits):
        def __len__(self) -> int:
            return 50_000

    assert dm.CINC(Validation()).images == 750_000
    holdout = dm.CINCHoldout(Validation())
    assert holdout.images == 750_000
    assert [holdout.segment(k).start for k in (4, 14)] == [200_000, 700_000]
    assert dm.CINC(Validation(), epochs=None).images is None


def test_cinc_from_clean_images_is_the_corruption_engine() -> None:
    from holdfast.datamodules.corruptions import corrupt, jpeg
    from holdfast.datamodules.counter import mix

    data = dm.CINC(dm.Digits(), order=3, each=20, table="cifar", quality=85, seed=5)
    index = torch.arange(25, 35)  # in the second segment
    name = dm.CINC.orders[3][1]
    clean = data.clean(index)
    seeds = mix(mix(5, index), 1)
    expected = jpeg(corrupt(clean.images, name, 5.0, seeds, table="cifar"), 85)
    assert torch.equal(data.batch(index).images, expected.float() / 255)
    assert data.batch(index).segment.tolist() == [1] * 10


@pytest.mark.parametrize("nested", [False, True])
def test_cinc_from_folders(tmp_path: Path, nested: bool) -> None:
    for name in CORRUPTIONS:
        tree(tmp_path / ("kind" if nested else "") / name / "5", images=1)
    data = dm.CINC(folder=str(tmp_path), order=2, num_workers=0)
    assert data.images == 45
    assert shown(data) == [f"{name}@5" for name in dm.CINC.orders[2]]
    source = data.parts[0].source
    assert isinstance(source, dm.ImageNet)
    raw = dm.ImageNet(source.root)
    batch = data.batch(torch.arange(3))
    pixels = raw.load(torch.arange(3), torch.arange(3))[0].float() / 255
    found = sorted(image.sum().item() for image in batch.images)
    assert found == sorted(image.sum().item() for image in pixels)  # nothing was applied
    with pytest.raises(HoldfastError, match=r"lacks .*/3\. .*zenodo\.org"):
        dm.CINC(folder=str(tmp_path), severity=3)


def test_corrupted_stream() -> None:
    stream = dm.Corrupted(dm.Digits(), ["fog", "snow"], [1, 3], each=6, batch_size=4)
    assert stream.images == 24
    described = [str(stream.segment(number)) for number in range(4)]
    assert described == ["fog@1", "fog@3", "snow@1", "snow@3"]
    assert stream.segment_at(12) == 2
    clean = dm.Corrupted(dm.Digits(), [], each=5)
    index = torch.arange(5)
    expected, _ = dm.Digits().load(clean.source_index(index, torch.zeros_like(index)), index)
    assert torch.equal(clean.batch(index).images, expected / 255)
    assert str(clean.segment(0)) == "clean"
    with pytest.raises(HoldfastError, match="each=0"):
        dm.Corrupted(dm.Digits(), each=0)


# ---- static sets ----

# Class folders of each kind, and what counts as right in them.
KINDS: dict[str, dict[str, list[int]]] = {
    "synsets": {name: [label] for name, label in zip(SYNSETS, LABELS, strict=True)},
    "numbers": {"0": [0], "2": [2], "281": [281]},
    "outside": {"bat": [1000], "lamp": [1000]},
}
OTHERS: dict[str, dict[str, list[int]]] = {
    "imagenet-hard": {"0_391": [0, 391], "2": [2]},
    "imagenet-d": {"van": [555, 569, 717, 864, 867], "truck": [555, 569, 717, 864, 867]},
    "imagenet-d109": {"ant": [310], "zebra": [340]},
    "domainnet-126": {"aircraft_carrier": [0], "The_Eiffel_Tower": [115], "zebra": [125]},
    "objectnet": {"banana": [954], "tie": [457, 906]},
    "bg-challenge": {"00_dog": [151, 152], "02_wheeled vehicle": [555]},
}


def in9(path: Path) -> str:
    """in_to_in9.json with three classes in two of its nine groups."""
    groups = {str(number): -1 for number in range(1000)} | {"151": 0, "152": 0, "555": 2}
    (path / "in_to_in9.json").write_text(json.dumps(groups))
    return str(path / "in_to_in9.json")


def layout(root: Path, name: str) -> dict[str, list[int]]:
    """A family on disk, small; returns what counts as right in its class folders."""
    sets = FAMILIES[name].sets
    places = [root / f"set{k // 5}" / str(k % 5 + 1) for k in range(sets)]
    if sets < 50:
        places = [
            root / (FAMILIES[name].parts or {k: f"set{k}" for k in range(sets)})[k]
            for k in range(sets)
        ]
    folders = OTHERS.get(name) or KINDS[FAMILIES[name].folders]
    for place in places:
        tree(place, list(folders), images=1)
    if FAMILIES[name].folders == "mapping":
        tree(places[0], ["air_freshener"], images=1)  # nothing of ImageNet's
    if name == "domainnet-126":
        tree(root / "quickdraw", ["zebra"], images=1)  # of DomainNet, too
    if name == "bg-challenge":
        (root / "fg_mask" / "val" / "00_dog").mkdir(parents=True)
        (root / "fg_mask" / "val" / "00_dog" / "0.npy").touch()
    return folders


def right(stream: dm.Stream) -> list[list[int]]:
    """The classes that count as right, image by image."""
    found = torch.cat([batch.labels for batch in stream.test_dataloader()])
    return sorted([k for k in row if k >= 0] for row in found.view(len(found), -1).tolist())


@pytest.mark.parametrize("name", FAMILIES)
def test_families(tmp_path: Path, name: str) -> None:
    folders = layout(tmp_path / name, name)
    mapping = in9(tmp_path) if name == "bg-challenge" else None
    options = {"mapping": mapping, "num_workers": 0, "size": 8}
    data = dm.ImageSet(name, str(tmp_path / name), **options)
    assert right(data) == sorted([*folders.values()] * FAMILIES[name].sets)
    assert len(shown(data)) == FAMILIES[name].sets
    if FAMILIES[name].sets > 1:
        one = shown(data)[0].replace("@", "/")
        assert dm.ImageSet(name, str(tmp_path / name), [one], **options).images == len(folders)


def test_embedded_mappings() -> None:
    """Counts of the papers: ObjectNet shares 113 classes, ImageNet-D has 164 of 464 ImageNet classes."""
    tables = {
        name: json.loads((ASSETS / f"classes-{name}.json").read_text())
        for name in ("objectnet", "imagenet-d")
    }
    assert len(tables["objectnet"]) == 113
    groups = {tuple(group) for group in tables["imagenet-d"].values()}
    assert (len(tables["imagenet-d"]), len(groups)) == (181, 164)
    single = json.loads((ASSETS / "classes-imagenet-d109.json").read_text())
    assert single == {k: v for k, v in tables["imagenet-d"].items() if len(v) == 1}
    assert len({synset for (synset,) in single.values()}) == 109
    assert len(set(json.loads((ASSETS / "classes-domainnet-126.json").read_text()))) == 126
    for found in (groups, tables["objectnet"].values()):
        members = [synset for group in found for synset in group]
        assert len(members) == len(set(members))
        assert set(members) <= synsets().keys()
    assert len([synset for group in groups for synset in group]) == 464


def test_any_of_several_labels_is_right(tmp_path: Path) -> None:
    """Through a Trainer: the share of images whose predicted class is in their folder's name."""
    root = tree(tmp_path / "hard", ["1_3_4", "0", "2_7"], images=4)
    data = dm.ImageSet("imagenet-hard", str(root), size=8, num_workers=0)
    method, watch = Source(tiny_net(10)), SoftmaxScore()
    batches = list(data.test_dataloader())
    predicted = torch.cat([method.predict(batch.images).argmax(1) for batch in batches]).tolist()
    shown = data.source_index(torch.arange(12), torch.zeros(12).long())
    names = [data.parts[0].source.name(int(k))[0] for k in shown]
    index = torch.cat([batch.index for batch in batches]).tolist()
    hits = [str(p) in names[i].split("_") for i, p in zip(index, predicted, strict=True)]
    found = trainer_test(method, data, watch)
    assert found["accuracy_per_image"] == pytest.approx(np.mean(hits))
    assert len(hits) == 12
    assert counted_labels(torch.tensor([3, 9]), torch.tensor([[1, 3], [1, -1]])).tolist() == [3, 1]


def test_a_set_may_lie_at_the_root(tmp_path: Path) -> None:
    data = dm.ImageSet("imagenet-r", str(tree(tmp_path / "r")), num_workers=0)
    assert shown(data) == ["imagenet-r"]
    subset = dm.ImageSet("imagenet-r", str(tmp_path / "r"), labels="folders", num_workers=0)
    assert labels(subset) == [0, 0, 1, 1, 2, 2]


def test_parts_may_be_patterns(tmp_path: Path) -> None:
    for place in ("noise/shot_noise/5", "blur/glass_blur/5", "blur/glass_blur/3"):
        tree(tmp_path / place, images=1)
    data = dm.ImageSet("imagenet-c", str(tmp_path), ["noise/*", "*/5"], num_workers=0)
    assert shown(data) == [*("noise/shot_noise@5", "blur/glass_blur@5", "noise/shot_noise@5")]


def test_the_border_is_cut_off(tmp_path: Path) -> None:
    place = tree(tmp_path / "images", ["banana"], images=0)
    framed = Image.new("RGB", (36, 36), "red")
    framed.paste(Image.new("RGB", (32, 32), "blue"), (2, 2))
    framed.save(place / "banana" / "0.png")
    data = dm.ImageSet("objectnet", str(tmp_path), size=28)
    images = data.batch(torch.tensor([0])).images
    assert images[:, 2].min() > 0.9
    assert images[:, 0].max() < 0.1


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda p: dm.ImageSet("imagenet-q", p), "imagenet-c, imagenet-c-bar"),
        (lambda p: dm.ImageSet("imagenet-c", p + "/none"), r"75 sets .*SET/n01440764/.*zenodo"),
        (lambda p: dm.ImageSet("imagenet-c", p), r"has 1 sets .*parts"),
        (lambda p: dm.ImageSet("imagenet-c", p, ["fog/3"]), r"not fog/3"),
        (lambda p: dm.ImageSet("imagenet-v2", p), r"SET/0/NAME"),
        (lambda p: dm.ImageSet("objectnet", p), r"/CLASS/NAME.*objectnet\.dev"),
        (lambda p: dm.ImageSet("bg-challenge", p), r"in_to_in9\.json.*mapping=FILE.*MadryLab"),
        (lambda p: dm.ImageSet("bg-challenge", p, mapping=__file__), r"in_to_in9\.json"),
        (lambda p: dm.ImageSet("objectnet", p, mapping="own.json"), "mapping is for bg-challenge"),
        (lambda p: dm.ImageSet("objectnet", p, labels="folders"), "labels='folders'"),
        (lambda p: dm.CIFARC(p), r"brightness\.npy and labels\.npy .*2535967"),
        (lambda p: dm.CIFARC(p, severities=[6]), "from 1 to 5"),
        (lambda p: dm.CIFARC(p, corruptions=[]), "pass at least one of each"),
        (lambda p: dm.CIFARC(p, classes=20), "10 for CIFAR-10 or 100 for CIFAR-100"),  # type: ignore[arg-type]
        (lambda p: dm.CINC(), "either `source`"),
        (lambda p: dm.CINC(dm.Digits(), p), "either `source`"),
        (lambda p: dm.CINCHoldout(dm.Digits(), order=24), "0 to 23"),
        (lambda p: dm.CINC(dm.Digits(), severity=6), r"Severity 6 is not in \[0, 5\]"),
        (lambda p: dm.Corrupted(dm.Digits(), ["rain"]), "Unknown corruption 'rain'"),
        (lambda p: dm.CIFAR(p), r"cifar-10-batches-py/ .*cs\.toronto"),
        (lambda p: dm.CIFAR(p, 100), r"cifar-100-python"),
        (lambda p: dm.CIN3DCC(p), r"lacks .*/5"),
    ],
)
def test_refusals_name_the_layout_and_the_origin(
    tmp_path: Path, make: Callable[[str], object], sentence: str
) -> None:
    tree(tmp_path / "noise", SYNSETS[:1], images=1)
    with pytest.raises(HoldfastError, match=sentence) as error:
        make(str(tmp_path))
    assert "\n" not in str(error.value)


# ---- broken files ----


@pytest.mark.parametrize(("num_workers", "batch_size"), [(0, 4), (2, 1)])
def test_broken_files_are_refused(tmp_path: Path, num_workers: int, batch_size: int) -> None:
    root = tree(tmp_path, images=4)
    broken = [root / SYNSETS[0] / "1.JPEG", root / SYNSETS[2] / "3.JPEG"]
    broken[0].write_bytes(broken[0].read_bytes()[:300])
    broken[1].write_bytes(b"no image")
    options = {"num_workers": num_workers, "batch_size": batch_size}
    with pytest.raises(HoldfastError, match=r"[13]\.JPEG cannot be read") as error:
        list(dm.Clean(dm.ImageNet(root, 32), **options).test_dataloader())
    assert "\n" not in str(error.value)
    del error
    gc.collect()
    assert not multiprocessing.active_children()


# ---- CIFAR ----


@pytest.fixture
def cifar(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "labels.npy", np.tile(rng.integers(0, 10, 6), 5))
    for number, name in enumerate(CORRUPTIONS):
        array = np.full((30, 32, 32, 3), number, dtype=np.uint8)
        array[..., 1] = np.repeat(np.arange(1, 6), 6)[:, None, None]  # the severity
        np.save(tmp_path / f"{name}.npy", array)
    return tmp_path


def levels(data: dm.Stream) -> list[tuple[int, int]]:
    """(corruption, severity) of each image, as the arrays above have them."""
    images = torch.cat([batch.images for batch in data.test_dataloader()])
    return [(int(a), int(b)) for a, b in (images[:, :2, 0, 0] * 255).round()]


def test_cifar_c_settings(cifar: Path) -> None:
    continual = dm.CIFARC(str(cifar), num_workers=0, batch_size=7)
    assert levels(continual) == [(number, 5) for number in range(15) for _ in range(6)]
    fully = dm.CIFARC(str(cifar), corruptions=["fog"], severities=[3], num_workers=0)
    assert levels(fully) == [(CORRUPTIONS.index("fog"), 3)] * 6
    there = (1, 2, 3, 4, 5, 4, 3, 2, 1)
    gradual = dm.CIFARC(str(cifar), 10, ["gaussian_noise"], there, num_workers=0)
    assert levels(gradual) == [(0, level) for level in there for _ in range(6)]
    endless = dm.CIFARC(str(cifar), epochs=None)
    assert endless.batch(torch.tensor([10**6 * 90])).images[0, 0, 0, 0] == 0
    assert [endless.segment_at(i) for i in (89, 90, 96)] == [14, 15, 16]
    assert endless.segment(16).start == 96


def test_labels_of_cifar_100_are_not_cifar_10s(cifar: Path) -> None:
    np.save(cifar / "labels.npy", np.arange(30))
    with pytest.raises(HoldfastError, match=r"labels in .* up to 29"):
        dm.CIFARC(str(cifar))
    assert len(dm.CIFARC(str(cifar), classes=100, corruptions=["fog"]).parts[0].source) == 6


def test_without_the_last_batch(cifar: Path, tmp_path: Path) -> None:
    """AETTA's 9,984 of 10,000: what does not fill a batch goes, in each part."""
    data = dm.CIFARC(str(cifar), batch_size=4, drop_last=True, num_workers=0)
    assert levels(data) == [(number, 5) for number in range(15) for _ in range(4)]
    assert {len(batch.labels) for batch in data.test_dataloader()} == {4}
    with pytest.raises(HoldfastError, match="none has 7 images"):
        dm.CIFARC(str(cifar), batch_size=7, drop_last=True)
    tree(tmp_path / "r")
    assert dm.ImageSet("imagenet-r", str(tmp_path / "r"), batch_size=4, drop_last=True).images == 4
