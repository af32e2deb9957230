"""Networks of our own: small ones for the embedded data sets and for CIFAR, and AETTA's for CIFAR."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def _group_norm(channels: int) -> nn.GroupNorm:
    """Normalises each image separately, in groups of eight channels (Wu and He 2018)."""
    groups = channels // 8 if channels % 8 == 0 else 1
    return nn.GroupNorm(groups, channels)


_NORMS: dict[str, Callable[[int], nn.Module]] = {"batch": nn.BatchNorm2d, "group": _group_norm}


class _BasicBlock(nn.Module):
    """Two 3x3 convolutions with normalisation, and a shortcut around them, [B,C,H,W] -> [B,C',H/s,W/s]."""

    def __init__(self, inside: int, outside: int, stride: int, norm: str = "batch") -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = _NORMS[norm](outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = _NORMS[norm](outside)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), _NORMS[norm](outside)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class GlyphNet(nn.Module):
    """A ResNet-8, [B,3,size,size] -> logits [B,classes]; 110,660 parameters for 500 classes.

    With `depth` 2, two blocks for each of its three stages, it is a ResNet-14 of 207,876 parameters.

    The stem's stride grows with the size, so that images of 64 pixels cost hardly more than those of
    32: 5x5 with stride 2 for 32 pixels, 7x7 with stride 4 for 64. `norm` is "batch", or "group" for a
    network whose normalisation does not depend on the batch, like a ViT's.
    """

    def __init__(
        self,
        classes: int = 500,
        width: int = 16,
        size: int = 32,
        norm: str = "batch",
        depth: int = 1,
    ) -> None:
        super().__init__()
        stride = max(1, size // 16)
        kernel = stride + 3 - stride % 2
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, kernel, stride, kernel // 2, bias=False),
            _NORMS[norm](width),
            nn.ReLU(),
        )
        self.layer1 = _stage(width, width, 1, norm, depth)
        self.layer2 = _stage(width, 2 * width, 2, norm, depth)
        self.layer3 = _stage(2 * width, 4 * width, 2, norm, depth)
        self.fc = nn.Linear(4 * width, classes)
        # On a CPU, convolutions and normalisation take 0.6 of the time with channels last.
        self.to(memory_format=torch.channels_last)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer3(self.layer2(self.layer1(self.stem(x))))
        return self.fc(x.mean((2, 3)))


def _stage(inside: int, outside: int, stride: int, norm: str, depth: int) -> nn.Module:
    """A sequence of blocks, the first of which changes the size; a single block is returned as it is."""
    first = _BasicBlock(inside, outside, stride, norm)
    more = [_BasicBlock(outside, outside, 1, norm) for _ in range(depth - 1)]
    return nn.Sequential(first, *more) if more else first


class CIFARResNet18(nn.Module):
    """AETTA's ResNet-18 (Lee et al. 2024), [B,3,32,32] -> logits [B,classes]: a 3x3 stem without pooling.

    11,173,962 parameters for 10 classes, with the names that they have in AETTA's checkpoints.
    """

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(_BasicBlock(64, 64, 1), _BasicBlock(64, 64, 1))
        self.layer2 = nn.Sequential(_BasicBlock(64, 128, 2), _BasicBlock(128, 128, 1))
        self.layer3 = nn.Sequential(_BasicBlock(128, 256, 2), _BasicBlock(256, 256, 1))
        self.layer4 = nn.Sequential(_BasicBlock(256, 512, 2), _BasicBlock(512, 512, 1))
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class CIFARResNet20(nn.Module):
    """A ResNet-20 (He et al. 2016, section 4.2), [B,3,32,32] -> logits [B,classes].

    272,474 parameters for 10 classes are the paper's; convolutions in two shortcuts add 2,752.
    """

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = _stage(16, 16, 1, "batch", 3)
        self.layer2 = _stage(16, 32, 2, "batch", 3)
        self.layer3 = _stage(32, 64, 2, "batch", 3)
        self.fc = nn.Linear(64, classes)
        self.to(memory_format=torch.channels_last)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


class TinyResNet(nn.Module):
    """A ResNet-13 for Tiny ImageNet, [B,3,64,64] -> logits [B,classes], with 1,572,552 parameters.

    An image of 64 x 64 pixels takes 53 million multiply-adds; any multiple of 16 pixels will do. `norm` is
    "batch" or "group".
    """

    def __init__(self, classes: int = 200, norm: str = "batch") -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1, bias=False),
            _NORMS[norm](32),
            nn.ReLU(),
            nn.Conv2d(32, 48, 3, 2, 1, bias=False),
            _NORMS[norm](48),
            nn.ReLU(),
        )
        self.layer1 = _stage(48, 48, 1, norm, 1)
        self.layer2 = _stage(48, 96, 2, norm, 2)
        self.layer3 = _stage(96, 192, 2, norm, 2)
        self.fc = nn.Linear(192, classes)
        self.to(memory_format=torch.channels_last)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer3(self.layer2(self.layer1(self.stem(x))))
        return self.fc(x.mean((2, 3)))


NETS: dict[str, Callable[..., nn.Module]] = {
    "GlyphNet": GlyphNet,
    "CIFARResNet18": CIFARResNet18,
    "CIFARResNet20": CIFARResNet20,
    "TinyResNet": TinyResNet,
}
