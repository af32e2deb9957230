"""Where the full scale's data lie: the places that suites name, and those that the user has."""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

from ..suites.cell import Cell


class Place(NamedTuple):
    """A file or folder that suites name, and the option that says where it is."""

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
    """The cells with the user's paths, and a line for each path that is needed and missing."""
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
        f"{file} not found. The suite's file says where these weights come from."
        for file in weights
        if not Path(file).exists()
    ]


def replaced(config: Any, given: dict[str, str]) -> Any:
    """The same with whole texts replaced."""
    if isinstance(config, dict):
        return {key: replaced(value, given) for key, value in config.items()}
    if isinstance(config, list):
        return [replaced(value, given) for value in config]
    return given.get(config, config) if isinstance(config, str) else config


def strings(config: Any) -> list[str]:
    """All texts in a configuration."""
    if isinstance(config, dict):
        return [text for value in config.values() for text in strings(value)]
    if isinstance(config, list):
        return [text for value in config for text in strings(value)]
    return [config] if isinstance(config, str) else []
