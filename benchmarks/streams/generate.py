"""`holdfast generate`: write a CCC stream as tar shards in the official layout, resumable."""

import argparse
import io
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import torch
from PIL import Image
from tqdm import tqdm

from ... import HoldfastError, in_range
from ...datamodules import CCC, Calibration
from ...datamodules.corruptions.parameters import TABLES
from ...datamodules.paths import Search
from ...datamodules.sources import tar
from ...datamodules.sources.named import open_source
from ...endings import when_parent_ends
from ...files import PARTIAL, jsonable, locked, read_json, write_json, written
from ..common_options import add_protocol, add_share, add_source, command_parser, difficulty
from . import memory_in_a_sentence

_PIECE = 64  # number of images corrupted together


def _samples(stream: CCC, quality: int, first: int, last: int) -> Iterator[tar.Sample]:
    """The samples that the official generator stores for these positions of the stream."""
    pairs = list(islice(stream.severity_pairs(), -(-last // stream.speed)))
    for start in range(first, last, _PIECE):
        batch = stream.batch(torch.arange(start, min(start + _PIECE, last)))
        pixels = batch.images.mul(255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
        shown = stream.source_index(batch.index, batch.segment)
        parts = (part.tolist() for part in (batch.labels, shown, batch.segment))
        for image, label, source_index, number in zip(pixels, *parts, strict=True):
            text = tar.info(*stream.source.name(source_index), pairs[number])
            buffer = io.BytesIO()
            Image.fromarray(image).save(buffer, "JPEG", quality=quality, optimize=True)
            yield tar.Sample(text, buffer.getvalue(), label)


def _complete(path: Path, size: int) -> bool:
    """Whether the shard exists and has all its samples."""
    try:
        return path.exists() and bool(tar.Shard(path, size))
    except HoldfastError:
        return False


def _write_missing(stream: CCC, quality: int, folder: Path, size: int, number: int) -> bool:
    """Write a shard if it is missing or damaged; returns whether it was written."""
    path = folder / tar.shard_name(number)
    with written(path), locked(path):
        for stale in path.parent.glob(f"{path.name}.*{PARTIAL}"):  # of a killed process
            stale.unlink()
        if _complete(path, size):
            return False
        tar.write_shard(path, _samples(stream, quality, number * size, (number + 1) * size))
    return True


def _begin() -> None:
    """Prepare a process that writes shards: it has one core, and ends with its parent."""
    torch.set_num_threads(1)
    when_parent_ends(lambda: os._exit(1))


def parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, "generate --source glyphs --calibration glyphs --out shards")
    add = parser.add_argument
    add_source(parser)
    add_protocol(parser, crop="random", quality=85)
    add("--calibration", required=True, help="name or file of a calibration")
    default = "(default: the calibration's, or medium)"
    add("--difficulty", type=difficulty, help=f"easy, medium, hard or percent {default}")
    add(
        "--search",
        choices=get_args(Search),
        default="published",
        help="as in CCC (default: published)",
    )
    add("--speed", type=int, default=1000, help="images per severity step (default: 1000)")
    add("--seed", type=int, default=43)
    add("--images", type=int, default=7_500_000, help="minimum number; the last shard is filled")
    add("--corruptions", nargs="+", help="corruptions (default: CCC's)")
    add("--table", default="imagenet", choices=tuple(TABLES))
    add("--out", type=Path, required=True, help="folder of the streams")
    add("--workers", type=int, default=1, help="number of processes (default: 1)")
    add_share(parser, "the files")
    add("--shard-images", type=int, default=tar.SHARD, help="minimum images per file")
    return parser


def main(argv: list[str]) -> int:
    """Write missing and damaged shards."""
    args = parser().parse_args(argv)
    in_range(1, images=args.images, workers=args.workers, shard_images=args.shard_images)
    in_range(1, 100, quality=args.quality)
    pixels = args.size
    if Path(args.source).is_dir() and pixels is None:
        pixels = Calibration.load(args.calibration).provenance.get("size")
    stream = CCC(
        open_source(args.source, pixels, "stream", args.crop, args.labels),
        difficulty=args.difficulty,
        speed=args.speed,
        images=None,
        seed=args.seed,
        calibration=args.calibration,
        corruptions=args.corruptions,
        table=args.table,
        quality=None,
        search=args.search,
    )
    stream.warn_of_difficulty()
    folder = args.out / tar.run_name(stream.target, args.speed, args.seed)
    size = tar.shard_size(args.speed, args.shard_images)
    _record_stream(
        folder / "provenance.json",
        {**stream.identity, "quality": args.quality, "shard_images": size},
    )
    share, shares = args.share
    numbers = range(-(-args.images // size))[share::shares]
    fresh, task = 0, partial(_write_missing, stream, args.quality, folder, size)
    with (
        memory_in_a_sentence("fewer --workers"),
        ProcessPoolExecutor(args.workers, initializer=_begin) as pool,
        tqdm(total=len(numbers) * size, desc="generate", unit="img", unit_scale=True) as bar,
    ):
        for was_missing in (pool.map if args.workers > 1 else map)(task, numbers):
            fresh += was_missing
            bar.update(size)
    print(f"{folder}: {fresh} shards written, {len(numbers) - fresh} complete")
    return 0


def _record_stream(path: Path, facts: dict[str, Any]) -> None:
    """Record the stream of a folder; refuses a folder with shards of a different stream, unchanged."""
    recorded, facts = read_json(path), jsonable(facts)
    if changed := [key for key in recorded.keys() & facts if recorded[key] != facts[key]]:
        raise HoldfastError(
            f"{path.parent} contains shards of a stream with a different {', '.join(sorted(changed))}. "
            "Choose another --out."
        )
    with written(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, facts)
