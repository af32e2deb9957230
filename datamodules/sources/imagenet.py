"""ImageNet's classes, and images of them from folders named by synset."""

from pathlib import Path

from ... import HoldfastError
from ...imagenet import synsets
from .base import Broken, Crop, ImageFolder, class_folders


class ImageNet(ImageFolder):
    """Images under root/SYNSET/, of some or all of the 1,000 classes, with ImageNet's labels.

    The validation set comes from https://image-net.org as one folder of 50,000 files; sort it into
    folders named by synset.
    """

    def __init__(
        self,
        root: str | Path,
        size: int = 224,
        crop: Crop = "center",
        broken: Broken = "refuse",
    ) -> None:
        strangers = [name for name in class_folders(Path(root)) if name not in synsets()]
        if not has_synsets(root):
            raise HoldfastError(
                f"{root} is no folder of ImageNet classes: expected files like "
                f"{root}/n01440764/NAME.JPEG (from https://image-net.org, sorted by synset)."
            )
        if strangers:
            raise HoldfastError(f"{Path(root, strangers[0])} is no class of ImageNet: remove it.")
        super().__init__(root, size, crop, broken, synsets())


def has_synsets(root: str | Path) -> bool:
    """Whether some folder in `root` is named by an ImageNet synset."""
    return any(name in synsets() for name in class_folders(Path(root)))


def open_folder(root: str | Path, size: int, crop: Crop) -> ImageFolder:
    """Images under root/CLASS/, with ImageNet's labels if the classes are named by synset.

    Raises HoldfastError if there is one class only, which mostly is a folder of classes itself.
    """
    if len(names := class_folders(Path(root))) == 1 and not has_synsets(root):
        raise HoldfastError(
            f"{root} has the one class folder {names[0]}: name the folder of the classes, such as "
            f"{Path(root, names[0])}."
        )
    return (ImageNet if has_synsets(root) else ImageFolder)(root, size, crop)
