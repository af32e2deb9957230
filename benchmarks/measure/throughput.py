"""Corruption throughput on one core or one GPU, beside the imagecorruptions package on one core."""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from importlib.metadata import distribution
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import torch
from skimage.filters import gaussian
from torch import Tensor
from torchvision.transforms import RandomResizedCrop
from torchvision.transforms.v2.functional import resized_crop

from ... import HoldfastError
from ...datamodules.corruptions import CORRUPTIONS, EXTRA, corrupt, jpeg
from ..options import Parser
from .meters import seconds

CCC = tuple(name for name in CORRUPTIONS if name != "brightness")  # CCC never uses it


def imagecorruptions() -> ModuleType:
    """Import imagecorruptions with what today's NumPy, scikit-image and setuptools have dropped."""
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


def sources(count: int, height: int, width: int) -> Tensor:
    """Random uint8 images [count, 3, height, width] with detail at every scale."""
    generator, images = torch.Generator().manual_seed(0), torch.zeros(count, 3, height, width)
    for cells in (4, 16, 64, 256):
        noise = torch.randn(count, 3, cells, cells, generator=generator) * 70 / cells**0.25
        images += torch.nn.functional.interpolate(noise, (height, width), mode="bilinear")
    return images.add_(120).clamp_(0, 255).to(torch.uint8)


def pair(images: Tensor, first: str, second: str, severity: float, size: int) -> Tensor:
    """CCC's pipeline: random resized crop, flip, two corruptions and JPEG at quality 85."""
    crops = []
    for image in images:
        box = RandomResizedCrop.get_params(image, scale=[0.08, 1.0], ratio=[3 / 4, 4 / 3])
        crop = resized_crop(image, *box, size=[size, size], antialias=True)
        crops.append(crop.flip(2) if torch.rand(()) < 0.5 else crop)
    seeds = torch.randint(2**62, (2, len(images)), device=images.device)
    x = corrupt(torch.stack(crops), first, severity, seeds[0])
    return jpeg(corrupt(x, second, severity, seeds[1]), 85)


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("throughput", __doc__, "--size 224 --ours")
    parser.add("--device", default="cpu", help="where ours runs: cpu (one core) or cuda")
    parser.add("--size", type=int, default=224, help="side of the images")
    parser.add("--severity", type=float, default=3)
    parser.add("--batch", type=int, default=64)
    parser.add("--seconds", type=float, default=1, help="least time per measurement")
    parser.flag("--ours", "leave imagecorruptions out")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Print images/s per corruption, theirs, ours and the ratio, and for CCC's pair pipeline."""
    args = parser().parse_args(argv)
    if min(args.size, args.batch) < 1:
        raise HoldfastError("--size and --batch must be at least 1.")
    if args.device != "cpu" and not torch.cuda.is_available():
        raise HoldfastError(f"--device {args.device}: there is no GPU here, choose cpu.")
    threads = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    try:
        _print_table(args)
    finally:
        torch.set_num_threads(threads[0])
        cv2.setNumThreads(threads[1])
    return 0


def _print_table(args: argparse.Namespace) -> None:
    images = sources(args.batch, args.size, args.size).to(args.device)
    one = np.ascontiguousarray(images[0].permute(1, 2, 0).cpu().numpy())
    package = None if args.ours else imagecorruptions()
    print(f"images/s at {args.size}x{args.size}, severity {args.severity:g}, on {args.device}")
    print(f"{'':20}{'imagecorruptions':>18}{'holdfast':>12}{'ratio':>9}")
    theirs, ours = {}, {}
    for name in CORRUPTIONS + EXTRA:

        def batch(name: str = name) -> Tensor:
            return corrupt(images, name, args.severity, 0)

        def single(name: str = name) -> np.ndarray:
            assert package is not None
            return package.corrupt(one, severity=round(args.severity), corruption_name=name)

        ours[name] = seconds(batch, torch.device(args.device), args.seconds) / len(images)
        theirs[name] = (
            float("nan") if args.ours else seconds(single, torch.device("cpu"), args.seconds)
        )
        _print_row(name, theirs[name], ours[name])
    for title, names in (("mean of the 15", CORRUPTIONS), ("mean of the 19", CORRUPTIONS + EXTRA)):
        means = [float(np.mean([times[name] for name in names])) for times in (theirs, ours)]
        _print_row(title, *means)
    photographs = sources(args.batch, 375, 500).to(args.device)
    times = [
        seconds(
            lambda a=a, b=b: pair(photographs, a, b, args.severity, args.size),  # type: ignore[misc]
            torch.device(args.device),
            args.seconds,
        )
        for a, b in zip(CCC, CCC[1:] + CCC[:1], strict=True)
    ]
    rate = len(times) * len(photographs) / sum(times)
    print(f"CCC pairs (crop, flip, two corruptions, JPEG; {len(times)} pairs): {rate:.0f} images/s")


def _print_row(name: str, theirs: float, ours: float) -> None:
    print(f"{name:20}{1 / theirs:18.1f}{1 / ours:12.0f}{theirs / ours:8.1f}x", flush=True)


if __name__ == "__main__":
    sys.exit(main())
