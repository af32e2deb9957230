"""Ensembles of image classifiers: the images of a seed, and base models by name."""

import copy
import json
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, ClassVar

import torch
from jsonargparse import ArgumentError, ArgumentParser
from torch import Tensor, nn
from torchvision.transforms import v2

from ... import HoldfastError
from ...datamodules import ImageSource, Stream
from ...datamodules.counter import mix, permuted
from ...methods.backbones import normalised
from ...methods.backbones.load import find_network
from ..results.predictions import VALIDATION
from ..suites.grid import expanded, merged
from .members import TRAIN, Examples, Task

_PIECE = 512  # number of images loaded at a time
_RANDOM = re.compile(r"relu:(\d+)")


class ImageTask(Task):
    """Classification of images; `inputs` are uint8 [n,3,H,W], the base's name is that of `base_model`."""

    piece, dropout = 256, True
    optimizers: ClassVar = {"scratch": partial(torch.optim.SGD, momentum=0.9)}

    def __init__(self, data: dict[str, Any], base: str, seed: int) -> None:
        self.sets, self.outputs = _image_sets(json.dumps(data), seed)
        self.base = base_model(base)

    def inputs(self, examples: Examples, rows: Tensor) -> Tensor:
        return examples.inputs[rows].float() / 255

    def new_base(self, seed: int) -> nn.Module:
        return reinitialised(self.base, seed)

    def with_head(self, base: nn.Module, head: nn.Module) -> nn.Module:
        return nn.Sequential(base, head)


@lru_cache(maxsize=1)
def _image_sets(config: str, seed: int) -> tuple[dict[str, Examples], int]:
    """All sets of a seed, and the number of classes."""
    data = json.loads(config)
    train, classes = _split(data["train"], seed)
    validation, _ = _split(data["validation"], seed)
    shifts = {v.name: _shifted(v.config, seed) for v in expanded(data["shifts"])}
    return {TRAIN: train, VALIDATION: validation, **shifts}, classes


def _split(config: dict[str, Any], seed: int) -> tuple[Examples, int]:
    """`images` readable images of a source from `first` on, in an order given by the seed; its classes.

    Entries of one source with different positions are thus disjoint, and each seed divides a finite source
    differently.
    """
    source: ImageSource = _built(ImageSource, config["source"])
    first, size = config.get("first", 0), len(source)
    count = config.get("images", size - first)
    if not 0 < count <= size - first:
        raise HoldfastError(
            f"images={count} with first={first} exceeds the {size} images of {source!r}. Choose "
            "fewer, or remove `images` to use all."
        )
    index = permuted(torch.arange(first, first + count), size, 5, seed)
    pieces = [source.load(part, mix(seed, part)) for part in index.split(_PIECE)]
    images, labels = (torch.cat(parts) for parts in zip(*pieces, strict=True))
    return Examples(images, labels, index), source.classes


def _shifted(config: dict[str, Any], seed: int) -> Examples:
    """All images of a stream with this seed, in order."""
    config = {key: value for key, value in config.items() if key != "setting"}
    stream: Stream = _built(Stream, merged(config, {"init_args": {"seed": seed}}))
    if stream.images is None:
        raise HoldfastError(f"{type(stream).__name__} is endless. Set images or epochs.")
    batches = [stream.batch(part) for part in torch.arange(stream.images).split(_PIECE)]
    images = torch.cat([(batch.images * 255).round().to(torch.uint8) for batch in batches])
    labels = torch.cat([batch.labels for batch in batches])
    return Examples(images, labels, torch.cat([batch.index for batch in batches]))


def _built(kind: type, config: dict[str, Any] | str) -> Any:
    """Construct a source or stream from its class path and arguments, as in `holdfast test`."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--data", type=kind)
    try:
        return parser.instantiate_classes(parser.parse_object({"data": config})).data
    except (ArgumentError, ValueError) as error:
        raise HoldfastError(f"data: {' '.join(str(error).split())}") from error


def base_model(name: str) -> nn.Module:
    """A network in eval mode from images [B,3,H,W] in [0,1] to features [B,D].

    Names are "pixels", "relu:COUNT" for random ReLU features, and the names that `find_network` accepts:
    trained weights, or an untrained architecture. timm's weights need no classifier, as OpenCLIP's
    "timm/vit_base_patch32_clip_224.laion2b".
    """
    if name == "pixels":
        return _Pixels()
    if count := _RANDOM.fullmatch(name):
        return _RandomFeatures(int(count[1]))
    if name.startswith("timm/") and "." in name:
        return _timm_features(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # all members share the weights of an untrained architecture
        return features_of(find_network(name)).eval()


class _RandomFeatures(nn.Module):
    """Random ReLU features max(0, W x / sqrt(d)) of standardised pixels x, [B,3,H,W] -> [B,count]."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, images: Tensor) -> Tensor:
        pixels = images.flatten(1)
        pixels = (pixels - pixels.mean(1, keepdim=True)) / (pixels.std(1, keepdim=True) + 1e-3)
        random = torch.Generator().manual_seed(self.count)
        weight = torch.randn(pixels.shape[1], self.count, generator=random).to(pixels)
        return torch.relu(pixels @ weight) / pixels.shape[1] ** 0.5


class _Pixels(nn.Module):
    """The centred pixels as features, [B,3,H,W] -> [B,3HW], as a negative control."""

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) - 0.5


def _timm_features(name: str) -> nn.Module:
    """timm's network without its classifier, with its input size and normalisation."""
    import timm
    from timm.data import resolve_model_data_config

    model, _, file = name.removeprefix("timm/").partition(":")
    overlay = {"file": file} if file else None
    try:
        net = timm.create_model(
            model, pretrained=True, num_classes=0, pretrained_cfg_overlay=overlay
        )
    except Exception as error:  # the libraries below timm raise different kinds of errors
        raise HoldfastError(
            f"Cannot load the weights of {name} ({type(error).__name__}). Download them on another "
            f"machine and pass timm/{model}:FILE."
        ) from error
    config = resolve_model_data_config(net)
    resize = v2.Resize(config["input_size"][1:], v2.InterpolationMode.BICUBIC)
    return nn.Sequential(resize, normalised(net, config["mean"], config["std"])).eval()


def features_of(network: nn.Module) -> nn.Module:
    """A copy of a network without its last linear layer.

    Raises HoldfastError if its last layer with weights is not linear.
    """
    network = copy.deepcopy(network)
    named = network.named_modules()
    *_, (name, last) = ((n, m) for n, m in named if next(m.parameters(False), None) is not None)
    if not isinstance(last, nn.Linear):
        raise HoldfastError(
            f"The last layer of the base model is {type(last).__name__}, not Linear. Choose a model with "
            "a linear classifier or without a classifier."
        )
    network.set_submodule(name, nn.Identity())
    return network


def reinitialised(network: nn.Module, seed: int) -> nn.Module:
    """A copy of a network with new random weights, for training from scratch."""
    network = copy.deepcopy(network)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for module in network.modules():
            reset: Callable[[], None] | None = getattr(module, "reset_parameters", None)
            if reset is not None:
                reset()
    return network
