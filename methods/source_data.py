"""Images that a method looks at before the stream begins."""

from collections.abc import Iterator

from lightning.pytorch import LightningDataModule

from ..batch import Batch, as_batch
from .online_test import OnlineTest


def first_batches(
    method: OnlineTest, data: LightningDataModule | None, images: int
) -> Iterator[Batch]:
    """The first `images`, in whole batches, of the data's test loader, or else of the run's stream."""
    if data is not None:
        data.prepare_data()
        data.setup("test")
    seen = 0
    for found in method.look_ahead() if data is None else data.test_dataloader():
        batch = as_batch(found, seen, 0)
        yield batch
        seen += len(batch.images)
        if seen >= images:
            return
