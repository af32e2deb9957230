"""Resizing and crops belong to the weights: those of the libraries, pixel for pixel, and of a run."""

import warnings
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import open_clip
import pytest
import timm
import torch
from common import tiny_net, trainer_test
from open_clip.transform import PreprocessCfg, image_transform_v2, merge_preprocess_dict
from PIL import Image
from timm.data import create_transform, resolve_data_config
from torch import nn
from torchvision import models
from torchvision.transforms import functional as TF

from holdfast import HoldfastError
from holdfast import datamodules as dm
from holdfast.datamodules.sources.pixels import centred
from holdfast.methods import Source
from holdfast.methods.backbones.layers import Normalise
from holdfast.methods.backbones.preprocessing import of_open_clip, of_timm, of_torchvision
from holdfast.preprocessing import central

ZERO = torch.zeros(1, dtype=torch.int64)


def photo(width: int, height: int) -> Image.Image:
    """Coarse noise, in which every interpolation differs."""
    pixels = np.random.default_rng(width).integers(0, 256, (height // 7, width // 7, 3), np.uint8)
    return Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC)


PHOTOS = [photo(400, 300), photo(190, 411), photo(640, 150)]


def assert_same_pixels(preprocessing: dm.Preprocessing, transform: Any) -> None:
    """Both give the network the same tensors, to the rounding of float32."""
    normalise = Normalise(preprocessing.mean, preprocessing.std)
    for image in PHOTOS:
        ours = normalise(TF.pil_to_tensor(centred(image, preprocessing)).float() / 255)
        assert torch.allclose(ours, transform(image), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "geometry"),
    [
        ("resnet50.IMAGENET1K_V1", (224, 256, "bilinear")),
        ("resnet50.IMAGENET1K_V2", (224, 232, "bilinear")),
        ("inception_v3.IMAGENET1K_V1", (299, 342, "bilinear")),
        ("efficientnet_b4.IMAGENET1K_V1", (380, 384, "bicubic")),
        ("vit_l_16.IMAGENET1K_V1", (224, 242, "bilinear")),
    ],
)
def test_torchvisions_own(name: str, geometry: tuple) -> None:
    model, tag = name.split(".")
    weights = models.get_model_weights(model)
    preprocessing = of_torchvision(model, weights, tag)
    assert (preprocessing.size, preprocessing.resize, preprocessing.interpolation) == geometry
    assert_same_pixels(preprocessing, weights[tag].transforms())


