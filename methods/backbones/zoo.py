"""RobustBench's networks for CIFAR-10-C and CIFAR-100-C by name, from a file or from its own
package."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F

from ... import HoldfastError
from .pretrained import Library, Pretrained, read_checkpoint, with_weights

PLAIN, HALVES = ((0.0,) * 3, (1.0,) * 3), ((0.5,) * 3, (0.5,) * 3)  # mean and standard deviation


class WideBlock(nn.Module):
    """Two 3x3 convolutions, each after its normalisation, and a shortcut around them."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inside)
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        if inside != outside:
            self.convShortcut = nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(x))
        shortcut = self.convShortcut(y) if hasattr(self, "convShortcut") else x
        return shortcut + self.conv2(F.relu(self.bn2(self.conv1(y))))


class WideResNet(nn.Module):
    """A WideResNet (Zagoruyko and Komodakis 2016), [B,3,32,32] -> logits [B,classes]."""

    def __init__(self, depth: int = 28, factor: int = 10, num_classes: int = 10) -> None:
        super().__init__()
        widths = [16, 16 * factor, 32 * factor, 64 * factor]
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        for number, stride in ((1, 1), (2, 2), (3, 2)):
            sizes = [(widths[number - 1], widths[number], stride)]
            sizes += [(widths[number], widths[number], 1)] * ((depth - 4) // 6 - 1)
            layer = nn.Sequential(*(WideBlock(*size) for size in sizes))
            self.add_module(f"block{number}", nn.ModuleDict({"layer": layer}))
        self.bn1 = nn.BatchNorm2d(widths[3])
        self.fc = nn.Linear(widths[3], num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        for number in (1, 2, 3):
            x = self.get_submodule(f"block{number}.layer")(x)
        return self.fc(F.relu(self.bn1(x)).mean((2, 3)))


class NextBlock(nn.Module):
    """1x1, grouped 3x3 and 1x1 convolutions with four times `width` output channels, and a shortcut
    around them."""

    def __init__(self, inside: int, width: int, groups: int, base: int, stride: int) -> None:
        super().__init__()
        middle, outside = groups * (width * base // 64), 4 * width
        self.conv_reduce = nn.Conv2d(inside, middle, 1, bias=False)
        self.bn_reduce = nn.BatchNorm2d(middle)
        self.conv_conv = nn.Conv2d(middle, middle, 3, stride, 1, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(middle)
        self.conv_expand = nn.Conv2d(middle, outside, 1, bias=False)
        self.bn_expand = nn.BatchNorm2d(outside)
        self.downsample: nn.Module = nn.Identity()
        if inside != outside:
            shortcut = nn.Conv2d(inside, outside, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn_reduce(self.conv_reduce(x)))
        y = F.relu(self.bn(self.conv_conv(y)))
        return F.relu(self.downsample(x) + self.bn_expand(self.conv_expand(y)))


class ResNeXt29(nn.Module):
    """ResNeXt-29, 4x32d (Xie et al. 2017), [B,3,32,32] -> logits [B,classes]."""

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.conv_1_3x3 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn_1 = nn.BatchNorm2d(64)
        for number, inside, width, stride in ((1, 64, 64, 1), (2, 256, 128, 2), (3, 512, 256, 2)):
            blocks = [NextBlock(inside, width, 4, 32, stride)]
            blocks += [NextBlock(4 * width, width, 4, 32, 1) for _ in range(2)]
            self.add_module(f"stage_{number}", nn.Sequential(*blocks))
        self.classifier = nn.Linear(1024, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn_1(self.conv_1_3x3(x)))
        for number in (1, 2, 3):
            x = self.get_submodule(f"stage_{number}")(x)
        return self.classifier(x.mean((2, 3)))


class Entry(NamedTuple):
    """A network of RobustBench: how to build it, and the normalisation that it includes there."""

    build: Callable[..., nn.Module]
    scale: tuple[tuple[float, ...], tuple[float, ...]]


ZOO = {
    "Standard": Entry(WideResNet, PLAIN),
    "Hendrycks2020AugMix_WRN": Entry(partial(WideResNet, 40, 2), HALVES),
    "Hendrycks2020AugMix_ResNeXt": Entry(ResNeXt29, HALVES),
}


def architectures() -> list[str]:
    return [*ZOO]


def untrained(name: str, size: int) -> nn.Module:
    """Random weights, ten classes, for images of 32 pixels whatever `size`."""
    return ZOO[name].build()


def stripped(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state dict without "module." and "model." in its names, and without a stored normalisation."""
    names = {key: key.removeprefix("module.").removeprefix("model.") for key in state}
    return {name: state[key] for key, name in names.items() if name not in ("mu", "sigma")}


def load(model: str, file: Path | None) -> Pretrained:
    """Load NAME or cifar100/NAME of the corruption leaderboards; RobustBench's package loads other
    names and downloads weights.

    Raises HoldfastError if the name or the package is missing.
    """
    dataset, slash, name = model.rpartition("/")
    facts = {"library": "robustbench", "weights": name, "file": str(file or "")}
    if file is not None and name in ZOO:
        net = with_weights(ZOO[name].build, stripped(read_checkpoint(file)), file)
        return Pretrained(net, *ZOO[name].scale, facts)
    if file is not None or find_spec("robustbench") is None:
        raise HoldfastError(
            f"robustbench/{model} needs the package robustbench, which downloads the weights. "
            f"Install it, or pass one of {', '.join(f'robustbench/{own}:FILE' for own in ZOO)}."
        )
    from robustbench.utils import load_model

    data = dataset if slash else "cifar10"
    try:
        net = load_model(name, dataset=data, threat_model="corruptions")
    except (KeyError, ValueError) as error:
        raise HoldfastError(
            f"robustbench has no model {name} for corruptions of {data}. See its leaderboard."
        ) from error
    return Pretrained(net, *PLAIN, facts)  # its normalisation is inside


ROBUSTBENCH = Library(architectures, untrained, load)
