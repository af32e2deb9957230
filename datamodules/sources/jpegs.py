"""JPEG files that workers only read, and that the device decodes."""

import io
from collections.abc import Sequence

import torch
from PIL import Image
from torch import Tensor
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms.functional import pil_to_tensor

from ...tensors import on_device
from .pixels import FORMATS, as_pil


def pack(files: Sequence[bytes]) -> Tensor:
    """Files as one tensor uint8 [N], which workers can hand over: their sizes, then their bytes."""
    sizes = torch.tensor([len(file) for file in files], dtype=torch.int64)
    content = torch.frombuffer(bytearray(b"".join(files)), dtype=torch.uint8)
    return torch.cat([sizes.view(torch.uint8), content])


def unpack(packed: Tensor, count: int) -> list[Tensor]:
    """The `count` files of `pack`, uint8 [N] each."""
    sizes, content = packed[: 8 * count], packed[8 * count :]
    return list(content.split(sizes.clone().view(torch.int64).tolist()))


def decode(files: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Files uint8 [N] as images uint8 [3,H,W] on a device; on a CUDA GPU nvJPEG decodes them.

    What is no JPEG, or of a kind that the decoder does not know (CMYK), Pillow reads; raises its errors.
    """
    where = device if device.type == "cuda" else torch.device("cpu")
    try:
        images = decode_jpeg(list(files), ImageReadMode.RGB, where)
    except RuntimeError:
        if len(files) > 1:
            return [decode([file], device)[0] for file in files]
        images = [_by_pillow(files[0])]
    return [on_device(image, device) for image in images]


def _by_pillow(file: Tensor) -> Tensor:
    with Image.open(io.BytesIO(file.numpy().tobytes()), formats=FORMATS) as image:
        return pil_to_tensor(as_pil(image))
