"""Random numbers as pure functions of integer keys, the same on every device and in any order."""

import torch
from torch import Tensor


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


_GOLDEN = _signed(0x9E3779B97F4A7C15)
_MULTIPLIERS = (_signed(0xBF58476D1CE4E5B9), _signed(0x94D049BB133111EB))


def _shift(x: Tensor, bits: int) -> Tensor:
    return (x >> bits) & ((1 << (64 - bits)) - 1)  # logical shift: int64 would carry the sign along


def mix(*keys: int | Tensor) -> Tensor:
    """A 64-bit hash of the keys, broadcast together: int64, uniform (SplitMix64, Steele et al. 2014)."""
    state = torch.zeros((), dtype=torch.int64)
    for key in keys:
        state = state + key + _GOLDEN
        state = (state ^ _shift(state, 30)) * _MULTIPLIERS[0]
        state = (state ^ _shift(state, 27)) * _MULTIPLIERS[1]
        state = state ^ _shift(state, 31)
    return state


def permuted(position: Tensor, size: int, *keys: int | Tensor) -> Tensor:
    """The image of each position [B] under a random permutation of range(size), one for each key.

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
