"""The speed of corruptions, compared with imagecorruptions, and of loaders, compared with torchvision's."""

import argparse
import importlib
import sys
import tempfile
import warnings
from functools import partial
from importlib.metadata import distribution
from pathlib import Path
from statistics import geometric_mean, mean, median
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import torch
from skimage.filters import gaussian
from torch import Tensor
from torch.utils.data import DataLoader
from torchvision import datasets
from torchvision.io import write_jpeg
from torchvision.transforms import Compose, RandomHorizontalFlip, RandomResizedCrop, ToTensor
from torchvision.transforms.v2.functional import resized_crop

from ... import in_range
from ...batch import Batch
from ...datamodules import CINC, ImageFolder
from ...datamodules.corruptions import CORRUPTIONS, EXTRA, corrupt, jpeg
from .step_cost import Job, Rows, seconds

_SEVERITY = 3
_CCC = tuple(name for name in CORRUPTIONS if name != "brightness")  # CCC never uses it


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


def _photographs(count: int, height: int, width: int) -> Tensor:
    """Random uint8 images [count,3,height,width] with detail at every scale."""
    generator, images = torch.Generator().manual_seed(0), torch.zeros(count, 3, height, width)
    for cells in (4, 16, 64, 256):
        noise = torch.randn(count, 3, cells, cells, generator=generator) * 70 / cells**0.25
        images += torch.nn.functional.interpolate(noise, (height, width), mode="bilinear")
    return images.add_(120).clamp_(0, 255).to(torch.uint8)


def corruption_speeds(args: argparse.Namespace) -> Rows:
    """The row of each corruption, of their ratios' means, and of CCC's pairs."""
    cv2.setNumThreads(args.threads)
    images = _photographs(args.batch, args.size, args.size).to(args.device)
    image = np.ascontiguousarray(images[0].permute(1, 2, 0).cpu().numpy())
    package, taken = imagecorruptions(), {}
    for name in CORRUPTIONS + EXTRA:
        jobs: dict[str, Job] = {
            "holdfast": partial(corrupt, images, name, _SEVERITY, 0),
            "imagecorruptions": partial(package.corrupt, image, _SEVERITY, name),
        }
        taken[name] = seconds(jobs, args.device, args.rounds)
        taken[name]["holdfast"] /= len(images)
        yield name, _compared(taken[name])
    ratios = [_compared(taken[name])["ratio"] for name in CORRUPTIONS]
    yield "geometric mean of the 15", {"ratio": round(geometric_mean(ratios), 1)}
    yield "median of the 15", {"ratio": round(median(ratios), 1)}
    larger = _photographs(args.batch, 375, 500).to(args.device)
    pairs = {
        f"{a}, {b}": partial(_ccc_pair, larger, a, b, args.size)
        for a, b in zip(_CCC, _CCC[1:] + _CCC[:1], strict=True)
    }
    of_pairs = seconds(pairs, args.device, args.rounds).values()
    yield "CCC's pairs", {"holdfast": round(len(larger) / mean(of_pairs), 1)}


def _compared(seconds: dict[str, float]) -> dict[str, float]:
    """Images/s, and their ratio, from the seconds per image of both packages."""
    row = {package: round(1 / time, 1) for package, time in seconds.items()}
    return row | {"ratio": round(seconds["imagecorruptions"] / seconds["holdfast"], 1)}


def _ccc_pair(images: Tensor, first: str, second: str, size: int) -> Tensor:
    """Apply CCC's pipeline: random resized crop, flip, two corruptions and JPEG at quality 85."""
    crops = []
    for image in images:
        box = RandomResizedCrop.get_params(image, scale=[0.08, 1.0], ratio=[3 / 4, 4 / 3])
        crop = resized_crop(image, *box, size=[size, size], antialias=True)
        crops.append(crop.flip(2) if torch.rand(()) < 0.5 else crop)
    seeds = torch.randint(2**62, (2, len(images)), device=images.device)
    x = corrupt(torch.stack(crops), first, _SEVERITY, seeds[0])
    return jpeg(corrupt(x, second, _SEVERITY, seeds[1]), 85)


def loader_speeds(args: argparse.Namespace) -> Rows:
    in_range(1, images=args.images)
    cv2.setNumThreads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        for number, image in enumerate(_photographs(args.images, 375, 500)):
            path = Path(folder, f"class{number % 2}", f"{number}.jpg")
            path.parent.mkdir(exist_ok=True)
            write_jpeg(image, str(path), quality=90)
        augment = Compose([RandomResizedCrop(args.size), RandomHorizontalFlip(), ToTensor()])
        files = DataLoader(datasets.ImageFolder(folder, augment), args.batch)
        each = -(-args.images // len(CORRUPTIONS))
        source = ImageFolder(folder, args.size)
        stream = CINC(source, severity=_SEVERITY, each=each, batch_size=args.batch, num_workers=0)
        assert stream.images is not None
        index = torch.arange(stream.images).split(args.batch)
        clean = [stream.clean(part) for part in index]
        files_read = [stream.encoded(part) for part in index]
        here = [batch.images for batch in clean]
        there = [images.to(args.device) for images in here]

        def corrupt_all(images: list[Tensor]) -> None:
            for batch, part in zip(clean, images, strict=True):
                stream.corrupted(batch._replace(images=part.clone()))

        def decode() -> list[Batch]:
            return [stream.decoded(batch, args.device) for batch in files_read]

        jobs: dict[str, Job] = {
            "torchvision's loader": lambda: [None for _ in files],
            "decode and crop": lambda: [stream.clean(part) for part in index],
            "corrupt, JPEG": partial(corrupt_all, here),
            "Holdfast's loader": lambda: [None for _ in stream.test_dataloader()],
            "read files": lambda: [stream.encoded(part) for part in index],
        }
        jobs_there: dict[str, Job] = {
            "decode and crop on the device": decode,
            "corrupt, JPEG on the device": partial(corrupt_all, there),
        }
        taken = seconds(jobs, torch.device("cpu"), args.rounds)
        taken |= seconds(jobs_there, args.device, args.rounds)
        pairs = zip(clean, decode(), strict=True)
        levels = max(int((a.images.int() - b.images.cpu().int()).abs().max()) for a, b in pairs)
    for name, time in taken.items():
        count = args.images if name.startswith("torchvision") else stream.images
        yield name, {"images_per_second": round(count / time, 1)}
    parts, whole = (taken["decode and crop"], taken["corrupt, JPEG"]), taken["Holdfast's loader"]
    yield "the device's and the CPU's crops", {"levels_apart": levels}
    yield "Holdfast / both parts", {"ratio": round(sum(parts) / whole, 2)}
    yield "Holdfast / slower part", {"ratio": round(max(parts) / whole, 2)}
