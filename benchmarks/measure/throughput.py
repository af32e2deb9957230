"""Measure corruption throughput on one core or GPU, compared with imagecorruptions on one core."""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
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

from ... import HoldfastError
from ...command_parser import Parser
from ...datamodules import CINC, ImageFolder
from ...datamodules.corruptions import CORRUPTIONS, EXTRA, corrupt, jpeg
from ...datamodules.corruptions.blur import disk
from ...datamodules.corruptions.parameters import parameters
from ...datamodules.corruptions.random import Rng
from .meters import seconds

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


def sources(count: int, height: int, width: int) -> Tensor:
    """Random uint8 images [count,3,height,width] with detail at every scale."""
    generator, images = torch.Generator().manual_seed(0), torch.zeros(count, 3, height, width)
    for cells in (4, 16, 64, 256):
        noise = torch.randn(count, 3, cells, cells, generator=generator) * 70 / cells**0.25
        images += torch.nn.functional.interpolate(noise, (height, width), mode="bilinear")
    return images.add_(120).clamp_(0, 255).to(torch.uint8)


def pair(images: Tensor, first: str, second: str, severity: float, size: int) -> Tensor:
    """Apply CCC's pipeline: random resized crop, flip, two corruptions and JPEG at quality 85."""
    crops = []
    for image in images:
        box = RandomResizedCrop.get_params(image, scale=[0.08, 1.0], ratio=[3 / 4, 4 / 3])
        crop = resized_crop(image, *box, size=[size, size], antialias=True)
        crops.append(crop.flip(2) if torch.rand(()) < 0.5 else crop)
    seeds = torch.randint(2**62, (2, len(images)), device=images.device)
    x = corrupt(torch.stack(crops), first, severity, seeds[0])
    return jpeg(corrupt(x, second, severity, seeds[1]), 85)


def limits(images: Tensor, severity: float) -> dict[str, tuple[str, Callable[[], object]]]:
    """The name and call of the library function that dominates each corruption."""
    floats, seeds = images.float().div(255), torch.arange(len(images))
    kernel = disk(*parameters("defocus_blur", severity, "imagenet"))
    quality = round(parameters("jpeg_compression", severity, "imagenet")[0])
    side = 1 << (images.shape[-1] - 1).bit_length()
    rows = images.permute(0, 2, 3, 1).contiguous().numpy()

    def libjpeg() -> None:
        for image in rows:
            data = cv2.imencode(".jpg", image, (cv2.IMWRITE_JPEG_QUALITY, quality))[1]
            cv2.imdecode(data, cv2.IMREAD_COLOR)

    def filter_planes() -> None:
        for plane in floats.flatten(0, 1).numpy():
            cv2.filter2D(plane, -1, kernel)

    return {
        "impulse_noise": ("random bits", lambda: Rng(seeds).bits(*images.shape[1:])),
        "defocus_blur": ("filter2D", filter_planes),
        "fog": ("random bits", lambda: Rng(seeds).bits(side, side)),
        "pixelate": ("copy", images.clone),
        "jpeg_compression": ("libjpeg", libjpeg),
    }


