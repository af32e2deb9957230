"""Class folders, ImageNet's classes and the corruptions of its data sets; importing this loads nothing."""

from functools import cache
from importlib.metadata import distribution
from pathlib import Path

# Their order is the published one, which CoTTA's ten orders count in. A corruption that is added to
# Holdfast belongs to none of them.
_NAMES = {
    "imagenet-c": (
        "gaussian_noise shot_noise impulse_noise defocus_blur glass_blur motion_blur zoom_blur snow frost "
        "fog brightness contrast elastic_transform pixelate jpeg_compression"
    ),
    "imagenet-c-holdout": ("speckle_noise gaussian_blur spatter saturate"),
    "imagenet-c-bar": (
        "blue_noise_sample brownish_noise caustic_refraction checkerboard_cutout cocentric_sine_waves "
        "inverse_sparkles perlin_noise plasma_noise single_frequency_greyscale sparkles"
    ),
    "imagenet-3dcc": (
        "near_focus far_focus fog_3d flash color_quant low_light xy_motion_blur z_motion_blur iso_noise "
        "bit_error h265_abr h265_crf"
    ),
}
FAMILIES = {family: tuple(names.split()) for family, names in _NAMES.items()}
CORRUPTIONS, EXTRA = FAMILIES["imagenet-c"], FAMILIES["imagenet-c-holdout"]


@cache
def synsets(subset: str = "imagenet") -> dict[str, int]:
    """The synsets of ImageNet's 1,000 classes, or of "imagenet-a" or "imagenet-r", numbered in order."""
    name = f"timm/data/_info/{subset.replace('-', '_')}_synsets.txt"
    names = Path(str(distribution("timm").locate_file(name))).read_text(encoding="utf-8").split()
    return {synset: number for number, synset in enumerate(names)}


def no_content(name: str) -> bool:
    """Whether a file or folder of this name is hidden, or made by macOS or a Synology."""
    return name.startswith(".") or name in ("__MACOSX", "@eaDir")


def class_folders(root: Path) -> list[str]:
    """Names of the folders in `root`, sorted, without hidden ones; none if it is no folder."""
    folders = (f.name for f in root.iterdir() if f.is_dir()) if root.is_dir() else ()
    return sorted(name for name in folders if not no_content(name))
