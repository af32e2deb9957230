"""Image sources by the names that commands take: an embedded data set, or a folder of classes."""

from pathlib import Path
from typing import Any, Literal

from ... import HoldfastError
from ...imagenet import class_folders
from . import ImageSource
from .arrays import Digits
from .folder import ImageFolder, ImageNet, has_synsets
from .glyphs import Glyphs
from .tiny_imagenet import TinyImageNet

_KINDS: tuple[type[ImageSource], ...] = (Digits, Glyphs, ImageFolder, ImageNet, TinyImageNet)
_TINY = "tiny-imagenet:"

Labels = Literal["folders", "numbers", "imagenet"] | None


def source_config(
    name: str,
    size: int | None,
    split: Literal["calibration", "stream"],
    crop: Literal["random", "center"],
    labels: Labels = None,
) -> dict[str, Any]:
    """Class and arguments of a split of "glyphs", "digits" or "tiny-imagenet:FOLDER", or of a folder.

    A folder's size is that of the network by default. Its class folders are numbered in alphabetical order
    ("folders"), by their names ("numbers"; None: if these are numbers) or have the numbers of their synsets
    ("imagenet"; None: if one is named by a synset).

    Raises HoldfastError if a folder has a single class folder, as that usually contains the classes.
    """
    tiny = name.startswith(_TINY)
    if (name in ("digits", "glyphs") or tiny) and labels is not None:
        raise HoldfastError(f"--labels applies to a folder, not to {name}. Leave it out.")
    for kind, of_kind in ((Digits, name == "digits"), (TinyImageNet, tiny)):
        if of_kind and size not in (None, kind.size):
            raise HoldfastError(
                f"--size {size} does not apply to {kind.__name__}, which has {kind.size} pixels. "
                "Leave it out."
            )
    if tiny:
        folder = name.removeprefix(_TINY)
        return {"class_path": "TinyImageNet", "init_args": {"root": folder, "split": split}}
    if name in ("digits", "glyphs"):
        sizes = {} if size is None or name == "digits" else {"size": size}
        return {"class_path": name.capitalize(), "init_args": {"split": split, **sizes}}
    if len(names := class_folders(Path(name))) == 1 and not has_synsets(name):
        raise HoldfastError(
            f"{name} contains the single class folder {names[0]}. Pass the folder that contains "
            f"the classes, such as {Path(name, names[0])}."
        )
    synsets = has_synsets(name) if labels is None else labels == "imagenet"
    arguments: dict[str, Any] = {"root": name, "size": size, "crop": crop}
    if synsets:
        return {"class_path": "ImageNet", "init_args": arguments}
    return {"class_path": "ImageFolder", "init_args": {**arguments, "labels": labels}}


def open_source(
    name: str,
    size: int | None,
    split: Literal["calibration", "stream"],
    crop: Literal["random", "center"],
    labels: Labels = None,
) -> ImageSource:
    """The source that `source_config` describes."""
    config = source_config(name, size, split, crop, labels)
    (kind,) = (kind for kind in _KINDS if kind.__name__ == config["class_path"])
    return kind(**config["init_args"])
