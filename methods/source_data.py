"""Source images: which a method learns from before the stream begins, and which it stores for later."""

from collections.abc import Iterable, Iterator, Sized
from typing import Any

import torch
from lightning.pytorch import LightningDataModule, Trainer
from lightning.pytorch.utilities.combined_loader import CombinedLoader
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor
from torch.utils.data import DataLoader

from .. import HoldfastError
from ..batch import Batch, as_batch
from ..tensors import compact, expanded, finite_images

_FROM_STREAM = 2000  # images, as many as CCC's EATA looks at


def first_batches(
    trainer: Trainer, data: LightningDataModule | None, images: int
) -> Iterator[Batch]:
    """The first `images`, in whole batches, of the data's test loader, or else of the run's stream.

    Those of the stream, FROM_STREAM at most, come without their labels.
    """
    of_stream, datamodule = data is None, trainer.datamodule  # type: ignore[attr-defined]
    if data is not None:
        data.prepare_data()
        if adopt := getattr(data, "adopt", None):  # a stream, which has no Trainer here
            adopt(getattr(trainer.lightning_module, "backbone", None))
        data.setup("test")
        loaders = data.test_dataloader()
    elif datamodule is not None:  # makes new loaders for this
        loaders = (
            datamodule.test_dataloader() if trainer.testing else datamodule.predict_dataloader()
        )
    else:
        loaders = trainer.test_dataloaders if trainer.testing else trainer.predict_dataloaders
    images = min(images, _FROM_STREAM) if of_stream else images
    seen = 0
    for content, *_ in CombinedLoader(loaders, "sequential"):
        batch = as_batch(content, seen, 0)
        seen += len(batch.images)
        yield batch._replace(labels=torch.full_like(batch.labels, -1)) if of_stream else batch
        if seen >= images:
            return


def left_out(loader: Any) -> int:
    """The number of images at the end that a DataLoader with `drop_last` leaves out; 0 for other data."""
    if isinstance(loader, DataLoader) and loader.drop_last and isinstance(loader.dataset, Sized):
        return len(loader.dataset) % (loader.batch_size or 1)
    return 0


def finite_batches(batches: Iterable[Any], like: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The finite images of batches with their labels [B], with the device and type of `like`.

    If an image has several labels, the first one counts.
    """
    for content in batches:
        batch = as_batch(content, 0, 0)
        images = batch.images.detach().to(like.device, like.dtype, copy=True)
        good = finite_images(images)
        if good.any():
            labels = batch.labels.to(like.device).view(len(images), -1)[:, 0]
            yield images[good], labels[good]


def labelled(labels: Tensor, logits: Tensor) -> Tensor:
    """Labels [B] of source images; unknown ones (-1) are predicted from their logits [B,C].

    Raises HoldfastError if a label is not below the number of logits.
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


def store(images: Tensor, labels: Tensor) -> dict[str, Any]:
    """Images [N,3,H,W] and labels [N] as state; images as uint8 if that is lossless."""
    return {"images": compact(images), "labels": labels}


def replay_batch(source: dict[str, Any], first: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Stored images [B,3,H,W] and labels [B], one for each row of `like`, cyclically from `first` on."""
    rows = (torch.arange(len(like), device=like.device) + first) % len(source["labels"])
    return expanded(source["images"][rows]).to(like.dtype), source["labels"][rows]
