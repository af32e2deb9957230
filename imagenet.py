"""ImageNet's classes, from the lists that come with timm; importing this loads nothing."""

from functools import cache
from importlib.metadata import distribution
from pathlib import Path


@cache
def synsets(subset: str = "imagenet") -> dict[str, int]:
    """The synsets of ImageNet's 1,000 classes, or of "imagenet-a" or "imagenet-r", numbered in order."""
    name = f"timm/data/_info/{subset.replace('-', '_')}_synsets.txt"
    names = Path(str(distribution("timm").locate_file(name))).read_text(encoding="utf-8").split()
    return {synset: number for number, synset in enumerate(names)}
