"""Networks as users bring them: small ones for images of 8 x 8 pixels and five classes."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.methods.testing import NETS, batch_norm_net


class InPlace(nn.Module):
    """Normalises its input in place, as torchvision's `normalize(inplace=True)` does."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x.sub_(0.5).div_(0.25))


class TwoNames(nn.Module):
    """Its layers have two names each, two convolutions share a weight, and one layer runs twice.

    It normalises images and features, too, without scale, bias or momentum; some layers are not used.
    """

    def __init__(self) -> None:
        super().__init__()
        first, second = (nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in range(2))
        second.weight = first.weight
        norm, unbiased = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
        unbiased.register_parameter("bias", None)
        body = [nn.Conv2d(3, 8, 3, padding=1), unbiased, nn.ReLU(), first, norm, nn.ReLU(), second]
        body += [norm, nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8, affine=False)]
        body += [nn.InstanceNorm2d(8, affine=True), nn.ReLU(), nn.BatchNorm2d(8, momentum=None)]
        body += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.BatchNorm1d(8)]
        self.images = nn.BatchNorm2d(3)
        self.net = nn.Sequential(*body, nn.Linear(8, 5))
        self.features = nn.Sequential(*body)
        self.unused = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 5))

    def forward(self, x: Tensor) -> Tensor:
        return self.net[-1](self.features(self.images(x)))


class Dropout(nn.Module):
    """Has dropout that is off in eval mode, and one that never is."""

    def __init__(self) -> None:
        super().__init__()
        net = batch_norm_net()
        self.body = nn.Sequential(*net[:3], nn.Dropout2d(0.5), *net[3:-1])
        self.head = net[-1]

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.dropout(self.body(x), 0.1))


def trained(net: nn.Module) -> nn.Module:
    """The network with running statistics of random images, in eval mode."""
    net.train()
    with torch.no_grad():
        net(torch.rand(32, 3, 8, 8))
    return net.eval()


BORDER_NETS: dict[str, Callable[[], nn.Module]] = {
    "two names": lambda: trained(TwoNames()),
    "in place, dropout": lambda: trained(InPlace(Dropout())),
    "vit in place": lambda: InPlace(NETS["vit"]()).eval(),
    "clip in place": lambda: InPlace(NETS["clip"]()).eval(),
}
