"""The corruption engine against golden outputs, statistics, and its own promise of invariance."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType

import cv2
import numpy as np
import pytest
import torch
from common import GOLDEN
from PIL import Image
from torch import Tensor

from holdfast import HoldfastError
from holdfast.benchmarks.bench.stream_speed import imagecorruptions
from holdfast.datamodules import corruptions
from holdfast.datamodules.corruptions import (
    CORRUPTIONS,
    EXTRA,
    codec,
    corrupt,
    digital,
    image,
    jpeg,
)
from holdfast.datamodules.corruptions.blur import disk
from holdfast.datamodules.corruptions.parameters import TABLES, parameters
from holdfast.datamodules.corruptions.random import Rng
from holdfast.datamodules.corruptions.weather import plasma

ALL = (*CORRUPTIONS, *EXTRA)  # and those added since
RESIZE = cv2.resize


def load(name: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN / "corruptions" / name) as file:
        return dict(file)


AT_32, AT_224 = load("at_32.npz"), load("at_224.npz")


def batch(picture: np.ndarray) -> Tensor:
    return torch.from_numpy(picture).permute(2, 0, 1)[None].contiguous()


def pictures(count: int, height: int = 32, width: int = 32) -> Tensor:
    """Smooth random uint8 images."""
    coarse = torch.rand(count, 3, 6, 6, generator=torch.Generator().manual_seed(count))
    fine = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic")
    return fine.mul(255).clamp(0, 255).to(torch.uint8)


class NumpyRng:
    """Stands in for Rng and draws in the order of the reference, for golden outputs with a seed."""

    def __init__(self, seed: int) -> None:
        self.state = np.random.RandomState(seed)

    def for_host(self) -> NumpyRng:
        return self

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        return torch.from_numpy(self.state.uniform(low, high, shape)).float()[None]

    def uniforms(self, count: int, low: float, high: float, *shape: int) -> list[Tensor]:
        return [self.uniform(low, high, *shape) for _ in range(count)]

    def normal(self, *shape: int) -> Tensor:
        return torch.from_numpy(self.state.normal(size=shape)).float()[None]

    def integers(self, low: int, high: int, two: int, height: int, width: int) -> Tensor:
        """glass_blur's: from the last pixel to the first, the column's offset before the row's."""
        draws = self.state.randint(low, high, (height, width, two))[::-1, ::-1, ::-1]
        return torch.from_numpy(draws.transpose(2, 0, 1).copy()).int()[None]


def with_seed(images: Tensor, name: str, severity: float, table: str, seed: int) -> Tensor:
    function, row = corruptions._FUNCTIONS[name], parameters(name, severity, table)
    return image.truncate(function(images / 255, NumpyRng(seed), *row))


# ---- golden outputs


def golden_cases() -> list[tuple[str, str]]:
    return [(size, key) for size, file in (("32", AT_32), ("224", AT_224)) for key in file
            if key != "image" and "+" not in key]  # fmt: skip


@pytest.mark.parametrize(("size", "key"), golden_cases())
def test_golden(size: str, key: str) -> None:
    golden = AT_32 if size == "32" else AT_224
    source, name, *rest = key.split(".")
    table = "cifar" if source == "cifar" else "imagenet"
    seed = int(rest.pop()[4:]) if rest[-1].startswith("seed") else None
    images, severity = batch(golden["image"]), float(".".join(rest))
    if seed is None:
        out = corrupt(images, name, severity, 0, table)
    else:
        out = with_seed(images, name, severity, table, seed)
    if size == "224":
        out = out[..., ::4, ::4]
    error = (out[0].permute(1, 2, 0).int() - torch.from_numpy(golden[key]).int()).abs()
    if name in ("jpeg_compression", "pixelate"):
        assert error.max() == 0
    elif name == "glass_blur":
        # Two truncations to 8 bits, at either of which the reference's float64 may round otherwise.
        assert error.max() <= 2
        assert (error <= 1).float().mean() >= 0.998
    else:
        assert (error <= 1).float().mean() >= 0.999


