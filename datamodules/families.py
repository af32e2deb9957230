"""Data sets in folders for ImageNet models: a table, and the meaning of their class folders."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from .. import HoldfastError
from ..imagenet import synsets
from .calibration import ASSETS

# The class numbers that count as right under a class folder's name; None if it is no class folder.
ClassNumbers = Callable[[str], list[int] | None]


class Family(NamedTuple):
    """The layout of a family's folder: SET/.../CLASS/IMAGE, and its number of sets."""

    sets: int
    folders: Literal["synsets", "numbers", "mapping", "outside"]  # of the classes
    origin: str
    border: int = 0  # pixels around each image that do not belong to it
    parts: tuple[str, ...] = ()  # its sets, where its folder has others besides


EXAMPLES = {"synsets": "n01440764", "numbers": "0", "mapping": "CLASS", "outside": "CLASS"}
FAMILIES = {
    "imagenet-c": Family(75, "synsets", "https://zenodo.org/records/2235448"),
    # 64 pixels, 200 of ImageNet's classes: give size=64.
    "tiny-imagenet-c": Family(75, "synsets", "https://zenodo.org/records/2536630"),
    "imagenet-c-bar": Family(
        50, "synsets", "https://github.com/facebookresearch/augmentation-corruption"
    ),
    "imagenet-3dcc": Family(60, "synsets", "https://github.com/EPFL-VILAB/3DCommonCorruptions"),
    "imagenet-v2": Family(3, "numbers", "https://huggingface.co/datasets/vaishaal/ImageNetV2"),
    "imagenet-r": Family(1, "synsets", "https://github.com/hendrycks/imagenet-r"),
    "imagenet-a": Family(1, "synsets", "https://github.com/hendrycks/natural-adv-examples"),
    "imagenet-sketch": Family(1, "synsets", "https://github.com/HaohanWang/ImageNet-Sketch"),
    # DomainNet's six domains: 181 of its folders stand for 164 groups of ImageNet classes.
    "imagenet-d": Family(6, "mapping", "https://ai.bu.edu/M3SDA"),
    # Its 112 folders that stand for a single ImageNet class each: 109 classes.
    "imagenet-d109": Family(6, "mapping", "https://ai.bu.edu/M3SDA"),
    # 126 classes of DomainNet, numbered as in the official lists: for a network with as many logits.
    "domainnet-126": Family(
        4, "mapping", "https://ai.bu.edu/M3SDA", parts=("clipart", "painting", "real", "sketch")
    ),
    "stylized": Family(1, "synsets", "https://github.com/rgeirhos/Stylized-ImageNet"),
    # 113 of its 313 folders; each image has a red frame of one pixel, official loaders cut two.
    "objectnet": Family(1, "mapping", "https://objectnet.dev", border=2),
    # Classes that ImageNet lacks, so every prediction is wrong: the folder NINCO_OOD_classes.
    "ninco": Family(1, "outside", "https://zenodo.org/records/8013288"),
    # Published without folders: save an image with labels 0 and 391 as 0_391/NAME.png.
    "imagenet-hard": Family(1, "numbers", "https://huggingface.co/datasets/taesiri/imagenet-hard"),
    "cartoon-drawing": Family(2, "synsets", "https://zenodo.org/records/6801109"),
    "bg-challenge": Family(8, "mapping", "https://github.com/MadryLab/backgrounds_challenge"),
    "imagenet-patch": Family(10, "synsets", "https://zenodo.org/records/6568778"),
    "imagenet-c-patch": Family(75, "synsets", "https://zenodo.org/records/7378906"),
    # The three held-out obfuscations, saved from TensorFlow's format into folders.
    "obfuscations": Family(
        3, "synsets", "https://github.com/google-deepmind/image_obfuscation_benchmark"
    ),
}


def class_numbers(name: str, mapping: str | None) -> ClassNumbers:
    """The classes of a family's class folders; `mapping` is a JSON file that replaces the embedded one."""
    kind, classes = FAMILIES[name].folders, synsets()
    if mapping is not None or kind == "mapping":
        return from_mapping(name, mapping)
    if kind == "outside":
        return lambda folder: [len(classes)]
    if kind == "synsets":
        return lambda folder: [classes[folder]] if folder in classes else None

    def numbers(folder: str) -> list[int] | None:  # '0_391' means [0, 391]
        words = folder.split("_")
        valid = all(word.isdecimal() and int(word) < len(classes) for word in words)
        return [int(word) for word in words] if valid else None

    return numbers


def from_mapping(name: str, mapping: str | None) -> ClassNumbers:
    """The embedded mapping of a family, or a JSON file: {CLASS FOLDER: [synsets]}, or in_to_in9.json.

    The latter is {class number: number with which its folder's name begins, or -1}; a list contains
    the class folders of a family with its own classes. ImageNet-D's mapping is that of Rusak et al.
    2022 (bethgelab/robustness, examples/imagenet_d), ObjectNet's the one that comes with it
    (mappings/objectnet_to_imagenet_1k.json).

    Raises HoldfastError if it is no such mapping.
    """
    path = ASSETS / f"classes-{name}.json" if mapping is None else Path(mapping)
    wanted = '{"CLASS FOLDER": ["n01440764", ...], ...}'
    if not path.is_file():
        hint = f"in_to_in9.json from {FAMILIES[name].origin}" if name == "bg-challenge" else wanted
        place = "" if mapping is None else f", and there is no file {mapping}"
        raise HoldfastError(
            f"The class folders of {name} are not named by synset{place}. Pass mapping=FILE, a "
            f"JSON file: {hint}."
        )
    try:
        table = json.loads(path.read_text())
        if isinstance(table, list) and mapping is None:
            table = {folder: [number] for number, folder in enumerate(table)}
        elif all(isinstance(group, int) for group in table.values()):
            groups: dict[str, list[int]] = {}
            for number, group in table.items():
                groups.setdefault(f"{group:02}", []).append(int(number))
            return lambda folder: groups.get(folder.partition("_")[0])
        else:
            table = {folder: [synsets()[s] for s in group] for folder, group in table.items()}
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        raise HoldfastError(
            f"{path} is not a mapping of class folders, {wanted} ({type(error).__name__}: {error})."
        ) from None
    return table.get
