"""A stream that does not wait: batches that arrive while a method is busy are dropped."""

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import HoldfastError, in_range, step_times
from ..batch import Batch
from .loader import StreamLoader
from .stream import Stream
from .wrapper import ReorderingWrapper, length_of


class Deadline(ReorderingWrapper):
    """Another stream whose batches arrive at fixed intervals (TEMPORA's discrete utility, 2602.06136).

    Batch i arrives at i * interval. It is processed at once if the method is free and none waits; else it
    waits if the queue has room or takes the place of the oldest waiting batch; without a queue it is
    dropped. After the last arrival those that wait are processed. Dropped batches are neither seen nor
    adapted to. The official code warms up with five steps before the first batch; this one does not.

    With `times` a run repeats bit for bit and resumes. Without them the times are measured: those of
    the method's steps in a Trainer, else the time from one batch to the next; such a run is another one
    each time, and on an accelerator the host waits for each step. Let no other wrapper contain it.

    Args:
        stream: the other stream, from its first image on; with measured times it must end.
        interval: time from one arrival to the next, in the unit of `times`; seconds if these are measured.
        queue: number of batches that can wait (the official code: 0, and 1 for most of the paper).
        times: time of a step, such as its multiple of the source model's; or those of the arriving
            batches, again from the first one after the last; None: measured.
        **kwargs: see `StreamWrapper`.

    Example:
        >>> from holdfast.datamodules import Clean, Deadline, Glyphs
        >>> half = Deadline(Clean(Glyphs(), images=256), interval=1, times=2)
        >>> half.images, half.positions(torch.tensor([0, 64])).tolist()
        (128, [0, 128])
    """

    facts = ("interval", "queue", "times", "batch_size", "arriving")

    def __init__(
        self,
        stream: Stream,
        interval: float,
        queue: int = 0,
        times: float | Sequence[float] | None = None,
        **kwargs: Any,
    ) -> None:
        in_range(0, queue=queue, interval=interval)
        steps = step_times(times)
        if stream.start or times is None:
            length_of(stream, type(self).__name__)
        super().__init__(stream, stream.images, **kwargs)
        if self.start % self.batch_size:
            raise HoldfastError(
                f"start={self.start} is within a batch. Pass a multiple of {self.batch_size} images."
            )
        self.interval, self.queue, self.times, self.steps = interval, queue, times, steps
        self.arriving = stream.images
        count = None if stream.images is None else -(-stream.images // self.batch_size)
        self.pipeline = Pipeline(interval, queue, count)
        self.pipeline.arrived = 0 if steps else self.start // self.batch_size
        self._processed: list[int] = []  # the arriving batches that are processed, in order
        self._begun: float | None = None  # when the current batch began, if times are measured
        if steps and stream.images is not None and count is not None:
            self._look_ahead(count)
            last = self._processed[-1]
            size = min(self.batch_size, stream.images - last * self.batch_size)
            self.images = (len(self._processed) - 1) * self.batch_size + size

    @classmethod
    def order_of(cls, facts: Mapping[str, Any], inner: str) -> str:
        times = "measured times" if facts["times"] is None else f"times {facts['times']}"
        queue = f", queue {facts['queue']}" if facts["queue"] else ""
        return f"{inner}, a batch each {facts['interval']:g} ({times}{queue})"

    def _look_ahead(self, count: int) -> None:
        """Find the first `count` batches that are processed, or all."""
        while len(self._processed) < count and (number := self.pipeline.begin()) is not None:
            self._processed.append(number)
            self.pipeline.finish(self.steps[number % len(self.steps)])

    def positions(self, index: Tensor) -> Tensor:
        if not self.steps:  # the loader drops batches
            return index
        numbers = (index // self.batch_size).tolist()
        self._look_ahead(max(numbers, default=-1) + 1)
        first = torch.tensor([self._processed[number] for number in numbers], dtype=torch.int64)
        return first * self.batch_size + index % self.batch_size

    def segments_at(self, index: Tensor) -> Tensor:
        return self.stream.segments_at(self.positions(index))

    def segment_at(self, position: int) -> int:
        return int(self.segments_at(torch.tensor([position])))

    def test_dataloader(self) -> StreamLoader:  # type: ignore[override]
        if self.steps:
            return super().test_dataloader()
        return _MeasuredLoader(self)

    predict_dataloader = test_dataloader

    def begin(self) -> int | None:
        """The position of the first image of the next batch to process; None after the last."""
        number, self._begun = self.pipeline.begin(), time.perf_counter()
        return None if number is None else number * self.batch_size

    def settle(self) -> None:
        """Tell the pipeline how long the batch has taken that it has begun."""
        if self._begun is not None:
            method = getattr(self.trainer, "lightning_module", None)
            ended = getattr(method, "times", {}).get("update_ended")
            elapsed = time.perf_counter() - self._begun
            self.pipeline.finish(elapsed if ended is None else float(ended))
            self._begun = None

    def state_dict(self) -> dict[str, Any]:
        if self.steps:
            return super().state_dict()
        self.settle()
        pipeline = vars(self.pipeline) | {"waiting": list(self.pipeline.waiting)}
        return super().state_dict() | {"pipeline": pipeline}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        if "pipeline" in state_dict:
            vars(self.pipeline).update(state_dict["pipeline"])
            self.pipeline.waiting = deque(state_dict["pipeline"]["waiting"])


class _MeasuredLoader(StreamLoader):
    """Drops the batches that arrive while a step takes its time."""

    def __init__(self, stream: Deadline) -> None:
        super().__init__(stream.batches(), stream.num_workers, stream.finished, stream.device)
        self.stream = stream

    def __iter__(self) -> Iterator[Batch]:
        if self.dataset.ranks > 1:
            raise HoldfastError(
                "The times of a step differ between devices, so each would drop different batches. Pass "
                "times= to Deadline."
            )
        batches = super().__iter__()
        while (position := self.stream.begin()) is not None:
            yield next(batch for batch in batches if batch.index[0] == position)
            self.stream.settle()


class Pipeline:
    """Which of the arriving batches are processed, and when (TEMPORA's discrete-time simulation).

    Call `begin`, process the batch, and pass its time to `finish`.

    Args:
        interval: time from one arrival to the next.
        queue: number of batches that can wait.
        batches: number of arriving batches; None: endless.
    """

    def __init__(self, interval: float, queue: int, batches: int | None) -> None:
        self.interval, self.queue, self.batches = interval, queue, batches
        self.arrived = 0
        self.waiting: deque[int] = deque()
        self.started = self.free_at = 0.0

    def begin(self) -> int | None:
        """The number of the next batch to process, which starts at `started`; None after the last."""
        while self.batches is None or self.arrived < self.batches:
            now = self.arrived * self.interval
            if self.free_at <= now and self.waiting:
                break
            number = self.arrived
            self.arrived += 1
            if self.free_at <= now:
                self.started = now
                return number
            if self.queue:
                if len(self.waiting) == self.queue:
                    self.waiting.popleft()
                self.waiting.append(number)
        if not self.waiting:
            return None
        self.started = self.free_at
        return self.waiting.popleft()

    def finish(self, time: float) -> None:
        """End the batch that was begun last, which took so long."""
        self.free_at = self.started + time
