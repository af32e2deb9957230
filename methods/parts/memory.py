"""Memories of images from the stream; subclasses decide which images to store."""

import math
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import torch
from torch import Tensor

Item = dict[str, Any]  # label: int, value: float, age: int (arrivals since its own), slot: int


class Memory:
    """The rule by which at most `capacity` images are stored, each with a label and a value.

    A rule is created once and contains only settings. Its `content` is a plain dict made by `empty`
    and part of the method's `state`, so it is saved, moved and reset with it: `items`, the oldest
    first, and one tensor `images` in which each item has a slot. A whole batch of images is stored
    by one indexed copy.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity

    @staticmethod
    def empty() -> dict[str, Any]:
        """The content of an empty memory."""
        return {"items": [], "images": None}

    def make_room(self, items: list[Item], label: int, value: float) -> bool:
        """Remove an item if necessary; returns whether the new image is stored."""
        raise NotImplementedError

    def add(self, content: dict[str, Any], images: Tensor, labels: Tensor, values: Tensor) -> None:
        """Offer images [B,3,H,W] with labels [B] and values [B] one after the other; changes `content`."""
        items, arrivals = content["items"], {}
        for position, (label, value) in enumerate(
            zip(labels.tolist(), values.tolist(), strict=True)
        ):
            if self.make_room(items, label, value):
                slot = min(set(range(self.capacity)).difference(item["slot"] for item in items))
                items.append({"label": label, "value": value, "age": 0, "slot": slot})
                arrivals[slot] = position  # a later arrival may take the same slot again
            for item in items:
                item["age"] += 1
        if arrivals:
            if content["images"] is None:
                content["images"] = images.new_zeros(self.capacity, *images.shape[1:])
            content["images"][list(arrivals)] = images[list(arrivals.values())]

    def read(self, content: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """The images [M,3,H,W] and their ages [M] / capacity, ordered by label and then by arrival."""
        items = sorted(content["items"], key=lambda item: item["label"])
        images = content["images"][[item["slot"] for item in items]]
        # float32 in float64 runs, too: Adam would magnify the difference to the official code.
        ages = torch.tensor([item["age"] / self.capacity for item in items], dtype=torch.float32)
        return images, ages.to(images.device)


class CSTU(Memory):
    """RoTTA's memory: balanced classes, with preference for recent and certain images.

    Removes the item with the highest lambda_t / (1 + e^(-age/N)) + lambda_u H / ln C, where the entropy H
    is its value, if that is higher than the new image's (Yuan et al. 2023).

    Args:
        classes: their number C; a class holds at most N / C images.
        early_quota: apply that quota also before the memory is full, as in RoTTA's own code.
    """

    def __init__(
        self,
        capacity: int,
        classes: int,
        lambda_t: float = 1.0,
        lambda_u: float = 1.0,
        early_quota: bool = True,
    ) -> None:
        super().__init__(capacity)
        self.classes, self.lambda_t, self.lambda_u = classes, lambda_t, lambda_u
        self.early_quota = early_quota

    def score(self, age: int, entropy: float) -> float:
        timeliness = self.lambda_t / (1 + math.exp(-age / self.capacity))
        return timeliness + self.lambda_u * entropy / math.log(self.classes)

    def make_room(self, items: list[Item], label: int, value: float) -> bool:
        count, full = Counter(item["label"] for item in items), len(items) >= self.capacity
        within_quota = count[label] < self.capacity / self.classes
        if not full and (within_quota or not self.early_quota):
            return True
        rivals = largest(count) if within_quota else [label]
        scored = [
            (self.score(item["age"], item["value"]), item["label"], index)
            for index, item in enumerate(items)
            if item["label"] in rivals
        ]
        worst, _, index = max(scored, default=(-math.inf, 0, 0))
        if worst <= self.score(0, value):
            return not scored
        del items[index]
        return True


class HUS(Memory):
    """SoTTA's memory: confident images only, with balanced classes (Gong et al. 2023).

    When it is full, it removes a random image of the new image's class if that class is among the largest,
    otherwise one of a random largest class.

    Args:
        confidence: smallest value of an image that is stored.
        random: chooses the image to remove; the method reseeds it before each batch.
    """

    def __init__(self, capacity: int, confidence: float, random: Random) -> None:
        super().__init__(capacity)
        self.confidence, self.random = confidence, random

    def make_room(self, items: list[Item], label: int, value: float) -> bool:
        if value < self.confidence:
            return False
        if len(items) >= self.capacity:
            top = largest(Counter(item["label"] for item in items))
            shrinking = label if label in top else self.random.choice(top)
            members = [index for index, item in enumerate(items) if item["label"] == shrinking]
            del items[members[self.random.randrange(len(members))]]
        return True


class PBRS(Memory):
    """NOTE's memory: a random sample of the stream with balanced classes.

    Prediction-balanced reservoir sampling (Gong et al. 2022, Alg. 1): when it is full, a new image of a
    class that is not among the largest replaces a random image of a random largest class. One of a
    largest class replaces a random image of its own class, with the probability for which the stored
    ones remain a uniform sample of all images of that class.

    Args:
        random: source of random numbers, which the method reseeds before each batch.
    """

    def __init__(self, capacity: int, random: Random) -> None:
        super().__init__(capacity)
        self.random = random
        self.arrived: dict[int, int] = {}  # images of each class so far, in the content that grows

    @staticmethod
    def empty() -> dict[str, Any]:
        return {**Memory.empty(), "arrived": {}}

    def add(self, content: dict[str, Any], images: Tensor, labels: Tensor, values: Tensor) -> None:
        self.arrived = content["arrived"]
        super().add(content, images, labels, values)

    def make_room(self, items: list[Item], label: int, value: float) -> bool:
        self.arrived[label] = self.arrived.get(label, 0) + 1
        if len(items) < self.capacity:
            return True
        count = Counter(item["label"] for item in items)
        top = largest(count)
        shrinking = label if label in top else self.random.choice(top)
        if label in top and self.random.uniform(0, 1) > count[label] / self.arrived[label]:
            return False
        members = [index for index, item in enumerate(items) if item["label"] == shrinking]
        del items[members[self.random.randrange(len(members))]]
        return True


def largest(count: Counter[int]) -> list[int]:
    """The labels of the largest classes, in order."""
    most = max(count.values(), default=0)
    return sorted(label for label in count if count[label] == most)


def updates_within(seen: int, size: int, every: int) -> Iterator[tuple[slice, bool]]:
    """The parts of a batch, after `seen` images, that end where an update is due, or with the batch."""
    start = 0
    while start < size:
        stop = min(size, start + every - (seen + start) % every)
        yield slice(start, stop), (seen + stop) % every == 0
        start = stop
