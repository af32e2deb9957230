"""500 classes of rendered glyphs: endless small images from the fonts that matplotlib ships.

glyphs.txt lists the classes: of all letters, numbers and symbols that the twelve fonts have in
common, without composed and elongated ones, each next one is the least similar to those before
(greedy farthest-point selection on blurred shapes). So the first ones are the easiest to tell apart.
"""

import functools
import math
import os
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from ... import in_range
from ..counter import random_bits
from . import ImageSource, check_split

LENGTH = 2**40  # images per split
_STYLES = {
    "Sans": ("", "-Bold", "-Oblique", "-BoldOblique"),
    "SansMono": ("", "-Bold", "-Oblique", "-BoldOblique"),
    "Serif": ("", "-Bold", "-Italic", "-BoldItalic"),
}
_FONTS = tuple(f"DejaVu{family}{style}" for family, styles in _STYLES.items() for style in styles)
_SIZE = 32  # of an image, by default
_TEMPLATE, _INK = 40 / _SIZE, 28 / _SIZE  # sides of a template and of its glyph, in images
_ZOOM = 0.8  # the middle one; each glyph's own is within 25 % of it
_SHIFT, _DISTRACTOR_SHIFT = 4 / _SIZE, 14 / _SIZE  # at most, in images
_GAP = (0.18, 0.48)  # between the luminances of background and glyph
_TEXTURE, _OPACITY = 0.4, 0.6  # at most: the pattern's amplitude, the distractor's opacity


