"""Images by a name, as commands are given it: an embedded data set, or a folder of classes."""

from pathlib import Path
from typing import Literal

from ... import HoldfastError
from .base import ImageSource
from .digits import Digits
from .folder import Crop, ImageFolder, class_folders
from .glyphs import Glyphs
from .imagenet import ImageNet, has_synsets


def open_source(
    name: str,
    size: int | None,
    split: Literal["calibration", "stream"],
    crop: Literal["random", "center"],
) -> ImageSource:
    """A split of "glyphs" or "digits", or the images of a folder, cropped; None is the usual size."""
    if name == "digits" and size not in (None, Digits.size):
        raise HoldfastError(f"--size {size}: digits have {Digits.size} pixels, leave it out.")
    if name == "digits":
        return Digits(split)
    sizes = {} if size is None else {"size": size}
    return Glyphs(split, **sizes) if name == "glyphs" else open_folder(name, crop=crop, **sizes)


def open_folder(root: str | Path, size: int = 224, crop: Crop = "center") -> ImageFolder:
    """Images under root/CLASS/, with ImageNet's labels if the classes are named by synset.

    Raises HoldfastError if there is one class only, which mostly is a folder of classes itself.
    """
    if len(names := class_folders(Path(root))) == 1 and not has_synsets(root):
        raise HoldfastError(
            f"{root} has the one class folder {names[0]}: name the folder of the classes, such as "
            f"{Path(root, names[0])}."
        )
    return (ImageNet if has_synsets(root) else ImageFolder)(root, size, crop)
