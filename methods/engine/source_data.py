"""Source images that a method uses before the stream begins."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor

from ... import HoldfastError
from ...batch import Batch, as_batch
from ...callbacks.functional.scores import finite_images
from .online_loop import OnlineTest

FROM_STREAM = 2000  # images, as many as CCC's EATA looks at


def first_batches(
    method: OnlineTest, data: LightningDataModule | None, images: int
) -> Iterator[Batch]:
    """The first `images`, in whole batches, of the data's test loader, or else of the run's stream.

    Those of the stream, FROM_STREAM at most, come without their labels.
    """
    if data is None:
        images = min(images, FROM_STREAM)
    else:
        data.prepare_data()
        data.setup("test")
    seen = 0
    for found in method.look_ahead() if data is None else data.test_dataloader():
        batch = as_batch(found, seen, 0)
        if data is None:
            batch = batch._replace(labels=torch.full_like(batch.labels, -1))
        yield batch
        seen += len(batch.images)
        if seen >= images:
            return


def usable(batches: Iterable[Any], like: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The finite images of batches with their labels [B], with the device and type of `like`.

    If an image has several labels, the first one counts.
    """
    for found in batches:
        batch = as_batch(found, 0, 0)
        images = batch.images.to(like.device, like.dtype, copy=True)
        good = finite_images(images)
        if good.any():
            labels = batch.labels.to(like.device).view(len(images), -1)[:, 0]
            yield images[good], labels[good]


def labelled(labels: Tensor, logits: Tensor) -> Tensor:
    """Labels [B] of source images; unknown ones (-1) are predicted from their logits [B,C].

    Raises:
        HoldfastError: if a label is not below the number of logits.
    """
    if labels.max() >= logits.shape[1]:
        raise HoldfastError(
            f"The source images have labels up to {int(labels.max())}, and the backbone has "
            f"{logits.shape[1]} logits. Pass source_data with the backbone's classes."
        )
    if (unknown := labels < 0).any():
        rank_zero_warn(
            "The source images have no labels, so the source model's predictions would be used as "
            "labels. Pass labelled source_data."
        )
    return torch.where(unknown, logits.argmax(1), labels)
