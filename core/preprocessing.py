"""How images become a network's input: what published weights were evaluated with."""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Preprocessing:
    """The resizing, central crop and normalisation of images [0,1] for a network, and its activation.

    resize: pixels of the shorter side before the crop of `size` pixels, of both ("squash"), or of the
        longer one, where `fill` (0 to 255) surrounds the image ("longest").
    activation: of a two-tower model, "GELU" or "QuickGELU".
    """

    size: int = 224
    resize: int = 256
    interpolation: str = "bilinear"
    side: Literal["shortest", "squash", "longest"] = "shortest"
    fill: tuple[int, int, int] = (0, 0, 0)
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    activation: str = ""

    def __str__(self) -> str:
        """The resizing and the crop, as captions and provenance name them.

        >>> str(Preprocessing(resize=232)), str(Preprocessing(384, 384, "bicubic", "squash"))
        ('shorter side 232 (bilinear), centre 224 x 224', 'both sides 384 (bicubic)')
        """
        sides = {"shortest": "shorter side", "squash": "both sides", "longest": "longer side"}
        text = f"{sides[self.side]} {self.resize} ({self.interpolation})"
        whole = self.side == "squash" and self.resize == self.size
        return text if whole else f"{text}, centre {self.size} x {self.size}"


def central(size: int) -> Preprocessing:
    """torchvision's classical one at this size: Resize(size * 256 / 224), bilinear, CenterCrop(size)."""
    return Preprocessing(size, size * 256 // 224)


def preprocessing_of(network: Any) -> Preprocessing | None:
    """The attribute `preprocessing` of a network, if it is one."""
    preprocessing = getattr(network, "preprocessing", None)
    return preprocessing if isinstance(preprocessing, Preprocessing) else None
