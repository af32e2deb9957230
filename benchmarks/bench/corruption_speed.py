"""The speed of each corruption, compared with imagecorruptions, and of CCC's pairs of them."""

import argparse
import importlib
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from importlib.metadata import distribution
from statistics import mean
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import torch
from skimage.filters import gaussian
from torch import Tensor
from torchvision.transforms import RandomResizedCrop
from torchvision.transforms.v2.functional import resized_crop

from ...datamodules.corruptions import CORRUPTIONS, EXTRA, check, corrupt, jpeg
from .meters import Job, seconds

CCC = tuple(name for name in CORRUPTIONS if name != "brightness")  # CCC never uses it


def imagecorruptions() -> ModuleType:
    """Import imagecorruptions with features that recent NumPy, scikit-image and setuptools dropped."""
    try:
        importlib.import_module("pkg_resources")
    except ImportError:
        shim: Any = ModuleType("pkg_resources")
        shim.resource_filename = lambda package, path: str(
            distribution("imagecorruptions").locate_file(f"imagecorruptions/{path}")
        )
        sys.modules["pkg_resources"] = shim
    vars(np).setdefault("float_", np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = importlib.import_module("imagecorruptions")

    def patched(image: np.ndarray, *args: Any, multichannel: bool = False, **options: Any) -> Any:
        return gaussian(image, *args, channel_axis=-1 if multichannel else None, **options)

    package.corruptions.gaussian = patched
    return package


def photographs(count: int, height: int, width: int) -> Tensor:
    """Random uint8 images [count,3,height,width] with detail at every scale."""
    generator, images = torch.Generator().manual_seed(0), torch.zeros(count, 3, height, width)
    for cells in (4, 16, 64, 256):
        noise = torch.randn(count, 3, cells, cells, generator=generator) * 70 / cells**0.25
        images += torch.nn.functional.interpolate(noise, (height, width), mode="bilinear")
    return images.add_(120).clamp_(0, 255).to(torch.uint8)


def corruption_speeds(args: argparse.Namespace) -> Iterator[tuple[str, dict[str, float]]]:
    """The row of each corruption, of the means, and of CCC's pairs."""
    cv2.setNumThreads(args.threads)
    for name in CORRUPTIONS + EXTRA:
        check(name, args.severity, "imagenet")
    images = photographs(args.batch, args.size, args.size).to(args.device)
    one = np.ascontiguousarray(images[0].permute(1, 2, 0).cpu().numpy())
    package = None if args.ours else imagecorruptions()
    found = {}
    for name in CORRUPTIONS + EXTRA:
        jobs: dict[str, Job] = {"holdfast": partial(corrupt, images, name, args.severity, 0)}
        if package is not None:
            jobs["imagecorruptions"] = partial(package.corrupt, one, round(args.severity), name)
        found[name] = seconds(jobs, args.device, args.rounds)
        found[name]["holdfast"] /= len(images)
        yield name, speeds(found[name])
    for title, names in (("mean of the 15", CORRUPTIONS), ("mean of the 19", CORRUPTIONS + EXTRA)):
        parts = found[names[0]]
        yield title, speeds({part: mean(found[name][part] for name in names) for part in parts})
    larger = photographs(args.batch, 375, 500).to(args.device)
    pairs = {
        f"{a}, {b}": partial(ccc_pair, larger, a, b, args.severity, args.size)
        for a, b in zip(CCC, CCC[1:] + CCC[:1], strict=True)
    }
    taken = seconds(pairs, args.device, args.rounds)
    yield "CCC's pairs", speeds({"holdfast": mean(taken.values()) / len(larger)})


def speeds(seconds: dict[str, float]) -> dict[str, float]:
    """Images/s, and their ratio, from the seconds per image of one or both packages."""
    row = {package: round(1 / time, 1) for package, time in seconds.items()}
    if "imagecorruptions" in seconds:
        row["ratio"] = round(seconds["imagecorruptions"] / seconds["holdfast"], 1)
    return row


def ccc_pair(images: Tensor, first: str, second: str, severity: float, size: int) -> Tensor:
    """Apply CCC's pipeline: random resized crop, flip, two corruptions and JPEG at quality 85."""
    crops = []
    for image in images:
        box = RandomResizedCrop.get_params(image, scale=[0.08, 1.0], ratio=[3 / 4, 4 / 3])
        crop = resized_crop(image, *box, size=[size, size], antialias=True)
        crops.append(crop.flip(2) if torch.rand(()) < 0.5 else crop)
    seeds = torch.randint(2**62, (2, len(images)), device=images.device)
    x = corrupt(torch.stack(crops), first, severity, seeds[0])
    return jpeg(corrupt(x, second, severity, seeds[1]), 85)
