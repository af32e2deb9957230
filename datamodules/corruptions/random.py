"""Random numbers that are a pure function of (seed, corruption, draw, element), on every device.

The n-th value of an image is a hash of the counter n under a 64-bit key made from the image's seed;
no state is carried between values or images, so a batch can be divided in any way.
"""

import math
import zlib
from functools import lru_cache

import torch
from torch import Tensor

from ...tensors import on_device
from ..counter import mix


class Rng:
    """Draws of shape [B,*shape], row b from seed[b] alone; each call starts a new stream."""

    def __init__(self, seed: Tensor, name: str = "", device: torch.device | None = None) -> None:
        self.given, self.name = seed, name
        seed = on_device(seed.to(torch.int64), device or seed.device)
        self.seed = seed ^ zlib.crc32(name.encode())
        self.calls = 0
        self.keys = torch.empty(len(seed), 0, 2, 1, dtype=torch.int32, device=seed.device)

    def for_host(self) -> "Rng":
        """On the CPU, for one call whose values the host needs: it does not wait for a device."""
        if self.seed.device.type == "cpu":
            return self
        host = Rng(self.given.cpu(), self.name)
        host.calls, self.calls = self.calls, self.calls + 1
        return host

    def bits(self, *shape: int) -> Tensor:
        """Uniform int32: two rounds of xor-shift and multiply, with one key word before each."""
        return self._streams(1, shape).squeeze(1)

    def halves(self, *shape: int) -> Tensor:
        """Uniform integers in [0, 65536) as int32, two from every 32 bits."""
        count = math.prod(shape)
        bits = self.bits((count + 1) // 2).view(torch.int16)[:, :count]
        return bits.to(torch.int32).add_(32768).view(-1, *shape)

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """Uniform float32 in [low, high]."""
        return self.uniforms(1, low, high, *shape)[0]

    def uniforms(self, count: int, low: float, high: float, *shape: int) -> tuple[Tensor, ...]:
        """The values of several calls of `uniform`, with less overhead."""
        bits = self._streams(count, shape).to(torch.float32)
        return bits.mul_((high - low) * 2.0**-32).add_((low + high) / 2).unbind(1)

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Uniform int32 in [low, high), for ranges far below 65536."""
        return self.halves(*shape).mul_(high - low).bitwise_right_shift_(16).add_(low)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal float32, by inverse distribution function at a resolution of 2^-16."""
        halves = self.halves(*shape)
        return _quantiles(halves.device).index_select(0, halves.view(-1)).view(halves.shape)

    def _streams(self, count: int, shape: tuple[int, ...]) -> Tensor:
        """The bits [B,count,*shape] of the next calls, each with its own key [B]."""
        while self.calls + count > self.keys.shape[1]:
            self.keys = torch.cat((self.keys, self._hashed(self.keys.shape[1])), dim=1)
        key = self.keys[:, self.calls : self.calls + count]
        self.calls += count
        value = _counter(math.prod(shape), self.seed.device) ^ key[:, :, 0]
        shifted = torch.empty_like(value)
        _xor_shift(value, shifted, 16).mul_(0x7FEB352D).bitwise_xor_(key[:, :, 1])
        _xor_shift(value, shifted, 15).mul_(-0x7B935975)
        return _xor_shift(value, shifted, 16).view(-1, count, *shape)

    def _hashed(self, calls: int) -> Tensor:
        """Keys [B,32,2,1] of the next 32 calls: the hashed seed plus the call, hashed again."""
        numbers = torch.arange(calls + 1, calls + 33, device=self.seed.device)
        return mix(mix(self.seed)[:, None] + numbers).view(torch.int32).view(-1, 32, 2, 1)


def _xor_shift(value: Tensor, buffer: Tensor, by: int) -> Tensor:
    """value ^= value >>> by, in place; the mask makes torch's arithmetic shift a logical one."""
    torch.bitwise_right_shift(value, by, out=buffer)
    return value.bitwise_xor_(buffer.bitwise_and_((1 << (32 - by)) - 1))


@lru_cache(maxsize=16)
def _counter(count: int, device: torch.device) -> Tensor:
    return torch.arange(count, dtype=torch.int32, device=device)


@lru_cache(maxsize=4)
def _quantiles(device: torch.device) -> Tensor:
    """The normal's mean in each of 65536 cells of equal probability, scaled to unit variance."""
    edges = torch.special.ndtri(torch.arange(65537, dtype=torch.float64) / 65536)
    density = torch.exp(-(edges**2) / 2)
    cells = density[:-1] - density[1:]
    return (cells / cells.square().mean().sqrt()).to(torch.float32).to(device)
