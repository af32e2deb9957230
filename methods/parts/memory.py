"""Memories of images from the stream, and the methods that learn from one."""

from collections import Counter
from random import Random
from typing import Any, ClassVar

import torch
from torch import Tensor

from ...tensors import on_device, on_host
from ..base import TTAMethod

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
        # For rules that draw lots; the method reseeds it before each batch.
        self.random = Random()

    @staticmethod
    def empty() -> dict[str, Any]:
        """The content of an empty memory."""
        return {"items": [], "images": None}

    def make_room(self, content: dict[str, Any], label: int, value: float) -> bool:
        """Remove an item if necessary; returns whether the new image is stored."""
        raise NotImplementedError

    def drop_of_largest(self, items: list[Item], label: int) -> None:
        """Remove a random item of the label if that is a largest class, or else of a random largest one."""
        top = largest(Counter(item["label"] for item in items))
        shrinking = label if label in top else self.random.choice(top)
        members = [index for index, item in enumerate(items) if item["label"] == shrinking]
        del items[members[self.random.randrange(len(members))]]

    def add(self, content: dict[str, Any], images: Tensor, labels: Tensor, values: Tensor) -> None:
        """Offer images [B,3,H,W] with labels [B] and values [B] one after the other; changes `content`."""
        items, arrivals = content["items"], {}
        pairs = zip(labels.tolist(), values.tolist(), strict=True)
        for position, (label, value) in enumerate(pairs):
            if self.make_room(content, label, value):
                slot = min(set(range(self.capacity)).difference(item["slot"] for item in items))
                items.append({"label": label, "value": value, "age": 0, "slot": slot})
                arrivals[slot] = position  # a later arrival may take the same slot again
            for item in items:
                item["age"] += 1
        if arrivals:
            if content["images"] is None:
                content["images"] = images.new_zeros(self.capacity, *images.shape[1:])
            both = torch.tensor([list(arrivals), list(arrivals.values())])
            slots, positions = on_device(both, images.device)
            content["images"][slots] = images[positions]

    def read(self, content: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """The images [M,3,H,W] and their ages [M] / capacity, ordered by label and then by arrival."""
        items = sorted(content["items"], key=lambda item: item["label"])
        device = content["images"].device
        slots = on_device(torch.tensor([item["slot"] for item in items]), device)
        # float32 in float64 runs, too: Adam would magnify the difference to the official code.
        ages = torch.tensor([item["age"] / self.capacity for item in items], dtype=torch.float32)
        return content["images"][slots], on_device(ages, device)


def largest(count: Counter[int]) -> list[int]:
    """The labels of the largest classes, in order."""
    most = max(count.values(), default=0)
    return sorted(label for label in count if count[label] == most)


class MemoryMethod(TTAMethod):
    """A method that predicts first, and learns from a memory after `every` images, or each batch (None)."""

    no_window: ClassVar[str] = "has a memory of images"
    repetitions = 1
    memory: Any
    every: int | None

    def fresh_state(self) -> dict[str, Any]:
        return {"seen": 0, "memory": (self.memory or Memory).empty()}

    def remember(self, images: Tensor, labels: Tensor, values: Tensor) -> None:
        """Offer images [B,3,H,W] with labels [B] and values [B] to the memory; learn from it where due."""
        memory, state, size, start = self.memory, self.state, len(images), 0
        self.draw()
        labels, values = on_host(labels, values)
        self.activity.waiting = True
        while start < size:
            left = size if self.every is None else self.every - state["seen"] % self.every
            part = slice(start, min(size, start + left))
            memory.add(state["memory"], images[part], labels[part], values[part])
            state["seen"] += part.stop - start
            if part.stop - start == left:
                self.activity.waiting = False
                self.learn_from(state["memory"])
            start = part.stop

    def learn_from(self, content: dict[str, Any]) -> None:
        """The `steps` updates on a memory's content, if there is any."""
        if content["items"]:
            for repetition in range(self.steps):
                self.repetition = repetition
                self.learn(*self.memory.read(content))
            self.repetition = 0

    def draw(self) -> None:
        """Seed the rule's random numbers for this batch."""
        name = type(self.memory).__name__
        self.memory.random.seed(f"{self.seed} {self.steps_since_reset} {name}")

    def learn(self, images: Tensor, ages: Tensor) -> None:
        """One update on the memory's images [M,3,H,W], of these ages [M]."""
        raise NotImplementedError
