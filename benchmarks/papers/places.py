"""Paths of the full-scale data: those in the suites, and the user's own."""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

from ..suites.cell import Cell


class Place(NamedTuple):
    """A file or folder in suites, and the option that sets the user's path."""

    option: str
    named: str
    help: str


PLACES = (
    Place("imagenet", "imagenet/val", "ImageNet's validation set, in folders named by synset"),
    Place(
        "imagenet-train", "imagenet/train", "ImageNet's training images, in folders named by synset"
    ),
    Place("calibration", "ccc.npz", "CCC's accuracies (holdfast calibrate --official)"),
    Place("imagenet-c", "imagenet-c", "ImageNet-C, as unpacked"),
    Place("imagenet-c-bar", "imagenet-c-bar", "ImageNet-C-bar, as unpacked"),
    Place("imagenet-3dcc", "imagenet-3dcc", "ImageNet-3DCC, as unpacked"),
)
WEIGHTS = (".safetensors", ".pth", ".pth.tar")


def placed(cells: list[Cell], args: argparse.Namespace) -> tuple[list[Cell], list[str]]:
    """The cells with the user's paths, and one line per missing path."""
    given = {p.named: str(getattr(args, p.option.replace("-", "_")) or p.named) for p in PLACES}
    result = [cell._replace(config=replaced(cell.config, given)) for cell in cells]
    texts = dict.fromkeys(text for cell in result for text in strings(cell.config))
    lacking = [
        f"{given[place.named]} not found. Pass --{place.option} PATH ({place.help})."
        for place in PLACES
        if given[place.named] in texts and not Path(given[place.named]).exists()
    ]
    weights = dict.fromkeys(text.rpartition(":")[2] for text in texts if text.endswith(WEIGHTS))
    return result, lacking + [
        f"{file} not found. See the suite's file for the origin of these weights."
        for file in weights
        if not Path(file).exists()
    ]


def replaced(config: Any, given: dict[str, str]) -> Any:
    """A copy of the configuration in which whole strings are replaced."""
    if isinstance(config, dict):
        return {key: replaced(value, given) for key, value in config.items()}
    if isinstance(config, list):
        return [replaced(value, given) for value in config]
    return given.get(config, config) if isinstance(config, str) else config


def strings(config: Any) -> list[str]:
    """All strings in a configuration."""
    if isinstance(config, dict):
        return [text for value in config.values() for text in strings(value)]
    if isinstance(config, list):
        return [text for value in config for text in strings(value)]
    return [config] if isinstance(config, str) else []
