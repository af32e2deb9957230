"""`holdfast test` on several devices: each stream's seeds and folder, and which process prints errors."""

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

OUT = "HOLDFAST_OUT"  # in the environment: the folder of all streams, where --out gives none


def default_folder(config: Namespace) -> Path:
    """The default folder of a run."""
    return Path("runs") / f"{class_name(config.model)}-{datetime.now():%Y%m%d-%H%M%S}"


def class_name(config: Namespace) -> str:
    """The short name of the class that a configuration names."""
    return config.class_path.rpartition(".")[2]


def has_streams(config: Namespace) -> bool:
    """Whether each device runs a stream of its own."""
    return config.trainer.strategy == StreamsStrategy.strategy_name


def is_further_rank(config: Namespace) -> bool:
    """Whether another process writes this run's folder, and this one only shares the work."""
    return config.trainer.strategy == SyncStrategy.strategy_name and stream_number() > 0


def become_stream(config: Namespace, number: int) -> None:
    """Give one of several streams its own seeds, and its own folder OUT/seed-SEED."""
    data = config.data.get("init_args", {})
    if "seed" not in data:
        raise HoldfastError(
            f"streams on several devices differ in their seed, but {class_name(config.data)} has "
            "none: use one device."
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
    """The configuration that runs one of several streams again; any other as it is."""
    if not has_streams(config):
        return config
    config = config.clone()
    config.trainer.strategy, config.trainer.devices = "auto", 1
    return config


@contextmanager
def one_rank_reports() -> Iterator[None]:
    """Let further ranks end silently where the first, which started them, reports the same error."""
    first = os.getppid()
    try:
        yield
    except (HoldfastError, KeyboardInterrupt):
        if rank_zero_only.rank > 0:  # type: ignore[attr-defined]
            time.sleep(2)
            if os.getppid() != first:
                raise SystemExit(2) from None
        raise
