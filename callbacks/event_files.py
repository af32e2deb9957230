"""A run's curves over the images seen: event files in its folder, and the Trainer's own loggers."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from lightning.pytorch.loggers import Logger, TensorBoardLogger


class Curves:
    """Writes points for TensorBoard into a run's folder, and hands them to the Trainer's loggers.

    Args:
        folder: folder of the run. It gets event files unless a TensorBoardLogger writes there already.
        loggers: the Trainer's.
        seen: images before a resumed run; points after them are discarded.
    """

    def __init__(self, folder: Path, loggers: Iterable[Logger], seen: int | None = None) -> None:
        self.loggers, self.writer = list(loggers), None
        if not any(writes_in(logger, folder) for logger in self.loggers):
            from torch.utils.tensorboard import SummaryWriter  # here: it takes a second to import

            self.writer = SummaryWriter(folder, purge_step=None if seen is None else seen + 1)

    def draw(self, values: Mapping[str, float], images: int) -> None:
        """One point of each curve."""
        for logger in self.loggers:
            logger.log_metrics(dict(values), step=images)
        if self.writer is not None:
            for name, value in values.items():
                self.writer.add_scalar(name, value, images)

    def mark(self, name: str, text: str, images: int) -> None:
        """A line of text in TensorBoard."""
        own = [
            logger.experiment for logger in self.loggers if isinstance(logger, TensorBoardLogger)
        ]
        for writer in own if self.writer is None else [self.writer]:
            writer.add_text(name, text, images)

    def flush(self) -> None:
        """Flush all points to disk."""
        for logger in self.loggers:
            logger.save()
        if self.writer is not None:
            self.writer.flush()

    def close(self) -> None:
        """Write the remaining points and close the file; the Trainer does so for its loggers."""
        if self.writer is not None:
            self.writer.close()


def writes_in(logger: Logger, folder: Path) -> bool:
    """Whether `tensorboard --logdir FOLDER` shows what this logger writes."""
    if not isinstance(logger, TensorBoardLogger):
        return False
    return Path(logger.log_dir).resolve().is_relative_to(folder.resolve())
