"""The speed of a CIN-C stream from JPEGs, of its two parts, and of torchvision's loader."""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import cv2
import torch
from torch.utils.data import DataLoader
from torchvision import datasets
from torchvision.io import write_jpeg
from torchvision.transforms import Compose, RandomHorizontalFlip, RandomResizedCrop, ToTensor

from ... import in_range
from ...datamodules import CINC, ImageFolder
from ...datamodules.corruptions import CORRUPTIONS
from .corruption_speed import photographs
from .meters import Job, seconds


def loader_speeds(args: argparse.Namespace) -> Iterator[tuple[str, dict[str, float]]]:
    """The row of each loader."""
    in_range(1, images=args.images)
    cv2.setNumThreads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        write_photographs(Path(folder), args.images)
        augment = Compose([RandomResizedCrop(args.size), RandomHorizontalFlip(), ToTensor()])
        files = DataLoader(datasets.ImageFolder(folder, augment), args.batch)
        stream = CINC(
            ImageFolder(folder, args.size),
            severity=args.severity,
            each=-(-args.images // len(CORRUPTIONS)),
            batch_size=args.batch,
            num_workers=0,
        )
        assert stream.images is not None
        index = torch.arange(stream.images).split(args.batch)
        clean = [stream.clean(part) for part in index]
        jobs: dict[str, Job] = {
            "torchvision's loader": lambda: [None for _ in files],
            "decode and crop": lambda: [stream.clean(part) for part in index],
            "corrupt, JPEG": lambda: [
                stream.corrupted(batch._replace(images=batch.images.clone())) for batch in clean
            ],
            "Holdfast's loader": lambda: [None for _ in stream.test_dataloader()],
        }
        found = seconds(jobs, torch.device("cpu"), args.rounds)
    for name, time in found.items():
        count = args.images if name.startswith("torchvision") else stream.images
        yield name, {"images_per_second": round(count / time, 1)}
    parts, whole = (found["decode and crop"], found["corrupt, JPEG"]), found["Holdfast's loader"]
    yield "Holdfast / both parts", {"ratio": round(sum(parts) / whole, 2)}
    yield "Holdfast / slower part", {"ratio": round(max(parts) / whole, 2)}


def write_photographs(folder: Path, count: int) -> None:
    """Write JPEGs of 500 x 375 pixels in two classes."""
    for number, image in enumerate(photographs(count, 375, 500)):
        place = folder / f"class{number % 2}"
        place.mkdir(exist_ok=True)
        write_jpeg(image, str(place / f"{number}.jpg"), quality=90)