@pytest.mark.parametrize("key", [key for key in AT_224 if "+" in key])
def test_golden_pairs(key: str) -> None:
    images = batch(AT_224["image"])
    for step in key.split("+"):
        if step == "jpeg85":
            images = jpeg(images, 85)
        else:
            name, severity = step.rsplit("_", 1)
            images = corrupt(images, name, float(severity), 0)
    out = images[..., ::4, ::4][0].permute(1, 2, 0).int()
    error = (out - torch.from_numpy(AT_224[key]).int()).abs().float()
    # JPEG amplifies the one grey level by which its input may differ.
    assert error.mean() < 1 if "jpeg" in key else (error <= 1).float().mean() >= 0.999


PARTS = load("parts.npz")


@pytest.mark.parametrize("key", [key for key in PARTS if key.startswith("disk")])
def test_disk(key: str) -> None:
    radius, sigma = key.removeprefix("disk.radius").split("_blur")
    np.testing.assert_array_equal(disk(float(radius), float(sigma)), PARTS[key])


@pytest.mark.parametrize(("size", "decay"), [(256, 2.0), (32, 1.4)])
def test_plasma(size: int, decay: float) -> None:
    field = plasma(torch.zeros(1, size, size), NumpyRng(int(PARTS[f"seed{size}"])), decay)[0]
    every = size // len(PARTS[f"plasma{size}"])
    np.testing.assert_allclose(field[::every, ::every], PARTS[f"plasma{size}"], atol=1e-5)


# ---- statistics

NOISE = load("noise_32.npz")


@pytest.mark.parametrize("severity", [0.25, 5])
@pytest.mark.parametrize("name", ["gaussian_noise", "shot_noise", "impulse_noise"])
def test_noise_statistics(name: str, severity: float) -> None:
    """Each value's mean and standard deviation over 1500 draws, within 5 standard errors."""
    draws = int(NOISE["n_draws"])
    images = batch(NOISE["image"]).expand(draws, -1, -1, -1) / 255
    out = corrupt(images, name, severity, torch.arange(draws)).mul(255).double()
    mean, std = (
        torch.from_numpy(NOISE[f"{name}.{severity:g}.{which}"]).permute(2, 0, 1).double()
        for which in ("mean", "std")
    )
    centred = out - out.mean(0)
    error = ((out.var(0) + std**2) / draws + 1e-4).sqrt()
    assert ((out.mean(0) - mean) / error).abs().max() < 5
    # The error of a variance, from the fourth moment; two independent samples.
    fourth = (centred.pow(4).mean(0) - out.var(0) ** 2).clamp(min=0)
    error = (2 * fourth.max() / draws).sqrt() + 1e-2 * std**2 + 1e-2
    assert ((out.var(0) - std**2) / error).abs().max() < 5


def test_random_numbers() -> None:
    rng = Rng(torch.arange(200))
    uniform = rng.uniform(0, 1, 5000)
    assert uniform.mean().item() == pytest.approx(0.5, abs=0.002)
    assert uniform.var().item() == pytest.approx(1 / 12, abs=5e-4)
    for lag in (1, 2):  # neither neighbours in an image nor neighbouring seeds know of each other
        for a, b in ((uniform[:, lag:], uniform[:, :-lag]), (uniform[lag:], uniform[:-lag])):
            assert abs(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1]) < 5e-3
    normal = rng.normal(5001)
    assert normal.mean().item() == pytest.approx(0, abs=0.005)
    assert normal.pow(2).mean().item() == pytest.approx(1, abs=0.01)
    assert normal.pow(4).mean().item() == pytest.approx(3, abs=0.06)
    counts = rng.integers(-3, 2, 5000).add(3).flatten().bincount()
    assert len(counts) == 5
    assert (counts / counts.sum() - 0.2).abs().max() < 0.003


# ---- what every corruption promises