class Glyphs(ImageSource):
    """Glyphs in random fonts, poses, colours and textures, each with a distractor behind it.

    2^40 images per split; the image is a pure function of (split, index), bit for bit the same in
    any batch. (Another FreeType or processor may round some pixels differently.) Other sizes show the same
    picture at another resolution.

    Args:
        split: "train", "calibration" or "stream".
        size: image size in pixels, 8 to 512.
        classes: number of classes, the first of the 500; earlier ones are easier to tell apart.
    """

    classes = 500

    def __init__(self, split: str = "stream", size: int = _SIZE, classes: int = 500) -> None:
        in_range(8, 512, size=size)
        in_range(2, 500, classes=classes)
        self.split, self.size, self.classes = split, size, classes
        self.first = check_split(split) * LENGTH
        self.templates = templates(size)

    def __len__(self) -> int:
        return LENGTH

    def load(self, index: Tensor, seed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """index: int64 [B] -> images uint8 [B,3,S,S], labels int64 [B]; no seed."""
        draws = _Draws(index + self.first)
        label = draws.integers(self.classes)
        other = draws.integers(self.classes)
        variant, other_variant = draws.integers(len(_FONTS)), draws.integers(len(_FONTS))
        drawn = torch.cat([label * len(_FONTS) + variant, other * len(_FONTS) + other_variant])
        pose = torch.cat([_pose(draws, shift * self.size) for shift in (_SHIFT, _DISTRACTOR_SHIFT)])
        mask, distractor = _posed(self.templates[drawn], pose, self.size).chunk(2)
        return _painted(mask, distractor, draws), label

    def labels_of(self, index: Tensor) -> Tensor:
        return _Draws(index + self.first, 1).integers(self.classes)


class _Draws:
    """Draws the random numbers of each image one by one, from a hash of its index."""

    def __init__(self, key: Tensor, count: int = 128) -> None:
        self.bits = random_bits(key, count)
        self.numbers = self.bits.float() * 2.0**-24
        self.used = 0

    def integers(self, below: int) -> Tensor:
        self.used += 1
        return (self.bits[:, self.used - 1] * below) >> 24

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """float32 [B,*shape] in [low, high)."""
        first, self.used = self.used, self.used + math.prod(shape)
        return (self.numbers[:, first : self.used] * (high - low) + low).view(-1, *shape)


# ---- one image: only elementwise products and sums, which round alike in any batch ----


def _pose(draws: _Draws, shift: float) -> Tensor:
    """The affine map from image to template pixels, both from the centre: rows x and y, [B,2,3]."""
    half = draws.uniform(-0.2126, 0.2126, 1)  # tan(24 degrees / 2)
    zoom, stretch = _ZOOM * draws.uniform(0.75, 1.25, 1), draws.uniform(-0.2, 0.2, 1)
    shear, offset = draws.uniform(-0.3, 0.3, 1), draws.uniform(-shift, shift, 2)
    cos, sin = (1 - half * half) / (1 + half * half), 2 * half / (1 + half * half)
    x = torch.cat([cos + shear * sin, shear * cos - sin], 1) / (zoom * (1 + stretch))
    y = torch.cat([sin, cos], 1) / (zoom * (1 - stretch))
    rows = torch.stack([x, y], 1)
    moved = rows[..., :1] * offset[:, None, :1] + rows[..., 1:] * offset[:, None, 1:]
    return torch.cat([rows, -moved], 2)


def _posed(template: Tensor, pose: Tensor, size: int) -> Tensor:
    """Templates uint8 [B,T,T] under poses [B,2,3] -> opacity [B,1,S,S] in [0,255]."""
    step = 2 / template.shape[-1]
    pixel = (torch.arange(size) - (size - 1) / 2) * step
    a, b, c = (pose * torch.tensor([1.0, 1.0, step]))[..., None].unbind(2)
    grid = (a * pixel)[:, :, None, :] + (b * pixel + c)[:, :, :, None]
    return F.grid_sample(template[:, None].float(), grid.permute(0, 2, 3, 1), align_corners=False)


def _painted(mask: Tensor, distractor: Tensor, draws: _Draws) -> Tensor:
    """Background, distractor and glyph on top: two opacities [B,1,S,S] -> uint8 [B,3,S,S]."""
    gap, size = draws.uniform(*_GAP, 1), mask.shape[-1]
    middle = gap / 2 + (1 - gap) * draws.uniform(0, 1, 1)
    half = torch.where(draws.uniform(-1, 1, 1) < 0, gap, -gap) / 2
    image = _colour(middle + half, draws) + _texture(draws, size)
    opacity = draws.uniform(0, _OPACITY / 255, 1, 1, 1)
    image = image + (draws.uniform(0, 255, 3, 1, 1) - image) * (distractor * opacity)
    ink = _colour(middle - half, draws) + _texture(draws, size)
    image = image + (ink - image) * (mask * (1 / 255))
    return (image + 0.5).clamp_(0, 255.5).to(torch.uint8)


def _colour(luminance: Tensor, draws: _Draws) -> Tensor:
    """A random colour [B,3,1,1] in [0,255] of given luminance [B,1] in [0,1]."""
    colour = draws.uniform(0, 1, 3)
    red, green, blue = colour.split(1, 1)
    chroma = colour - (0.299 * red + 0.587 * green + 0.114 * blue)
    room = torch.where(chroma > 0, 1 - luminance, luminance) / chroma.abs().clamp(min=1e-6)
    strength = room.amin(1, keepdim=True).clamp(max=1)
    return (255 * (luminance + chroma * strength))[..., None, None]


def _texture(draws: _Draws, size: int) -> Tensor:
    """A smooth random pattern [B,3,S,S] around 0: 4x4 numbers, interpolated."""
    strength = draws.uniform(0, 255 * _TEXTURE, 1, 1, 1)
    knots = draws.uniform(-1, 1, 3, 4, 4) * strength
    position = torch.arange(size) * (3 / (size - 1))
    left = position.long().clamp(max=2)
    weight = position - left
    rows = knots[..., left] * (1 - weight) + knots[..., left + 1] * weight
    weight = weight[:, None]
    return rows[:, :, left] * (1 - weight) + rows[:, :, left + 1] * weight


@functools.cache
def templates(size: int = _SIZE) -> Tensor:
    """Every class in every font, centred, uint8 [500*12,T,T]; rendered in a quarter of a second."""
    text = (Path(__file__).parent / "glyphs.txt").read_text(encoding="utf-8")
    codes = [int(line.split()[0], 16) for line in text.splitlines()]
    fonts = [_font(name) for name in _FONTS]
    drawn = [_template(font, chr(code), size) for code in codes for font in fonts]
    return torch.from_numpy(np.stack(drawn))


@functools.cache
def _font(name: str) -> ImageFont.FreeTypeFont:
    import matplotlib  # loaded when glyphs are drawn

    file = os.path.join(matplotlib.get_data_path(), "fonts", "ttf", f"{name}.ttf")
    return ImageFont.truetype(file, 64, layout_engine=ImageFont.Layout.BASIC)


def _template(font: ImageFont.FreeTypeFont, character: str, size: int) -> np.ndarray:
    glyph = Image.new("L", (192, 192))
    ImageDraw.Draw(glyph).text((64, 48), character, fill=255, font=font)
    glyph = glyph.crop(glyph.getbbox())
    scale, side = _INK * size / max(glyph.size), round(_TEMPLATE * size)
    glyph = glyph.resize([max(1, round(old * scale)) for old in glyph.size], Image.Resampling.BOX)
    template = Image.new("L", (side, side))
    template.paste(glyph, ((side - glyph.width) // 2, (side - glyph.height) // 2))
    return np.array(template)
