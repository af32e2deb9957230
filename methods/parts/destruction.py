"""Transforms that destroy the object in an image [B,3,H,W] but keep its colours: DeYO's three
transformations."""

import math

import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as tv


def shuffled_patches(images: Tensor, orders: Tensor) -> Tensor:
    """Images cut into P x P patches, row by row; patch j of the result is patch orders[:, j] [B,P*P].

    Images whose sides are no multiples of P are resized to the next smaller multiples, and back.
    """
    grid, (height, width) = math.isqrt(orders.shape[1]), images.shape[2:]
    size = [height // grid * grid, width // grid * grid]
    fits = size == [height, width]
    images = images if fits else tv.resize(images, size, antialias=True)
    patches = images.unflatten(2, (grid, -1)).unflatten(4, (grid, -1))  # [B,3,P,h,P,w]
    patches = patches.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)  # [B,P*P,3,h,w]
    patches = patches[torch.arange(len(images), device=images.device)[:, None], orders]
    patches = patches.unflatten(1, (grid, grid)).permute(0, 3, 1, 4, 2, 5)
    images = patches.flatten(4, 5).flatten(2, 3)
    return images if fits else tv.resize(images, [height, width], antialias=True)


def shuffled_pixels(images: Tensor, order: Tensor) -> Tensor:
    """Images with pixels permuted: pixel j, row by row, is pixel order[j], int64 [H*W], of the image in
    each channel."""
    return images.flatten(2)[:, :, order].view_as(images)


def occluded(images: Tensor, square: tuple[int, int, int] | None = None) -> Tensor:
    """Images with the mean of each channel in a square (top, left, side); default: half of the middle."""
    height, width = images.shape[2:]
    side = min(height, width) // 2
    top, left, side = square or ((height - side) // 2, (width - side) // 2, side)
    images, means = images.clone(), images.mean((2, 3), keepdim=True)
    images[:, :, top : top + side, left : left + side] = means
    return images
