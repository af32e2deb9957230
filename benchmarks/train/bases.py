"""Base models of ensembles: named networks without their last layer, random features, or pixels."""

import copy
import re
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ... import HoldfastError
from ...methods.backbones import normalised
from ...methods.backbones.load import find_network

RANDOM = re.compile(r"relu:(\d+)")
LORA_LAYERS = ("qkv", "query", "value", "q_proj", "v_proj", "c_attn", "q_lin", "v_lin")


class RandomFeatures(nn.Module):
    """Random ReLU features max(0, W x / sqrt(d)) of standardised pixels x, [B,3,H,W] -> [B,count]."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, images: Tensor) -> Tensor:
        pixels = images.flatten(1)
        pixels = (pixels - pixels.mean(1, keepdim=True)) / (pixels.std(1, keepdim=True) + 1e-3)
        random = torch.Generator().manual_seed(self.count)
        weight = torch.randn(pixels.shape[1], self.count, generator=random).to(pixels)
        return torch.relu(pixels @ weight) / pixels.shape[1] ** 0.5


class Pixels(nn.Module):
    """The centred pixels as features, [B,3,H,W] -> [B,3HW], as a negative control."""

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) - 0.5


def base_model(name: str) -> nn.Module:
    """A network in eval mode from images [B,3,H,W] in [0,1] to features [B,D].

    Names are "pixels", "relu:COUNT" for random ReLU features, the names that `load_backbone` and
    `find_network` accept (trained weights, or an untrained architecture), and timm's weights without a
    classifier, such as OpenCLIP's "timm/vit_base_patch32_clip_224.laion2b".
    """
    if name == "pixels":
        return Pixels()
    if found := RANDOM.fullmatch(name):
        return RandomFeatures(int(found[1]))
    if name.startswith("timm/") and "." in name and (headless := without_classifier(name)):
        return headless
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # all members share the weights of an untrained architecture
        return features_of(find_network(name)).eval()


def without_classifier(name: str) -> nn.Module | None:
    """A timm model if its weights have no classifier, otherwise None."""
    import timm
    from timm.data import resolve_model_data_config

    model, _, file = name.removeprefix("timm/").partition(":")
    hosted = timm.get_pretrained_cfg(model) if timm.is_model(model) else None
    if hosted is None or hosted.num_classes:
        return None
    if file and not Path(file).is_file():
        raise HoldfastError(
            f"There is no file {file} with weights of timm/{model}. Check the path."
        )
    overlay = {"file": file} if file else None
    try:
        net = timm.create_model(
            model, pretrained=True, num_classes=0, pretrained_cfg_overlay=overlay
        )
    except Exception as error:  # the libraries below timm raise different kinds of errors
        raise HoldfastError(
            f"Cannot load the weights of {name} ({type(error).__name__}). Download them on another "
            f"machine and pass timm/{model}:FILE."
        ) from error
    config = resolve_model_data_config(net)
    size = config["input_size"][1:]
    return nn.Sequential(Resized(size), normalised(net, config["mean"], config["std"])).eval()


class Resized(nn.Module):
    """Resizes images [B,3,H,W] in [0,1] to a network's input size, as ViTs require."""

    def __init__(self, size: tuple[int, int]) -> None:
        super().__init__()
        self.size = size

    def forward(self, images: Tensor) -> Tensor:
        if images.shape[2:] == self.size:
            return images
        return F.interpolate(images, self.size, mode="bicubic", antialias=True).clamp(0, 1)


def features_of(network: nn.Module) -> nn.Module:
    """A copy of a network without its last linear layer.

    Raises:
        HoldfastError: if its last layer with weights is not linear.
    """
    network = copy.deepcopy(network)
    layers = [
        (n, m) for n, m in network.named_modules() if next(m.parameters(False), None) is not None
    ]
    name, last = layers[-1]
    if not isinstance(last, nn.Linear):
        raise HoldfastError(
            f"The last layer of the base model is {type(last).__name__}, not Linear. Choose a model with "
            "a linear classifier or without a classifier."
        )
    if "." not in name:
        parent: nn.Module = network
    else:
        parent = network.get_submodule(name.rpartition(".")[0])
    setattr(parent, name.rpartition(".")[2], nn.Identity())
    return network


def with_lora(base: nn.Module, rank: int = 8) -> nn.Module:
    """The base with trainable LoRA matrices in its attention layers (Hu et al. 2022), otherwise frozen.

    Raises:
        HoldfastError: if peft is not installed, or the base is not a transformer.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise HoldfastError("LoRA needs peft. Run: pip install 'holdfast[text]'.") from None
    names = [name for name, _ in base.named_modules() if name.rpartition(".")[2] in LORA_LAYERS]
    if not names:
        raise HoldfastError(
            "LoRA changes the attention layers of a transformer, but this base model has none. Choose "
            "training: finetune."
        )
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=names, init_lora_weights=True)
    return get_peft_model(base, config)  # type: ignore[arg-type]


def reinitialised(network: nn.Module, seed: int) -> nn.Module:
    """A copy of a network with new random weights, for training from scratch."""
    network = copy.deepcopy(network)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for module in network.modules():
            reset: Callable[[], None] | None = getattr(module, "reset_parameters", None)
            if reset is not None:
                reset()
    return network
