"""Weather, on images x [B,3,H,W]: snow, frost, fog, spatter, and brightness (see `noise.py`)."""

from functools import lru_cache
from importlib.metadata import distribution
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor

from ...tensors import on_device
from .blur import streak, zoom_out
from .image import from_threshold, read, smooth, warp
from .random import Rng

_TEXTURES = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")
_WATER = (175 / 255, 238 / 255, 238 / 255)
_MUD = (63 / 255, 42 / 255, 20 / 255)


def brightness(x: Tensor, rng: Rng, added: float) -> Tensor:
    """V + added in HSV, at most 1: every channel times V' / V, and V' itself where V is 0."""
    value = x.amax(1, keepdim=True)
    brighter = value.add(added).clamp_(max=1)
    return torch.where(value > 0, x * (brighter / value), brighter)


def fog(x: Tensor, rng: Rng, strength: float, decay: float) -> Tensor:
    """(x + strength f) m / (m + strength), f a plasma fractal in [0,1], m the largest of x."""
    height, width = x.shape[-2:]
    size = max(2, 1 << (max(height, width) - 1).bit_length())
    field = plasma(x.new_zeros(len(x), size, size), rng, decay)[:, None, :height, :width]
    largest = x.amax((1, 2, 3), keepdim=True)
    return (x + field * strength) * (largest / (largest + strength))


def plasma(heights: Tensor, rng: Rng, decay: float) -> Tensor:
    """Fill zeros [B,n,n], n a power of two, with diamond-square landscapes scaled to [0,1].

    Each new point is the mean of its four neighbours + r^2 U(-1, 1), on a torus; the roughness r
    starts at 100 and is divided by `decay` from level to level.
    """
    step, roughness = heights.shape[-1], 100.0
    while step >= 2:
        half, count, wobble = step // 2, heights.shape[-1] // step, roughness**2
        centre, upper, left = rng.uniforms(3, -wobble, wobble, count, count)
        corners = heights[:, ::step, ::step]
        sides = corners + corners.roll(-1, 1)
        centre = (sides + sides.roll(-1, 2)).mul_(0.25).add_(centre)
        upper = (centre + centre.roll(1, 1) + (corners + corners.roll(-1, 2))).mul_(0.25) + upper
        left = (centre + centre.roll(1, 2) + sides).mul_(0.25).add_(left)
        heights[:, half::step, half::step] = centre
        heights[:, ::step, half::step] = upper
        heights[:, half::step, ::step] = left
        step, roughness = half, roughness / decay
    heights -= heights.amin((1, 2), keepdim=True)
    return heights.div_(heights.amax((1, 2), keepdim=True))


def frost(x: Tensor, rng: Rng, keep: float, weight: float, scale: float) -> Tensor:
    """keep x + weight t, t a random piece of one of five photographs of frost.

    Six come with imagecorruptions; the reference draws from the first five. A photograph that is
    too small is enlarged to 1.1 times what is needed.
    """
    height, width = x.shape[-2:]
    draws = rng.for_host().halves(3).tolist()
    out = x * keep
    for image, (which, down, right) in zip(out, draws, strict=True):
        texture = _frost(which * len(_TEXTURES) >> 16, scale, height, width, x.device)
        top = down * max(texture.shape[1] - height, 1) >> 16
        left = right * max(texture.shape[2] - width, 1) >> 16
        piece = texture[:, top : top + height, left : left + width]
        image += piece * (weight / 255)
    return out


@lru_cache(maxsize=32)
def _frost(which: int, scale: float, height: int, width: int, device: torch.device) -> Tensor:
    """A frost photograph as RGB [3,h,w] of grey levels, h >= height and w >= width."""
    # The wheel's files are found without importing it: that needs setuptools < 82.
    file = f"imagecorruptions/frost/{_TEXTURES[which]}"
    texture = read(Path(str(distribution("imagecorruptions").locate_file(file))))
    if scale != 1:
        texture = cv2.resize(texture, (0, 0), fx=scale, fy=scale)
    missing = max(height / texture.shape[0], width / texture.shape[1])
    if missing > 1:
        texture = cv2.resize(
            texture, (0, 0), fx=1.1 * missing, fy=1.1 * missing, interpolation=cv2.INTER_CUBIC
        )
    planes = np.ascontiguousarray(texture.transpose(2, 0, 1))
    return torch.from_numpy(planes).to(device, torch.float32)


def snow(x: Tensor, rng: Rng, *row: float) -> Tensor:
    """keep x + (1 - keep) max(x, 1.5 grey + 0.5) + flakes + flakes turned by 180 degrees.

    Flakes are zoomed normal noise above a threshold, blurred along U(-135, -45) degrees, in 8 bits.
    """
    mean, std, factor, threshold, radius, sigma, keep = row
    height, width = x.shape[-2:]
    flakes = rng.normal(1, height, width).mul_(std).add_(mean)
    flakes = warp(flakes, zoom_out(height, width, factor))
    flakes = from_threshold(flakes, threshold).clamp_(0, 1)
    flakes = streak(flakes, rng.for_host().uniform(-135, -45, 1), radius, sigma)
    flakes = flakes.mul_(255).round_().div_(255)
    red, green, blue = x.split(1, dim=1)
    grey = 0.299 * red + 0.587 * green + 0.114 * blue
    whiter = torch.maximum(x, grey.mul_(1.5).add_(0.5))
    return (x * keep).add_(whiter.mul_(1 - keep)).add_(flakes + flakes.flip(2, 3))


def spatter(x: Tensor, rng: Rng, *row: float) -> Tensor:
    """Drops of water (added, pale turquoise) or splashes of mud (blended in, brown).

    Both grow where smoothed normal noise exceeds a threshold. Mud is a switch, which is on at 0.5 and
    above. Water needs edge and distance transforms, which torch lacks: OpenCV makes its layer.
    """
    mean, std, sigma, threshold, strength, mud = row
    liquid = smooth(rng.normal(1, *x.shape[-2:]).mul_(std).add_(mean), sigma)
    liquid = from_threshold(liquid, threshold)
    if mud >= 0.5:
        amount = smooth((liquid > threshold).to(x.dtype), strength)
        amount = from_threshold(amount, 0.8)
        return x * (1 - amount) + amount * x.new_tensor(_MUD).view(3, 1, 1)
    drops = np.stack([_drops(layer) for layer in liquid[:, 0].cpu().numpy()])
    amount = on_device(torch.from_numpy(drops), x.device)[:, None] * strength
    return x + amount * x.new_tensor(_WATER).view(3, 1, 1)


def _drops(liquid: np.ndarray) -> np.ndarray:
    """The liquid layer [H,W] shaded by the distance from its edges and embossed, at most 1."""
    liquid = (liquid * 255).astype(np.uint8)
    distance = cv2.distanceTransform(255 - cv2.Canny(liquid, 50, 150), cv2.DIST_L2, 5)
    distance = cv2.blur(np.minimum(distance, 20), (3, 3)).astype(np.uint8)
    distance = cv2.equalizeHist(distance)
    emboss = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
    distance = cv2.blur(cv2.filter2D(distance, cv2.CV_8U, emboss), (3, 3)).astype(np.float32)
    shaded = liquid * distance
    # A layer without any drop is 0 / 0 in the reference; here it adds nothing.
    return shaded / max(shaded.max(), 1)