def print_loader(count: int, args: argparse.Namespace) -> None:
    """Print images/s of one core from JPEGs: other loaders without corruptions, and a CIN-C stream."""
    with tempfile.TemporaryDirectory() as folder:
        for number, image in enumerate(sources(count, 375, 500)):
            place = Path(folder, f"class{number % 2}")
            place.mkdir(exist_ok=True)
            write_jpeg(image, str(place / f"{number}.jpg"), quality=90)
        augment = Compose([RandomResizedCrop(args.size), RandomHorizontalFlip(), ToTensor()])
        bare = DataLoader(datasets.ImageFolder(folder, augment), batch_size=args.batch)
        stream = CINC(
            ImageFolder(folder, args.size),
            severity=round(args.severity),
            each=-(-count // len(CORRUPTIONS)),
            batch_size=args.batch,
            num_workers=0,
        )
        assert stream.images is not None
        index = torch.arange(stream.images).split(args.batch)
        clean = [stream.clean(rows) for rows in index]
        others: dict[str, Callable[[], object]] = {
            "torchvision's loader": lambda: [None for _ in bare]
        }
        if find_spec("webdataset"):
            shard = shard_loader(Path(folder), augment, args.batch)
            others["webdataset's loader"] = lambda: [None for _ in shard]
        jobs: dict[str, Callable[[], object]] = {
            **others,
            "decode and crop": lambda: [stream.clean(rows) for rows in index],
            "corrupt, JPEG": lambda: [
                stream.corrupted(b._replace(images=b.images.clone())) for b in clean
            ],
            "Holdfast's loader": lambda: [None for _ in stream.test_dataloader()],
        }
        found = {
            name: seconds(job, torch.device("cpu"), args.seconds) for name, job in jobs.items()
        }
    own = [name for name in found if name not in others]
    rates = {name: (count if name in others else stream.images) / found[name] for name in found}
    print(f"CIN-C from {count} JPEGs of 500x375, images/s of one core:")
    for name, rate in rates.items():
        print(f"{name:20}{rate:18.0f}")
    decode, corrupted, whole = (found[name] for name in own)
    print(
        f"Holdfast's loader reaches {(decode + corrupted) / whole:.2f} of the rate of both parts in "
        f"sequence, and {max(decode, corrupted) / whole:.2f} of the slower part's rate."
    )


def shard_loader(folder: Path, augment: Callable, batch: int) -> Iterable:
    """webdataset's loader for one shard with the JPEGs of the folder."""
    import webdataset

    shard = str(folder / "0.tar")
    with webdataset.TarWriter(shard) as writer:
        for path in sorted(folder.glob("*/*.jpg")):
            writer.write({"__key__": path.stem, "jpg": path.read_bytes()})
    images = webdataset.WebDataset([shard], shardshuffle=False).decode("pil").to_tuple("jpg")
    return DataLoader(images.map_tuple(augment), batch_size=batch)


def parser() -> Parser:
    """The options of the command."""
    parser = Parser("throughput", __doc__, "--size 224 --ours")
    parser.add(
        "--device", default="cpu", help="device for Holdfast's corruptions: cpu (one core) or cuda"
    )
    parser.add("--size", type=int, default=224, help="pixels per side (default: 224)")
    parser.add("--severity", type=float, default=3)
    parser.add("--batch", type=int, default=64)
    parser.add("--seconds", type=float, default=1, help="minimum seconds per measurement")
    parser.flag("--ours", "measure only Holdfast, not imagecorruptions")
    parser.add("--loader", type=int, metavar="N", help="measure only loaders of N JPEGs")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Print images/s per corruption for both packages with the ratio, and of CCC's pair pipeline."""
    args = parser().parse_args(argv)
    if min(args.size, args.batch) < 1:
        raise HoldfastError("--size and --batch must be at least 1.")
    if args.device != "cpu" and not torch.cuda.is_available():
        raise HoldfastError(
            f"--device {args.device} is unavailable: PyTorch finds no GPU. Choose cpu."
        )
    threads = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    try:
        if args.loader:
            print_loader(args.loader, args)
        else:
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
    theirs, ours, limit = {}, {}, limits(images, args.severity) if args.device == "cpu" else {}
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
        known, call = limit.get(name, ("", None))
        least = seconds(call, torch.device("cpu"), args.seconds) / len(images) if call else None
        _print_row(name, theirs[name], ours[name], known, least)
    for title, names in (("mean of the 15", CORRUPTIONS), ("mean of the 19", CORRUPTIONS + EXTRA)):
        mine, others = (float(np.mean([t[name] for name in names])) for t in (ours, theirs))
        _print_row(title, others, mine)
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


def _print_row(
    name: str, theirs: float, ours: float, limit: str = "", least: float | None = None
) -> None:
    known = f"  {least / ours:4.0%} of it is {limit}" if least else ""
    print(f"{name:20}{1 / theirs:18.1f}{1 / ours:12.0f}{theirs / ours:8.1f}x{known}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
