"""The top layers of a network, which SAR, SLR and SoTTA leave unchanged."""

import math
from copy import deepcopy

import torch
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from .structure import top_layers

NORMS = (_BatchNorm, nn.GroupNorm, nn.LayerNorm, nn.InstanceNorm1d, nn.InstanceNorm2d)
FEWEST = 4  # layers that have a last quarter
SIZES = (224, 32, 64, 96, 128, 256, 299, 384, 448, 512)  # of images, until a network takes one


def top_norms(network: nn.Module) -> list[str]:
    """The names of the top normalisation layers; [] for a network with fewer than four.

    The first one is determined by the names of the stages: in layer4 of a ResNet, in block 9 of a ViT-B, as
    in SAR (Niu et al. 2023). If names do not determine it, or more than half of the layers follow it, the
    top layers are those at the last spatial resolution, as in layer4 of a ResNet; if these are more than
    half, as in a ViT, the last quarter. All layers that run after the first top layer are top layers,
    whatever their names.
    """
    names = [name for name, layer in network.named_modules() if isinstance(layer, NORMS)]
    if len(names) < FEWEST:
        top = [name for name in names if top_layers(network)(name)]
        if not top:
            rank_zero_warn(
                f"No layer is left as it is, since a backbone with fewer than {FEWEST} normalisation "
                "layers has no top ones. Pass skip_top=False if you mean that."
            )
        return top
    places = run_order(network) or dict.fromkeys(names, 1)
    order = list(places)
    for top in (list(filter(top_layers(network), order)), at_last_resolution(places)):
        if top and len(after := order[order.index(top[0]) :]) <= len(order) / 2:
            return after
    return order[-math.ceil(len(order) / 4) :]


def at_last_resolution(places: dict[str, int]) -> list[str]:
    """The layers that run at the last spatial resolution of the image.

    Layers at a single position, after the pooling or inside a squeeze-and-excitation, do not count.
    """
    order = list(places)
    last = [count for count in places.values() if count > 1][-1:]
    larger = [k for k, count in enumerate(places.values()) if last and count > last[0]]
    return order[larger[-1] + 1 :] if larger else []


def run_order(network: nn.Module) -> dict[str, int]:
    """The normalisation layers in the order in which they run, each with its number of positions in an
    image (H W).

    Found in a copy, on the meta device if possible; {} if the network takes no RGB image of a usual size.
    """
    places: dict[str, int] = {}
    for device in ("meta", "cpu"):
        try:
            probe = deepcopy(network).to(device).eval()
        except Exception:  # e.g. a network on the meta device has no data to bring to another
            continue
        images = torch.zeros(2, 3, 1, 1, device=device)
        for name, layer in probe.named_modules():
            if isinstance(layer, NORMS) and layer.weight is not None:
                watch(layer, name, layer.weight.numel(), places)
        kind = next((p.dtype for p in probe.parameters()), images.dtype)
        for size in SIZES:
            places.clear()
            try:
                with torch.no_grad():
                    probe(images.to(kind).expand(-1, -1, size, size))
            except Exception:  # of many kinds: an image of another size may do
                continue
            return dict(places)
    return {}


def watch(layer: nn.Module, name: str, channels: int, places: dict[str, int]) -> None:
    """Record under `name` at how many positions of an image the layer first runs."""

    def note(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        places.setdefault(name, output.numel() // (len(inputs[0]) * channels))

    layer.register_forward_hook(note)
