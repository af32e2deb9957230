"""Images that are not finite numbers, which methods and estimators leave out of a batch."""

from torch import Tensor


def finite_images(images: Tensor) -> Tensor:
    """Which images [B,...] have neither NaN nor infinity in them, [B] bool."""
    return images.flatten(1).isfinite().all(1)


def without_bad(images: Tensor) -> Tensor:
    """The images that are finite, [n,...]: the tensor itself if all are."""
    if images.sum().isfinite():  # a thirtieth of the time, and not finite if an image is not
        return images
    return images[finite_images(images)]
