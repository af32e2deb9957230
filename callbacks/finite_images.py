"""Images that are not finite numbers, which methods and estimators leave out of a batch."""

from torch import Tensor


def finite_images(images: Tensor) -> Tensor:
    """Which images [B,...] have neither NaN nor infinity in them, [B] bool."""
    return images.flatten(1).isfinite().all(1)


def without_bad(images: Tensor) -> Tensor:
    """The images that are finite, [n,...]: the tensor itself if all are."""
    good = finite_images(images)
    return images if good.all() else images[good]
