"""The preprocessing of the libraries' weights, as their own evaluation has it."""

import math
from typing import Any

from ... import HoldfastError
from ...preprocessing import Preprocessing


def of_torchvision(model: str, enum: Any, tag: str) -> Preprocessing:
    """That of torchvision's weights; without a tag, of the first ones that it published.

    Raises HoldfastError if they are of no classifier of images.
    """
    preset = (enum[tag] if tag else next(iter(enum))).transforms()
    if type(preset).__name__ != "ImageClassification":
        raise HoldfastError(f"torchvision/{model} does not classify images. Choose another model.")
    (size,), (resize,) = preset.crop_size, preset.resize_size
    mean, std = tuple(preset.mean), tuple(preset.std)
    return Preprocessing(size, resize, preset.interpolation.value, mean=mean, std=std)


def of_timm(model: str, config: dict[str, Any]) -> Preprocessing:
    """That of timm's data configuration, as of `timm.data.create_transform(**config)`.

    Raises HoldfastError if it is not for square RGB images.
    """
    channels, height, width = config["input_size"]
    if channels != 3 or height != width:
        raise HoldfastError(
            f"timm/{model} takes images of {channels} x {height} x {width}. Choose a model for square "
            "RGB images."
        )
    mean, std = tuple(config["mean"]), tuple(config["std"])
    side = {"squash": "squash", "border": "longest"}.get(config["crop_mode"], "shortest")
    return Preprocessing(
        height,
        math.floor(height / config["crop_pct"]),
        config["interpolation"],
        side,  # type: ignore[arg-type]
        tuple(round(255 * value) for value in mean),
        mean,
        std,
    )


def of_open_clip(model: Any) -> Preprocessing:
    """That of a model of open_clip, with the activation of its image tower."""
    config = model.visual.preprocess_cfg
    size = config["size"] if isinstance(config["size"], int) else config["size"][0]
    fill = (config.get("fill_color", 0),) * 3
    kinds = {type(layer).__name__ for layer in model.visual.modules()}
    activation = next((kind for kind in ("QuickGELU", "GELU") if kind in kinds), "")
    mean, std = tuple(config["mean"]), tuple(config["std"])
    side, interpolation = config["resize_mode"], config["interpolation"]
    return Preprocessing(size, size, interpolation, side, fill, mean, std, activation)
