"""The stages of a network, found by the names of its modules."""

import math
import re
from collections.abc import Callable
from typing import NamedTuple

from torch import nn


class Numbering(NamedTuple):
    """How a family of networks names its stages: `prefix` and a number."""

    prefix: str  # regular expression
    quarters: bool = True  # the last quarter is what SAR calls the top layers
    ends: bool = True  # a stage is followed by dropout in AETTA


NUMBERINGS = (
    Numbering("layer"),  # layer1: ResNets, GlyphNet
    Numbering(r"layers\."),  # layers.0: timm's Swin
    Numbering(r"stages\."),  # stages.0: timm's ConvNeXt and other hierarchical networks
    Numbering(r"blocks\."),  # blocks.0: timm's ViT
    Numbering(r"resblocks\."),  # visual.transformer.resblocks.0: open_clip's ViT
    Numbering(r"layers\.encoder_layer_"),  # encoder.layers.encoder_layer_0: torchvision's ViT
    Numbering(r"layer\.|layers", ends=False),  # layer.0 in transformers, layers1
    # features.0 in torchvision's ConvNeXt and MobileNet, which numbers stem and head alike
    Numbering(r"features\.", quarters=False),
)
PLACES = 4
QUARTERS = "|".join(numbering.prefix for numbering in NUMBERINGS if numbering.quarters)
ENDS = "|".join(numbering.prefix for numbering in NUMBERINGS if numbering.ends)
STAGE = re.compile(rf"(?:^|\.)(?:{QUARTERS})(\d+)(?=\.|$)")  # as a part of a name
STAGE_END = re.compile(rf"(|.*\.)({ENDS})(\d+)")  # as a whole name


def stage_ends(network: nn.Module, places: int = PLACES) -> list[str]:
    """The modules that end `places` equal parts of a network, in order; none without stages.

    These are layer1 to layer4 of a ResNet, blocks 2, 5, 8 and 11 of a ViT-B; a network with fewer
    stages has fewer places.
    """
    groups: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for name, _ in network.named_modules():
        if match := STAGE_END.fullmatch(name):
            groups.setdefault((match[1], match[2]), []).append((int(match[3]), name))
    outermost = sorted((g for g in groups if len(groups[g]) > 1), key=lambda g: g[0].count("."))
    names = [name for _, name in sorted(groups[outermost[0]])] if outermost else []
    count = min(places, len(names))
    return [names[-(-len(names) * part // count) - 1] for part in range(1, count + 1)]


def top_layers(network: nn.Module) -> Callable[[str], bool]:
    """Whether the layer of that name is in the last quarter of the stages, or right after them.

    That is layer4 of a ResNet, and blocks 9 to 11 and the last norm of a ViT-B, as in SAR.
    """
    found = [(name, STAGE.search(name)) for name, _ in network.named_modules()]
    numbers = sorted({int(match[1]) for _, match in found if match})
    top = numbers[-math.ceil(len(numbers) / 4) :] if numbers else []
    parents = {name[: match.start()] for name, match in found if match}

    def is_top(name: str) -> bool:
        match = STAGE.search(name)
        if match:
            return int(match[1]) in top
        parent, _, child = name.rpartition(".")
        return parent in parents and child in ("norm", "ln")

    return is_top
