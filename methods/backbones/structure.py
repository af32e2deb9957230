"""The stages of a network, and its top layers, which SAR, SLR, DeYO, REM and SoTTA leave unchanged."""

import math
import re
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from functools import partial
from typing import cast

import torch
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

NORMS = (_BatchNorm, nn.GroupNorm, nn.LayerNorm, nn.InstanceNorm1d, nn.InstanceNorm2d)
_PARTS = 4
# Fewest normalisation layers that have a last quarter.
_FEWEST = 4
# Sizes of images, tried until a network takes one.
_SIZES = (224, 32, 64, 96, 128, 256, 299, 384, 448, 512)
# What precedes the number of a stage: layer1 in ResNets and GlyphNet; layers.0, stages.0 and blocks.0 in
# timm's Swin, ConvNeXt and ViT; resblocks.0 in open_clip's; encoder_layer_0 in torchvision's ViT.
_NUMBERED = r"layer|layers\.|stages\.|blocks\.|resblocks\.|layers\.encoder_layer_"
# As a part of a name, where the last quarter is what SAR calls the top; also layer.0 in transformers.
_STAGE = re.compile(rf"(?:^|\.)(?:{_NUMBERED}|layer\.|layers)(\d+)(?=\.|$)")
# As a whole name, where AETTA adds dropout; also features.0 in torchvision.
_STAGE_END = re.compile(rf"(|.*\.)({_NUMBERED}|features\.)(\d+)")


def stage_ends(network: nn.Module) -> list[str]:
    """The modules that end four equal parts of a network, in order; none without stages.

    These are layer1 to layer4 of a ResNet, blocks 2, 5, 8 and 11 of a ViT-B; fewer of fewer stages.
    """
    groups: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for name, _ in network.named_modules():
        if match := _STAGE_END.fullmatch(name):
            groups.setdefault((match[1], match[2]), []).append((int(match[3]), name))
    outermost = sorted((g for g in groups if len(groups[g]) > 1), key=lambda g: g[0].count("."))
    names = [name for _, name in sorted(groups[outermost[0]])] if outermost else []
    count = min(_PARTS, len(names))
    return [names[-(-len(names) * part // count) - 1] for part in range(1, count + 1)]


def top_norms(network: nn.Module) -> list[str]:
    """The names of the top normalisation layers; [] for a network with fewer than four, with a warning.

    The first one is determined by the names of the stages: in layer4 of a ResNet, in block 9 of a ViT-B, as
    in SAR (Niu et al. 2023). If names do not determine it, or more than half of the layers follow it, the
    top layers are those at the last spatial resolution, as in layer4 of a ResNet; if these are more than
    half, as in a ViT, the last quarter. All layers that run after the first top layer are top layers,
    whatever their names.
    """
    names = [name for name, layer in network.named_modules() if isinstance(layer, NORMS)]
    is_top = _top_layers(network)
    if len(names) < _FEWEST:
        if not any(map(is_top, names)):
            rank_zero_warn(
                f"skip_top has no effect, because a backbone with fewer than {_FEWEST} "
                "normalisation layers has no top ones. Pass skip_top=False to confirm."
            )
        return list(filter(is_top, names))
    positions = _run_order(network) or dict.fromkeys(names, 1)
    order = list(positions)
    for top in (list(filter(is_top, order)), _at_last_resolution(positions)):
        if top and len(after := order[order.index(top[0]) :]) <= len(order) / 2:
            return after
    return order[-math.ceil(len(order) / 4) :]


def _top_layers(network: nn.Module) -> Callable[[str], bool]:
    """Whether the layer of that name is in the last quarter of the stages, or right after them.

    That is layer4 of a ResNet, and blocks 9 to 11 and the last norm of a ViT-B, as in SAR.
    """
    matches = [(name, _STAGE.search(name)) for name, _ in network.named_modules()]
    numbers = sorted({int(match[1]) for _, match in matches if match})
    top = numbers[-math.ceil(len(numbers) / 4) :] if numbers else []
    parents = {name[: match.start()] for name, match in matches if match}

    def is_top(name: str) -> bool:
        if match := _STAGE.search(name):
            return int(match[1]) in top
        parent, _, child = name.rpartition(".")
        return parent in parents and child in ("norm", "ln")

    return is_top


def _at_last_resolution(positions: dict[str, int]) -> list[str]:
    """The layers that run at the last spatial resolution of the image.

    Layers at a single position, after the pooling or inside a squeeze-and-excitation, do not count.
    """
    order = list(positions)
    last = [count for count in positions.values() if count > 1][-1:]
    larger = [k for k, count in enumerate(positions.values()) if last and count > last[0]]
    return order[larger[-1] + 1 :] if larger else []


def _run_order(network: nn.Module) -> dict[str, int]:
    """The normalisation layers in the order in which they run, with their numbers of positions (H W).

    Found in a copy, on the meta device if possible; {} if the network takes no RGB image of a usual size.
    """
    positions: dict[str, int] = {}

    def listen(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor, name: str) -> None:
        channels = cast(Tensor, layer.weight).numel()
        positions.setdefault(name, output.numel() // (len(inputs[0]) * channels))

    for device in ("meta", "cpu"):
        try:
            probe = deepcopy(network).to(device).eval()
        except Exception:  # e.g. a network on the meta device has no data to bring to another
            continue
        for name, layer in probe.named_modules():
            if isinstance(layer, NORMS) and layer.weight is not None:
                layer.register_forward_hook(partial(listen, name=name))
        kind = next((p.dtype for p in probe.parameters()), torch.float32)
        for size in _SIZES:
            positions.clear()
            images = torch.zeros(2, 3, 1, 1, device=device, dtype=kind)
            with suppress(Exception), torch.no_grad():  # an image of another size may do
                probe(images.expand(-1, -1, size, size))
                return dict(positions)
    return {}
