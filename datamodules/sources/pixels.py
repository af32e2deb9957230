"""Images as 8-bit PIL images, whatever they were, and the part of them that is shown."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import functional as TF

from ... import HoldfastError
from ...preprocessing import Preprocessing

FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "PPM", "TIFF", "GIF")  # Pillow gives EPS to Ghostscript
_CHANNELS = (1, 2, 3, 4)


def as_pil(image: Image.Image | Tensor | np.ndarray) -> Image.Image:
    """Any 8-bit or [0,1] image as PIL RGB. Raises HoldfastError if it is neither."""
    if isinstance(image, Image.Image):
        if image.mode[0] in "IF":  # Pillow would cut off what exceeds 255
            raise HoldfastError(f"the image is of Pillow's mode {image.mode}, not of 8 bits")
        return image.convert("RGB")
    if not isinstance(image, (Tensor, np.ndarray)):
        raise HoldfastError(
            f"An image of the data set is a {type(image).__name__}. Return a PIL image, "
            "a tensor or an array."
        )
    pixels = _channels_first(image)
    if pixels.is_floating_point():
        if not (pixels.min() >= 0 and pixels.max() <= 1):  # which is false for NaN
            raise HoldfastError(
                "Float images must be in [0,1], without NaN. Remove the normalisation."
            )
        pixels = (pixels * 255).round().to(torch.uint8)
    if pixels.dtype != torch.uint8:
        raise HoldfastError(f"Images must be uint8 or floats in [0,1], not {pixels.dtype}.")
    return TF.to_pil_image(pixels).convert("RGB")


def _channels_first(image: Tensor | np.ndarray) -> Tensor:
    """An image [H,W], [C,H,W] or [H,W,C] as [C,H,W]; of both, tensors are the former, arrays the latter.

    Raises HoldfastError if it is none of these.
    """
    shape = tuple(image.shape)
    try:
        pixels = torch.as_tensor(image)
    except TypeError as error:  # of an array of objects or words
        raise HoldfastError(f"Images must be uint8 or floats in [0,1] ({error}).") from error
    if pixels.ndim == 2:
        return pixels[None]
    first, last = (pixels.ndim == 3 and shape[axis] in _CHANNELS for axis in (0, -1))
    if not first and not last:
        raise HoldfastError(f"An image has the shape {list(shape)}, not [C,H,W] or [H,W,C].")
    channels_last = last and not (first and isinstance(image, Tensor))
    return pixels.permute(2, 0, 1) if channels_last else pixels


def random_box(width: int, height: int, numbers: Sequence[float]) -> tuple[int, int, int, int]:
    """RandomResizedCrop's (left, top, width, height): area 8 % to 100 %, ratio 3/4 to 4/3."""
    for area, ratio, x, y in zip(*[iter(numbers)] * 4, strict=True):
        pixels = (0.08 + 0.92 * area) * width * height
        aspect = math.exp((2 * ratio - 1) * math.log(4 / 3))
        w, h = round(math.sqrt(pixels * aspect)), round(math.sqrt(pixels / aspect))
        if 0 < w <= width and 0 < h <= height:
            return int(x * (width - w + 1)), int(y * (height - h + 1)), w, h
    w, h = min(width, round(height * 4 / 3)), min(height, round(width * 4 / 3))
    return (width - w) // 2, (height - h) // 2, w, h


def centred(image: Any, preprocessing: Preprocessing) -> Any:
    """A PIL image or a tensor [3,H,W], resized and cropped as the evaluation of some weights has it."""
    size, resize = preprocessing.size, preprocessing.resize
    width, height = TF.get_image_size(image)
    if preprocessing.side == "shortest":
        sides = [resize]
    elif preprocessing.side == "squash":
        sides = [resize, resize]
    else:
        sides = [round(side * resize / max(width, height)) for side in (height, width)]
    image = TF.resize(image, sides, TF.InterpolationMode(preprocessing.interpolation))
    if preprocessing.side == "longest":
        missing = [max(0, size - side) for side in TF.get_image_size(image)]
        before, after = [n // 2 for n in missing], [(n + 1) // 2 for n in missing]
        image = TF.pad(image, before + after, fill=preprocessing.fill)
    return TF.center_crop(image, [size])
