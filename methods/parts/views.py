"""CoTTA's random views of images [B,3,H,W] in [0,1]; RoTTA and ROID use them, too."""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import torch
from torch import Generator, Tensor
from torch.nn.functional import affine_grid, grid_sample
from torchvision.transforms.v2 import functional as tv

from ...tensors import on_device
from ..functional import seeded

_BLUR_RADIUS = 2
_DRAWS = 12  # random numbers for the jitter of one image
Adjust = Callable[[Tensor, float], Tensor]


def _adjust_gamma(images: Tensor, gamma: float) -> Tensor:
    """images^gamma, with values kept above zero, where the slope is infinite."""
    return images.clamp(1e-8, 1) ** gamma


_COTTA: tuple[tuple[Adjust, float, float], ...] = (
    (tv.adjust_brightness, 0.6, 1.4),
    (tv.adjust_contrast, 0.7, 1.3),
    (tv.adjust_saturation, 0.5, 1.5),
    (tv.adjust_hue, -0.06, 0.06),
    (_adjust_gamma, 0.7, 1.3),
)
_ADACONTRAST: tuple[tuple[Adjust, float, float], ...] = (
    (tv.adjust_brightness, 0.6, 1.4),
    (tv.adjust_contrast, 0.6, 1.4),
    (tv.adjust_saturation, 0.6, 1.4),
    (tv.adjust_hue, -0.1, 0.1),
)


def random_view(images: Tensor, generator: Generator, degrade: bool = True) -> Tensor:
    """Jitter, shift, blur, random flip, and noise; all but the noise are drawn once for all images.

    degrade: False leaves out blur and noise, as ROID does.
    """
    draws = iter(host_draws(generator, 16).tolist())
    view = images.clamp(0, 1)
    for adjust, amount in _jitter(_COTTA, draws):
        view = adjust(view, amount)
    # CoTTA's shift is a share of the image after it was padded to twice its size.
    shift = [round(_uniform(draws, -s / 8, s / 8)) for s in (view.shape[3], view.shape[2])]
    margin = _BLUR_RADIUS if degrade else 0
    view = move(view, _uniform(draws, -15, 15), shift, _uniform(draws, 0.9, 1.1), margin)
    sigma = _uniform(draws, 0.001, 0.5)
    view = blur(view, sigma) if degrade else view
    flipped = next(draws) < 0.5
    view = view.flip(3) if flipped else view
    if not degrade:
        return view.clamp(0, 1)
    noise = torch.randn(view.shape, generator=generator, device=view.device, dtype=view.dtype)
    return (view + 0.005 * noise).clamp(0, 1)


def _uniform(draws: Iterator[float], low: float, high: float) -> float:
    """The next random number in [low, high)."""
    return low + (high - low) * next(draws)


def _jitter(
    ranges: Iterable[tuple[Adjust, float, float]], draws: Iterator[float]
) -> list[tuple[Adjust, float]]:
    """The adjustments with random amounts, in random order."""
    amounts = [(adjust, _uniform(draws, low, high)) for adjust, low, high in ranges]
    return sorted(amounts, key=lambda _: next(draws))


def host_draws(generator: Generator, *shape: int) -> Tensor:
    """Random numbers in [0,1) on the host; an accelerator's generator only seeds them."""
    if generator.device.type != "cpu":
        key = generator.get_state().numpy().tobytes().hex()
        torch.rand(1, generator=generator, device=generator.device)  # others next time
        generator = seeded(key, torch.device("cpu"))
    return torch.rand(shape, generator=generator)


def move(images: Tensor, degrees: float, shift: list[int], scale: float, margin: int = 0) -> Tensor:
    """Rotate about the centre, scale, then shift by (x, y) pixels; edge pixels are repeated.

    The result has `margin` more pixels on each side, which a following filter removes.
    """
    height, width = images.shape[2:]
    cos = math.cos(math.radians(degrees)) / scale
    sin = math.sin(math.radians(degrees)) / scale
    # From output to input, in units of half an image; the shift is undone first.
    tall, wide = 1 + 2 * margin / height, 1 + 2 * margin / width
    x, y = -2 * shift[0] / width, -2 * shift[1] / height
    skew = height / width
    matrix = torch.tensor(
        [
            [cos * wide, sin * skew * tall, cos * x + sin * skew * y],
            [-sin / skew * wide, cos * tall, -sin / skew * x + cos * y],
        ],
        dtype=images.dtype,
    )
    size = [len(images), images.shape[1], height + 2 * margin, width + 2 * margin]
    matrices = on_device(matrix, images.device).expand(len(images), 2, 3)
    grid = affine_grid(matrices, size, align_corners=False)
    return grid_sample(images, grid, padding_mode="border", align_corners=False)


def blur(images: Tensor, sigma: float) -> Tensor:
    """Gaussian blur by a 5x5 kernel, without padding: [B,C,H+4,W+4] -> [B,C,H,W]."""
    taps = [
        math.exp(-0.5 * (offset / sigma) ** 2) for offset in range(-_BLUR_RADIUS, _BLUR_RADIUS + 1)
    ]
    for dim in (2, 3):
        # Five shifted copies: several times as fast as a convolution per channel.
        length = images.shape[dim] - 2 * _BLUR_RADIUS
        shifted = [images.narrow(dim, start, length) for start in range(len(taps))]
        weighted = (x * (tap / sum(taps)) for x, tap in zip(shifted, taps, strict=True))
        images = sum(weighted, torch.zeros_like(shifted[0]))
    return images


def flipped(images: Tensor, generator: Generator) -> Tensor:
    """Each image mirrored with a probability of one half."""
    coins = torch.rand(len(images), generator=generator, device=generator.device)
    return torch.where(coins[:, None, None, None] < 0.5, images.flip(3), images)


def contrast_view(images: Tensor, generator: Generator) -> Tensor:
    """AdaContrast's strong view: each image has its own jitter, grey, blur and flip."""
    draws = iter(host_draws(generator, _DRAWS * len(images)))
    views = [_jittered(image, islice(draws, _DRAWS)) for image in images]
    return flipped(torch.stack(views), generator)


def _jittered(image: Tensor, draws: Iterator[float]) -> Tensor:
    """An image [3,H,W] with other colours (p = 0.8), grey (p = 0.2) and blurred (p = 0.5)."""
    view = image.clamp(0, 1)
    adjustments = _jitter(_ADACONTRAST, draws)
    sigma, (colour, grey, blurred) = _uniform(draws, 0.1, 2.0), islice(draws, 3)
    if colour < 0.8:
        for adjust, amount in adjustments:
            view = adjust(view, amount)
    if grey < 0.2:
        view = tv.rgb_to_grayscale(view, 3)
    if blurred < 0.5:
        width = min(13, 2 * min(image.shape[1:]) - 1)
        view = tv.gaussian_blur(view, [width, width], [sigma, sigma])
    return view
