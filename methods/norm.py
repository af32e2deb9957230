"""Normalisation layers: whose statistics are used, and which parameters adapt."""

from collections.abc import Iterator

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

NORMS = (_BatchNorm, nn.GroupNorm, nn.LayerNorm, nn.InstanceNorm1d, nn.InstanceNorm2d)


def batch_norms(module: nn.Module) -> Iterator[_BatchNorm]:
    """Every batch normalisation layer below `module`."""
    return (layer for layer in module.modules() if isinstance(layer, _BatchNorm))


def use_batch_statistics(module: nn.Module) -> None:
    """Erase running statistics, so that batch statistics are used in train and in eval mode.

    Calling `.train()` instead would be undone by the next `.eval()`, and Lightning calls one before
    every test.
    """
    for layer in batch_norms(module):
        layer.track_running_stats = False
        layer.running_mean = layer.running_var = layer.num_batches_tracked = None


def norm_affine(module: nn.Module) -> Iterator[nn.Parameter]:
    """Scale and shift of every normalisation layer below `module`."""
    for layer in module.modules():
        if isinstance(layer, NORMS):
            yield from layer.parameters(recurse=False)
