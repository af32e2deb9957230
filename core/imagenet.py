"""ImageNet's classes and the corruptions of its data sets; importing this loads nothing."""

import json
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

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


@cache
def sixteen() -> dict[str, list[int]]:
    """The class numbers of 16-class-ImageNet's categories (Geirhos et al. 2018; their code, by synset)."""
    return json.loads((Path(__file__).parent / "sixteen.json").read_text())


def sixteen_groups() -> list[int]:
    """The category number (0 to 15) of each of ImageNet's 1,000 classes; -1 for a class without one."""
    number = {k: n for n, classes in enumerate(sixteen().values()) for k in classes}
    return [number.get(k, -1) for k in range(1000)]
