"""`holdfast test` on several devices: the seeds and folder of each stream, and error reporting."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from jsonargparse import Namespace
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from ... import HoldfastError
from ...methods.distributed.strategies import StreamsStrategy, SyncStrategy, stream_number

OUT = "HOLDFAST_OUT"  # environment variable with the folder of all streams if --out is not given


def default_folder(config: Namespace) -> Path:
    """The default run folder."""
    return Path("runs") / f"{class_name(config.model)}-{datetime.now():%Y%m%d-%H%M%S}"


def class_name(config: Namespace) -> str:
    """The short name of the class that a configuration names."""
    return config.class_path.rpartition(".")[2]


def has_streams(config: Namespace) -> bool:
    """Whether each device runs its own stream."""
    return config.trainer.strategy == StreamsStrategy.strategy_name


def is_further_rank(config: Namespace) -> bool:
    """Whether this process only shares the work of a run whose folder another process writes."""
    return config.trainer.strategy == SyncStrategy.strategy_name and stream_number() > 0


def become_stream(config: Namespace, number: int) -> None:
    """Set the seeds of one of several streams, and its folder OUT/seed-SEED."""
    data = config.data.get("init_args", {})
    if "seed" not in data:
        raise HoldfastError(
            f"Streams on several devices need different seeds, but {class_name(config.data)} has no "
            "seed. Use one device."
        )
    data.seed += number
    if not isinstance(config.seed_everything, bool):
        config.seed_everything += number
    config.progress = config.progress and number == 0
    if config.out is None and number and OUT not in os.environ:
        raise HoldfastError("Several streams need a common folder. Pass --out FOLDER.")
    folder = config.out or os.environ.setdefault(OUT, str(default_folder(config)))
    config.out = Path(folder) / f"seed-{data.seed}"


def on_one_device(config: Namespace) -> Namespace:
    """The configuration that repeats one of several streams; other configurations are unchanged."""
    if not has_streams(config):
        return config
    config = config.clone()
    config.trainer.strategy, config.trainer.devices = "auto", 1
    return config


@contextmanager
def one_rank_reports() -> Iterator[None]:
    """Let other ranks exit silently if rank 0, which started them, reports the same error."""
    first = os.getppid()
    try:
        yield
    except (HoldfastError, KeyboardInterrupt):
        if rank_zero_only.rank > 0:  # type: ignore[attr-defined]
            time.sleep(2)
            if os.getppid() != first:
                raise SystemExit(2) from None
        raise
