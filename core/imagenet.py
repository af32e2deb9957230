"""ImageNet's classes and the corruptions of its data sets; importing this loads nothing."""

from functools import cache
from importlib.metadata import distribution
from pathlib import Path

DOGS = set(range(152, 269)) - {192, 204, 227, 242, 251, 258, 260, 264}
# The class numbers of 16-class-ImageNet's categories (Geirhos et al. 2018; their code, by synset).
SIXTEEN = {
    "airplane": {404},
    "bear": {294, 295, 296, 297},
    "bicycle": {444, 671},
    "bird": {8, *range(10, 17), 18, 19, 20, 22, 23, 24, 80, 81, 82, 83, *range(87, 97), 98, 99, 100}
    | {*range(127, 134), *range(135, 146)},
    "boat": {472, 554, 625, 814, 914},
    "bottle": {440, 720, 737, 898, 899, 901, 907},
    "car": {436, 511, 817},
    "cat": {281, 282, 283, 284, 285, 286},
    "chair": {423, 559, 765, 857},
    "clock": {409, 530, 892},
    "dog": DOGS,
    "elephant": {385, 386},
    "keyboard": {508, 878},
    "knife": {499},
    "oven": {766},
    "truck": {555, 569, 656, 675, 717, 734, 864, 867},
}
# Their order is the published one, which CoTTA's ten orders count in. A corruption that is added to
# Holdfast belongs to none of them.
FAMILIES = {
    "imagenet-c": (
        *("gaussian_noise", "shot_noise", "impulse_noise"),
        *("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
        *("snow", "frost", "fog", "brightness"),
        *("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
    ),
    "imagenet-c-holdout": ("speckle_noise", "gaussian_blur", "spatter", "saturate"),
    "imagenet-c-bar": (
        *("blue_noise_sample", "brownish_noise", "caustic_refraction", "checkerboard_cutout"),
        *("cocentric_sine_waves", "inverse_sparkles", "perlin_noise", "plasma_noise"),
        *("single_frequency_greyscale", "sparkles"),
    ),
    "imagenet-3dcc": (
        *("near_focus", "far_focus", "fog_3d", "flash", "color_quant", "low_light"),
        *("xy_motion_blur", "z_motion_blur", "iso_noise", "bit_error", "h265_abr", "h265_crf"),
    ),
}
CORRUPTIONS, EXTRA = FAMILIES["imagenet-c"], FAMILIES["imagenet-c-holdout"]


@cache
def synsets(subset: str = "imagenet") -> dict[str, int]:
    """The synsets of ImageNet's 1,000 classes, or of "imagenet-a" or "imagenet-r", numbered in order."""
    name = f"timm/data/_info/{subset.replace('-', '_')}_synsets.txt"
    names = Path(str(distribution("timm").locate_file(name))).read_text(encoding="utf-8").split()
    return {synset: number for number, synset in enumerate(names)}


def sixteen_groups() -> list[int]:
    """The category number (0 to 15) of each of ImageNet's 1,000 classes; -1 for a class without
    one."""
    groups = [-1] * 1000
    for number, classes in enumerate(SIXTEEN.values()):
        for k in classes:
            groups[k] = number
    return groups
