"""The corruption engine without Lightning: imagecorruptions' calls, transforms, conformance vectors."""

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2

from holdfast import HoldfastError
from holdfast.benchmarks.bench.stream_speed import imagecorruptions
from holdfast.datamodules.corruptions import conformance
from holdfast.datamodules.corruptions import corrupt as corrupt_batch
from holdfast.datamodules.corruptions.augmentation import CorruptArray
from holdfast.datamodules.corruptions.imagecorruptions import corrupt, get_corruption_names
from holdfast.datamodules.corruptions.transforms import Corrupt

PICTURE = conformance.image()


def test_calls_of_imagecorruptions() -> None:
    """Those of its README, and its other forms of images."""
    assert corrupt(PICTURE, corruption_name="gaussian_blur", severity=1).shape == PICTURE.shape
    for number, name in enumerate(get_corruption_names("all")):
        np.random.seed(number)  # noqa: NPY002
        by_name = corrupt(PICTURE, corruption_name=name, severity=2)
        np.random.seed(number)  # noqa: NPY002
        by_number = corrupt(PICTURE, corruption_number=number, severity=2)
        assert by_name.dtype == np.uint8
        assert by_name.flags.c_contiguous
        assert (by_name == by_number).all()
        assert (corrupt(PICTURE, 2, name, seed=7) == corrupt(PICTURE, 2, name, seed=7)).all()
    reversed_ = PICTURE[::-1, :, ::-1]
    reversed_.flags.writeable = False
    fog = corrupt(reversed_, 3, "fog", seed=1)
    assert (fog == corrupt(np.ascontiguousarray(reversed_), 3, "fog", seed=1)).all()
    for shape in ((1, 1), (1, 1, 3), (5, 1, 1), (2, 7)):
        for name in get_corruption_names("all"):
            out = corrupt(np.full(shape, 100, np.uint8), 5, name)
            assert out.shape == (*shape[:2], 3)


def test_names_of_imagecorruptions() -> None:
    package = imagecorruptions()
    for subset in ("common", "validation", "all", "noise", "blur", "weather", "digital"):
        assert get_corruption_names(subset) == package.get_corruption_names(subset)
    assert get_corruption_names() == package.get_corruption_names()


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("corruption_number=-1: pass a corruption_name", {}),
        ("corruption_number=19", {"corruption_number": 19}),
        ("Unknown corruption 'rain'", {"corruption_name": "rain"}),
        ("uint8 as image, not float64", {"image": PICTURE / 255, "corruption_name": "fog"}),
        ("not list", {"image": [1], "corruption_name": "fog"}),
        (r"not \[72, 96, 2\]", {"image": PICTURE[..., :2], "corruption_name": "fog"}),
        (r"not \[0, 96, 3\]", {"image": PICTURE[:0], "corruption_name": "fog"}),
    ],
)
def test_wrong_arguments(message: str, arguments: dict) -> None:
    with pytest.raises(HoldfastError, match=message):
        corrupt(**{"image": PICTURE, **arguments})
    with pytest.raises(HoldfastError, match="common, validation"):
        get_corruption_names("rare")


def test_albumentations_call() -> None:
    always, never = CorruptArray("fog", 5), CorruptArray(p=0)
    torch.manual_seed(3)
    first = always(image=PICTURE, mask=PICTURE[..., 0], bboxes=[(0, 0, 5, 5)])
    assert first.keys() == {"image", "mask", "bboxes"}
    assert (first["image"] != PICTURE).any()
    torch.manual_seed(3)
    assert (always(image=PICTURE)["image"] == first["image"]).all()
    assert (never(image=PICTURE)["image"] == PICTURE).all()
    with pytest.raises(HoldfastError, match=r"6.* not in \[0, 5\]"):
        CorruptArray(severity=(1, 6))
    with pytest.raises(HoldfastError, match="Unknown corruption 'rain'"):
        CorruptArray(["fog", "rain"])


def test_torchvision_transform() -> None:
    pixels = torch.from_numpy(PICTURE).permute(2, 0, 1)
    noise = Corrupt("gaussian_noise", 3)
    torch.manual_seed(0)
    batch = noise(pixels.expand(2, -1, -1, -1))
    assert (batch[0] != batch[1]).any()
    torch.manual_seed(0)
    assert torch.equal(noise(pixels), batch[0])
    torch.manual_seed(0)
    assert torch.equal(v2.functional.pil_to_tensor(noise(Image.fromarray(PICTURE))), batch[0])
    assert noise(pixels / 255).dtype == torch.float32
    boxes = tv_tensors.BoundingBoxes([[0, 0, 5, 5]], format="XYXY", canvas_size=(72, 96))  # type: ignore[call-overload]
    pipeline = v2.Compose([v2.RandomHorizontalFlip(0), Corrupt(["fog", "snow"], (2, 4))])
    image, same_boxes, label = pipeline(tv_tensors.Image(pixels), boxes, torch.tensor(3))
    assert isinstance(image, tv_tensors.Image)
    assert (image != pixels).any()
    assert torch.equal(same_boxes, boxes)
    assert label == 3


def test_conformance_vectors(capsys: pytest.CaptureFixture) -> None:
    """Ours conform, with other seeds too; those that are integer arithmetic are identical."""
    assert conformance.main(["--seeds", "4"]) == 0
    shown = capsys.readouterr().out.splitlines()
    exact = [line for line in shown if line.startswith(("pixelate", "jpeg_compression"))]
    assert len(shown) == 96
    assert len(exact) == 10
    assert all("identical" in line for line in exact)


def test_conformance_finds_a_wrong_severity_or_channel() -> None:
    def weaker(image: np.ndarray, severity: int, corruption_name: str) -> np.ndarray:
        return image  # of severity 1

    def swapped(image: np.ndarray, severity: int, corruption_name: str) -> np.ndarray:
        return image if severity > 1 else corrupt(image, severity, corruption_name)[..., ::-1]

    # Frost and the elastic transform differ most from seed to seed: swapped channels need 64 seeds.
    for wrong, unfound in ((weaker, set()), (swapped, {"frost", "elastic_transform"})):
        results = [r for r in conformance.comparisons(wrong, 8) if r.severity == 1]
        assert {r.name for r in results if r.excess <= 1} <= unfound


def test_the_batch_function_agrees() -> None:
    pixels = torch.from_numpy(PICTURE).permute(2, 0, 1)[None]
    out = corrupt_batch(pixels, "snow", 2.5, 9)[0].permute(1, 2, 0).numpy()
    assert (corrupt(PICTURE, 2.5, "snow", seed=9) == out).all()
