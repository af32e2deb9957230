"""Random numbers as pure functions of integer keys: the same in any order and on every device."""

import torch
from torch import Tensor

_GAMMA = -0x61C8864680B583EB  # SplitMix64's increment (Steele et al. 2014), as a signed integer


def scramble(z: Tensor) -> Tensor:
    """SplitMix64's finaliser on int64 of any shape; products wrap modulo 2^64."""
    z = (z ^ _shift(z, 30)) * -0x40A7B892E31B1A47
    z = (z ^ _shift(z, 27)) * -0x6B2FB644ECCEEE15
    return z ^ _shift(z, 31)


def _shift(z: Tensor, bits: int) -> Tensor:
    return (z >> bits) & ((1 << (64 - bits)) - 1)  # without the sign that >> carries along


def mix(*keys: int | Tensor) -> Tensor:
    """One uniform int64 for each combination of the keys, of any shapes, which are broadcast together."""
    state = torch.zeros((), dtype=torch.int64)
    for key in keys:
        state = scramble(state + _GAMMA + key)
    return state


def random_bits(key: Tensor, count: int) -> Tensor:
    """24 bits of the first `count` outputs of each key's SplitMix64: int64 [B] -> [B,count]."""
    counter = torch.arange(1, count + 1) * _GAMMA
    return _shift(scramble(scramble(key)[:, None] + counter), 40)


def uniforms(key: Tensor, count: int) -> Tensor:
    """Numbers in [0, 1), the same for the same key: int64 [B] -> float32 [B,count]."""
    return random_bits(key, count).float() * 2.0**-24


def permuted(position: Tensor, size: int, *keys: int | Tensor) -> Tensor:
    """Where a random permutation of range(size) sends each position [B]; one permutation per key.

    A four-round Feistel network on the smallest even number of bits, walked until it lands inside.
    """
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1

    def feistel(x: Tensor) -> Tensor:
        left, right = x >> half, x & mask
        for turn in range(4):
            left, right = right, left ^ (mix(*keys, turn, right) & mask)
        return left << half | right

    result = feistel(position)
    while (outside := result >= size).any():
        result = torch.where(outside, feistel(result), result)
    return result