def test_torchvisions_other_tasks() -> None:
    with pytest.raises(HoldfastError, match="does not classify images"):
        of_torchvision("fcn_resnet50", models.get_model_weights("fcn_resnet50"), "")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("vit_base_patch16_224.augreg_in21k_ft_in1k", "shorter side 248 (bicubic)"),
        ("resnet18.tv_in1k", "shorter side 256 (bilinear)"),
        ("dm_nfnet_f1.dm_in1k", "both sides 246 (bicubic), centre 224 x 224"),
        ("border", "longer side 199 (bicubic)"),
    ],
)
def test_timms_own(name: str, text: str) -> None:
    if name == "border":  # as DeepSeek's encoders have it
        config: Any = {"input_size": (3, 224, 224), "crop_mode": "border", "crop_pct": 1.12}
        config |= {"interpolation": "bicubic", "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.4)}
    else:
        config = resolve_data_config(pretrained_cfg=timm.get_pretrained_cfg(name).to_dict())
    preprocessing = of_timm(name, config)
    assert str(preprocessing).startswith(text)
    assert_same_pixels(preprocessing, create_transform(**config, is_training=False))


def test_timms_oblong_images() -> None:
    config = {"input_size": (3, 1024, 768)}
    with pytest.raises(HoldfastError, match="3 x 1024 x 768"):
        of_timm("vit_base_patch16_sapiens2.fb", config)


@pytest.mark.parametrize(
    "change",
    [{}, {"resize_mode": "squash", "interpolation": "bilinear"}, {"resize_mode": "longest"}],
)
def test_open_clips_own(change: dict[str, str]) -> None:
    config = merge_preprocess_dict(asdict(PreprocessCfg()), change)
    visual = nn.Sequential(nn.GELU())
    visual.preprocess_cfg = config  # type: ignore[assignment]
    preprocessing = of_open_clip(SimpleNamespace(visual=visual))
    assert preprocessing.activation == "GELU"
    assert_same_pixels(preprocessing, image_transform_v2(PreprocessCfg(**config), is_train=False))


@pytest.fixture
def tower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small two-tower model of open_clip, whose tags have other preprocessing; the file of weights."""
    layers = {"layers": 1, "width": 64}
    vision = {**layers, "image_size": 32, "patch_size": 16, "head_width": 32}
    text = {**layers, "context_length": 77, "vocab_size": 49408, "heads": 2}
    config = {"embed_dim": 32, "vision_cfg": vision, "text_cfg": text}
    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, "tiny", config)
    half = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "resize_mode": "squash"}
    tags = {"openai": {"url": "x", "quick_gelu": True}, "webli": {"url": "x", **half}}
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, "tiny", tags)
    torch.save(open_clip.create_model("tiny").state_dict(), tmp_path / "tiny.pt")
    monkeypatch.setattr(
        open_clip.factory, "download_pretrained", lambda *_, **__: str(tmp_path / "tiny.pt")
    )
    return tmp_path / "tiny.pt"


@pytest.mark.parametrize("by_file", [False, True], ids=["name", "file"])
def test_clip_takes_the_activation_and_preprocessing_of_its_tag(tower: Path, by_file: bool) -> None:
    from holdfast.methods.backbones import zero_shot

    file = tower if by_file else None
    for tag, activation, mean, side in (
        ("openai", "QuickGELU", open_clip.OPENAI_DATASET_MEAN, "shortest"),
        ("webli", "GELU", (0.5, 0.5, 0.5), "squash"),
    ):
        net = zero_shot(f"tiny.{tag}", ["cat", "dog"], ["a {}"], file)
        kinds = {
            type(layer).__name__
            for part in (net, net.texts.tower)
            for layer in part.modules()
            if "GELU" in type(layer).__name__
        }
        preprocessing: Any = net.preprocessing
        assert kinds == {activation} == {preprocessing.activation}
        assert (preprocessing.mean, preprocessing.side, preprocessing.size) == (mean, side, 32)
        assert net.normalise.mean.flatten().tolist() == pytest.approx(mean)


def test_a_file_for_clip_without_known_weights(tower: Path) -> None:
    from holdfast.methods.backbones import zero_shot

    with pytest.warns(UserWarning, match="names no weights"):
        zero_shot("tiny", ["cat", "dog"], ["a {}"], tower)


# ---- sources and runs ------------------------------------------------------------------------------

SQUASHED = dm.Preprocessing(size=24, resize=24, interpolation="bicubic", side="squash")


def prepared(preprocessing: dm.Preprocessing | None = SQUASHED) -> nn.Module:
    net = tiny_net(2)
    if preprocessing is not None:
        net.preprocessing = preprocessing  # type: ignore[assignment]
    return net


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number, name in enumerate(("cat", "dog")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        PHOTOS[number].save(tmp_path / "photos" / name / "a.png")
    return tmp_path / "photos"


def test_a_source_like_a_network(photos: Path) -> None:
    source = dm.ImageFolder(photos).like(prepared())
    expected = PHOTOS[0].resize((24, 24), Image.Resampling.BICUBIC)
    assert torch.equal(source.load(ZERO, ZERO)[0][0], TF.pil_to_tensor(expected))
    assert "both sides 24 (bicubic)" in source.content
    with pytest.raises(HoldfastError, match="does not say how its images are resized"):
        source.like(tiny_net())


@pytest.mark.parametrize(
    "stream_of",
    [
        lambda source: dm.Clean(source, num_workers=0),
        lambda source: dm.CINC(source, each=2, epochs=2 / 30, num_workers=0),
        lambda source: dm.CorrelatedLabels(dm.Clean(source, num_workers=0), delta=0),
    ],
    ids=["Clean", "CINC", "wrapper"],
)
def test_a_run_prepares_images_for_its_network(photos: Path, stream_of: Any) -> None:
    """Each run for its own, and the provenance of the stream says so."""
    source = dm.ImageFolder(photos)
    stream = stream_of(source)
    for net, size in ((prepared(), 24), (prepared(None), 224)):
        trainer_test(Source(net), stream)
        assert stream.batch(ZERO).images.shape[-1] == size == source.size
        assert ("both sides 24 (bicubic)" in stream.identity["content"]) == (size == 24)


def test_a_size_of_the_weights_is_no_deviation(photos: Path) -> None:
    source = dm.ImageFolder(photos, size=24)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        source.adopt(prepared())
    assert source.preprocessing == SQUASHED


def test_what_deviates_is_said(photos: Path) -> None:
    source = dm.ImageFolder(photos, size=32)
    with pytest.warns(UserWarning, match=r"shorter side 36 .*evaluated with both sides 24"):
        source.adopt(prepared())
    assert source.preprocessing == central(32)
    chosen = dm.DatasetSource([(PHOTOS[0], 0)], classes=1).like(central(48))
    with pytest.warns(UserWarning, match="evaluated with both sides 24"):
        chosen.adopt(prepared())
    assert chosen.load(ZERO, ZERO)[0].shape[-1] == 48


def test_random_crops_take_the_size_alone(photos: Path) -> None:
    source = dm.ImageFolder(photos, crop="random")
    before = dm.ImageFolder(photos, size=24, crop="random").load(ZERO, ZERO)[0]
    source.adopt(prepared())
    assert torch.equal(source.load(ZERO, ZERO)[0], before)
    assert "bicubic" not in source.content


def test_sources_of_one_size_are_left_alone() -> None:
    stream = dm.CCC(dm.Digits(), corruptions=["fog", "contrast"], calibration="digits")
    stream.adopt(prepared())
    assert stream.source.size == 32
