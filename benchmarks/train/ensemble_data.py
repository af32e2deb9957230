"""The images of an ensemble: training data, validation data, and shifts."""

from typing import Any, NamedTuple

import torch
from jsonargparse import ArgumentParser
from torch import Tensor, nn

from ... import HoldfastError, datamodules
from ...datamodules import ImageSource, Stream
from ...datamodules.counter import mix, permuted
from ...datamodules.sources.image_source import UNREAD
from ..run.cli_errors import is_choice, parser_errors_explained
from ..suites.variants import expanded, merged
from .members import logits_of

PIECE = 512  # number of images loaded at a time


class Images(NamedTuple):
    """uint8 [n,3,H,W], labels int64 [n], and their positions."""

    images: Tensor
    labels: Tensor
    ids: Tensor


class Data(NamedTuple):
    """The training and evaluation data of the ensembles of one seed."""

    train: Images
    validation: Images
    shifts: dict[str, Images]
    classes: int


def built(kind: type, config: dict[str, Any] | str) -> Any:
    """Construct a source or stream from its class path and arguments, as in `holdfast test`."""
    name = config.get("class_path") if isinstance(config, dict) else config
    names = [n for n in datamodules.__all__ if is_choice(getattr(datamodules, n), kind)]
    if not isinstance(name, str) or ("." not in name and name not in names):
        raise HoldfastError(f"class_path {name!r} is unknown. Choose one of {', '.join(names)}.")
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--data", type=kind)
    with parser_errors_explained():
        return parser.instantiate_classes(parser.parse_object({"data": config})).data


def split(config: dict[str, Any], seed: int) -> tuple[Images, int]:
    """Load `images` images of a source, starting at `first` in an order given by the seed; and its classes.

    Entries of one source with different positions are thus disjoint, and each seed divides a finite source
    differently.
    """
    source: ImageSource = built(ImageSource, config["source"])
    first, count = config.get("first", 0), config.get("images")
    size = len(source)
    count = size - first if count is None else count
    if not 0 < count <= size - first:
        raise HoldfastError(
            f"images={count} with first={first} exceeds the {size} images of {source!r}. Choose fewer, or "
            "remove `images` to use all."
        )
    index = permuted(torch.arange(first, first + count), size, 5, seed)
    pieces = [source.load(part, mix(seed, part)) for part in index.split(PIECE)]
    images, labels = (torch.cat(parts) for parts in zip(*pieces, strict=True))
    return Images(images, labels, index), source.classes


def shifted(config: dict[str, Any], seed: int) -> Images:
    """All images of a stream with this seed, in order."""
    config = {key: value for key, value in config.items() if key != "setting"}
    stream: Stream = built(Stream, merged(config, {"init_args": {"seed": seed}}))
    if stream.images is None:
        raise HoldfastError(f"{type(stream).__name__} is endless. Set images or epochs.")
    found = [stream.batch(part) for part in torch.arange(stream.images).split(PIECE)]
    images = torch.cat([(batch.images * 255).round().to(torch.uint8) for batch in found])
    labels = torch.cat([batch.labels for batch in found])
    if labels.ndim > 1:
        raise HoldfastError(
            "Agreement needs one label per image. Choose data with a single class per image."
        )
    return Images(images, labels, torch.cat([batch.index for batch in found]))


def load_data(config: dict[str, Any], seed: int) -> Data:
    """Load and corrupt the images of an ensemble's `data` once."""
    train, classes = split(config["train"], seed)
    validation, _ = split(config["validation"], seed)
    shifts = {variant.name: shifted(variant.config, seed) for variant in expanded(config["shifts"])}
    return Data(readable(train), readable(validation), shifts, classes)


def readable(data: Images) -> Images:
    """The images without those that could not be read."""
    kept = data.labels != UNREAD
    return Images(*(tensor[kept] for tensor in data))


def features(base: nn.Module, data: Data) -> tuple[dict[str, Tensor], float]:
    """Features [n,D] of all images, scaled so that the training features have a mean square of 1."""
    sets = {"train": data.train, "validation": data.validation, **data.shifts}
    found = {name: logits_of(base, own.images) for name, own in sets.items()}
    scale = float(found["train"].square().mean().sqrt()) or 1.0
    return {name: own / scale for name, own in found.items()}, scale