@pytest.mark.parametrize("case", ["bytes", "floats", "other tables", "large", "other device"])
@pytest.mark.parametrize("name", ALL)
def test_depends_on_seed_and_pixels_alone(
    name: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not on the batch around an image, its order, or the number of threads."""
    count, shape = (3, (224, 224)) if case == "large" else (24, (33, 47))
    images, seeds = pictures(count, *shape), torch.arange(count) * 977 - 5
    images = images / 255 if case == "floats" else images
    severity = torch.where(seeds % 3 == 0, 1.75, 5.0)
    context = other_device(monkeypatch) if case == "other device" else nullcontext()
    with context:
        for table in ("cifar", "tinyimagenet") if case == "other tables" else ("imagenet",):
            whole = corrupt(images, name, severity, seeds, table)
            assert whole.dtype == images.dtype
            assert whole.shape == images.shape
            torch.set_num_threads(3)
            order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
            for part in (slice(0, 1), slice(count - 1, count), slice(1, 4), order):
                again = corrupt(images[part], name, severity[part], seeds[part], table)
                assert torch.equal(again, whole[part])


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", ALL)
def test_severity_zero_is_the_identity_and_small_ones_lead_there(name: str, table: str) -> None:
    images = pictures(4)
    assert torch.equal(corrupt(images, name, 0, 1, table), images)
    # CCC's quality starts at 85, its shot noise at 9999 photons; pixelate loses a pixel at once.
    if name not in ("jpeg_compression", "shot_noise", "pixelate"):
        nearly = corrupt(images, name, 1e-4, 1, table).int() - images.int()
        assert nearly.abs().float().mean() < 1


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (8, 8), (40, 17), (250, 130)])
@pytest.mark.parametrize("name", ALL)
def test_any_size_and_severity(name: str, shape: tuple[int, int]) -> None:
    images = pictures(3, *shape) / 255
    for severity in (0.25, 2.75, 5):
        for table in TABLES:
            out = corrupt(images, name, severity, 11, table)
            assert out.isfinite().all()
            assert out.min() >= 0
            assert out.max() <= 1


RANDOM = [name for name in ALL if name not in (
    "defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate", "jpeg_compression",
    "gaussian_blur", "saturate")]  # fmt: skip


@pytest.mark.parametrize("name", RANDOM)
def test_seeds_differ(name: str) -> None:
    images = pictures(1).expand(16, -1, -1, -1)
    out = corrupt(images, name, 4, torch.arange(16), "cifar")
    assert len(out.unique(dim=0)) >= 12  # motion blur steps by whole pixels


@contextmanager
def other_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On the CPU, the operations that other devices use."""
    with monkeypatch.context() as patch:
        for module in (image, codec, digital):
            patch.setattr(module, "opencv", lambda x: False)
        yield


@pytest.mark.parametrize("name", ALL)
def test_backends_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """99.9 % of the values within a grey level; 8-bit corruptions to the bit."""
    for size, severity, table in ((32, 3, "cifar"), (40, 1.5, "imagenet"), (64, 5, "imagenet")):
        images = pictures(5, size, size)
        expected = corrupt(images, name, severity, 7, table).int()
        with other_device(monkeypatch):
            error = (corrupt(images, name, severity, 7, table).int() - expected).abs()
        if name in ("jpeg_compression", "pixelate"):
            assert error.max() == 0
        assert (error <= 1).float().mean() >= 0.999


@pytest.mark.parametrize("shape", [(224, 224), (32, 32), (33, 46), (97, 161)])
def test_torch_codec_is_libjpeg(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    noise = torch.randint(0, 256, (2, 3, *shape), generator=torch.Generator().manual_seed(1))
    images = torch.cat((pictures(2, *shape), noise.to(torch.uint8)))
    for quality in (7, 15, 50, 85, 100):
        expected = jpeg(images, quality)
        with other_device(monkeypatch):
            assert torch.equal(jpeg(images, quality), expected)


def pixelated(image: torch.Tensor, scale: float) -> torch.Tensor:
    """Pillow's BOX there and back, [3,H,W] uint8."""
    large = Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())
    small = large.resize([int(size * scale) for size in large.size], Image.Resampling.BOX)
    again = np.array(small.resize(large.size, Image.Resampling.BOX))
    return torch.from_numpy(again).permute(2, 0, 1)


@pytest.mark.parametrize("shape", [(224, 224), (32, 32), (37, 53), (100, 90), (7, 11)])
def test_pixelate_is_pillow(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    images = pictures(3, *shape)
    for table in TABLES:
        for step in range(1, 21):
            scale = parameters("pixelate", step / 4, table)[0]
            expected = torch.stack([pixelated(image, scale) for image in images])
            assert torch.equal(corrupt(images, "pixelate", step / 4, 0, table), expected)
            with other_device(monkeypatch):
                assert torch.equal(corrupt(images, "pixelate", step / 4, 0, table), expected)


def test_fractional_severities_interpolate_every_entry() -> None:
    assert parameters("shot_noise", 0.25, "imagenet") == pytest.approx((0.25 / 60,))
    assert parameters("gaussian_noise", 1.75, "imagenet") == pytest.approx((0.11,))
    assert parameters("glass_blur", 4.5, "imagenet") == pytest.approx((1.3, 3.5, 2))
    assert parameters("elastic_transform", 0.5, "imagenet") == pytest.approx((244, 584.9, 12.2))
    assert parameters("fog", 5, "cifar") == (1.5, 1.75)


def test_the_table_is_what_was_asked_for_at_every_size() -> None:
    """No table is chosen by the images' size; each has severities of its own."""
    for size in (32, 64):
        images = pictures(2, size, size) / 255
        for table, std in (("imagenet", 0.18), ("cifar", 0.08), ("tinyimagenet", 0.12)):
            grey = corrupt(images * 0 + 0.5, "gaussian_noise", 3, 1, table)
            assert grey.std().item() == pytest.approx(std, rel=0.05)
    assert {name: len(rows) for name, rows in TABLES["tinyimagenet"].items()} == dict.fromkeys(
        ALL, 6
    )


def test_names() -> None:
    images = pictures(1)
    assert len(CORRUPTIONS) == 15
    assert len(EXTRA) == 4
    assert {name for table in TABLES.values() for name in table} == set(ALL)
    assert set(corruptions._FUNCTIONS) == set(ALL)
    for short, name in (("elastic", "elastic_transform"), ("jpeg", "jpeg_compression")):
        assert torch.equal(corrupt(images, short, 2, 1), corrupt(images, name, 2, 1))
    with pytest.raises(HoldfastError, match=r"rain.*gaussian_noise.*saturate"):
        corrupt(images, "rain", 1, 0)
    with pytest.raises(HoldfastError, match="imagenet, cifar"):
        corrupt(images, "fog", 1, 0, table="mnist")
    with pytest.raises(HoldfastError, match="6"):
        corrupt(images, "fog", 6, 0)
    with pytest.raises(HoldfastError, match=r"\[32, 32, 3\].*uint8"):
        corrupt(images[0].permute(1, 2, 0), "fog", 1, 0)
    with pytest.raises(HoldfastError, match=r"uint8 .* int32"):
        corrupt(images.int(), "fog", 1, 0)
    with pytest.raises(HoldfastError, match="one severity and one seed, or 1"):
        corrupt(images, "fog", torch.ones(2), 0)
    with pytest.raises(HoldfastError, match="one severity and one seed, or 1"):
        corrupt(images, "fog", 1, torch.ones(2))


# ---- imagecorruptions 1.1.2, repaired, as a second oracle: it has the table "imagenet"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return imagecorruptions()


@pytest.fixture
def draws(reference: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable:
    """Seeded draws of imagecorruptions, [draws, 3, H, W] in uint8."""
    module = reference.corruptions
    unseeded = module.sk.util.random_noise
    monkeypatch.setattr(
        module.sk.util,
        "random_noise",
        lambda *args, **options: unseeded(*args, rng=np.random.randint(2**31), **options),  # noqa: NPY002
    )

    def draw(name: str, picture: np.ndarray, severity: int, count: int) -> Tensor:
        np.random.seed(severity)  # noqa: NPY002
        outputs = [reference.corrupt(picture, severity, corruption_name=name) for _ in range(count)]
        return torch.from_numpy(np.stack(outputs)).permute(0, 3, 1, 2)

    return draw


def statistics(images: Tensor) -> Tensor:
    """Of each image: means and variances per channel, log power in six bands of frequency."""
    x = images.double()
    mean, variance = x.mean((2, 3)), x.var((2, 3))
    power = torch.fft.fft2(x - mean[:, :, None, None]).abs().square().mean(1)
    rows, columns = (torch.fft.fftfreq(size) for size in x.shape[2:])
    band = torch.bucketize(
        torch.hypot(rows[:, None], columns), torch.tensor([0.04, 0.1, 0.2, 0.3, 0.4])
    )
    bands = [power[:, band == i].mean(1).log() for i in range(6)]
    return torch.cat((mean, variance, torch.stack(bands, dim=1)), dim=1)


def agree(ours: Tensor, theirs: Tensor) -> None:
    """The means of every statistic lie within 5 standard errors of each other."""
    count, ours, theirs = len(ours), statistics(ours), statistics(theirs)
    # Rounding of constant statistics must not count as a difference: 0.02 levels, 0.1 % of power.
    least = torch.tensor([0.02] * 3 + [0.5] * 3 + [1e-3] * 6)
    error = ((ours.var(0) + theirs.var(0)) / count).sqrt() + least
    assert ((ours.mean(0) - theirs.mean(0)) / error).abs().max() < 5


# Tiny-ImageNet-C, of whose code imagecorruptions is a copy with other numbers: with its numbers in their
# place it is the reference there too. Not so for zoom blur and the elastic transform.
TINY = json.loads((GOLDEN / "corruptions" / "tiny_imagenet.json").read_text())


def test_numbers_of_tiny_imagenet_c() -> None:
    for name, rows in TABLES["tinyimagenet"].items():
        numbers = torch.tensor(TINY[name], dtype=torch.float64).view(5, -1)
        if name == "shot_noise":
            numbers = 1 / numbers
        if name == "elastic_transform":
            numbers = 64 * numbers
        if name in ("frost", "zoom_blur"):  # the scale of its textures; the step of its factors
            constant = 0.3 if name == "frost" else 0.01
            numbers = torch.cat([numbers, torch.full((5, 1), constant)], 1)
        torch.testing.assert_close(torch.tensor(rows[1:], dtype=torch.float64), numbers)


@pytest.mark.parametrize("severity", [1, 5])
@pytest.mark.parametrize("name", sorted(set(ALL) - {"zoom_blur", "elastic_transform"}))
def test_tiny_imagenet_c_is_imagecorruptions_with_its_numbers(
    name: str,
    severity: int,
    draws: Callable,
    reference: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of an image of 64 pixels the pixels, or where there is chance the statistics of many draws."""
    module, picture = reference.corruptions, AT_224["image"][80:144, 80:144].copy()
    rows = tuple(tuple(row) if isinstance(row, list) else row for row in TINY[name])
    code = getattr(module, name).__code__
    constants = [rows if isinstance(c, tuple) and len(c) == 5 else c for c in code.co_consts]
    code = code.replace(co_consts=tuple(constants))
    monkeypatch.setattr(getattr(module, name), "__code__", code)
    monkeypatch.setattr(  # of the frost textures, its own and ours
        module.cv2, "resize", lambda texture, *_, **__: RESIZE(texture, (0, 0), fx=0.3, fy=0.3)
    )
    count = 1 if name not in RANDOM else 10 if name == "glass_blur" else 60
    theirs = draws(name, picture, severity, count)
    images = batch(picture).expand(count, -1, -1, -1)
    ours = corrupt(images, name, severity, torch.arange(count), "tinyimagenet")
    if name in RANDOM:
        agree(ours, theirs)
    else:
        assert ((ours.int() - theirs.int()).abs() <= 1).float().mean() >= 0.999
