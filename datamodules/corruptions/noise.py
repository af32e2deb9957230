"""Noise on single values: Gaussian, shot, impulse and speckle noise.

Here and in the sister files a corruption is a pure function of a float32 batch x [B,3,H,W] in
[0,1], the images' random numbers, and scalar parameters, after Hendrycks and Dietterich (2019,
https://arxiv.org/abs/1903.12261) as CCC runs them; `corrupt` clips what it returns to [0,1].
The two that consist of 8-bit steps, pixelate and jpeg_compression, take and return uint8.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from .random import Rng

_CELLS = 2048  # of equal probability, per grey level of the Poisson table


def gaussian_noise(x: Tensor, rng: Rng, std: float) -> Tensor:
    """x + std n, n ~ N(0, 1)."""
    return rng.normal(*x.shape[1:]).mul_(std).add_(x)


def speckle_noise(x: Tensor, rng: Rng, std: float) -> Tensor:
    """x + std x n, n ~ N(0, 1)."""
    return rng.normal(*x.shape[1:]).mul_(std).add_(1).mul_(x)


def impulse_noise(x: Tensor, rng: Rng, amount: float) -> Tensor:
    """Each value becomes 0 or 1 with probability amount / 2 each (salt and pepper).

    Here 1 is added or subtracted, and `corrupt` clips: a mask costs eight times as much.
    """
    bits, edge = rng.bits(*x.shape[1:]), min(2**31 - round(amount * 2**31), 2**31 - 1)
    pepper = bits.clamp(-edge - 1, -edge).add_(edge)
    salt = bits.clamp_(edge - 1, edge).sub_(edge - 1)
    return salt.add_(pepper).to(x.dtype).add_(x)


def shot_noise(x: Tensor, rng: Rng, inverse: float) -> Tensor:
    """Poisson(c x) / c with c = 1 / inverse, at most 9999 as in CCC.

    The rate is taken at the nearest of the 256 grey levels, so that one table look-up draws it.
    """
    photons = min(1 / inverse, 9999.0)
    bits = rng.bits(*x.shape[1:])
    cell = x.mul(255).add_(0.5).to(torch.int32).mul_(_CELLS)
    cell += (bits >> 21).bitwise_and_(_CELLS - 1)
    entry = _poisson_table(photons, x.device).index_select(0, cell.view(-1)).view(x.shape)
    more = bits.bitwise_and_(8191) >= (entry & 16383)
    return (entry >> 14).add_(more).to(torch.float32).div_(photons)


@lru_cache(maxsize=24)
def _poisson_table(photons: float, device: torch.device) -> Tensor:
    """The Poisson quantile function of every grey level, in cells of (count, threshold).

    A cell spans 1/2048 of the probability. If a count ends within it, values at or above the
    threshold (of 8192) are one count more: exact to 2^-24. In the tails a cell can span several
    counts; there the two nearest to the cell's mean stand for them, so that no mean changes.
    """
    from scipy.special import gammaln  # deferred: slow import

    edges = np.arange(_CELLS + 1) / _CELLS
    counts = np.arange(int(photons + 12 * photons**0.5 + 40))
    table = np.full((256, _CELLS), 8192, dtype=np.int64)
    for level in range(1, 256):
        rate = photons * level / 255
        below = np.exp(counts * np.log(rate) - rate - gammaln(counts + 1)).cumsum()  # P(k <= count)
        count = np.searchsorted(below, edges).clip(max=counts[-1])
        padded = np.concatenate([[0, 0], below])  # padded[k + 1] = P(< k), padded[k] = P(< k - 1)
        # integral of the quantile function up to each edge, by k P(k) = rate P(k - 1)
        integral = rate * padded[count] + count * (edges - padded[count + 1])
        integral[-1] = rate
        mean = np.diff(integral) * _CELLS
        whole = np.floor(mean + 2.0**-14)
        threshold = np.rint((1 - mean + whole) * 8192).astype(np.int64).clip(0, 8192)
        table[level] = whole.astype(np.int64) << 14 | threshold
    return torch.from_numpy(table.astype(np.int32).ravel()).to(device)
