"""Methods that are scored after an update, so that a prediction makes one and undoes it."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from ..base import TTAMethod
from ..state import Snapshot


class PredictsByUpdate(TTAMethod):
    """A method whose `update` returns logits from after its step."""

    @torch.no_grad()
    def predict(self, images: Tensor, network: nn.Module | None = None) -> Tensor:
        """The logits [B,C] that an update on images [B,3,H,W] would return; all changes are undone.

        network: another of the backbone's kind, which predicts without an update.
        """
        if network is not None:
            return super().predict(images, network)
        before, trace = Snapshot(self.restorable, self.optimizer), self.trace
        before.take(self.state)
        self.trace = {}
        with torch.inference_mode(False), torch.enable_grad():
            logits = self.update(images.detach()).detach()
        self.state, self.trace = before.undo(), trace
        return self.corrected(logits)


class ImageMethod(PredictsByUpdate):
    """A method that adapts to each image separately, and scores it after its steps."""

    no_window: ClassVar[str] = "adapts to single images"
    repetitions = 1
    # The position in the batch of the image that `update_on` gets.
    number = 0

    def update(self, images: Tensor) -> Tensor:
        rows = []
        for self.number, image in enumerate(images.split(1)):
            rows.append(self.update_on(image))
        self.number = 0
        return torch.cat(rows)

    def update_on(self, image: Tensor) -> Tensor:
        """Take `steps` steps on an image [1,3,H,W]; returns the logits [1,C] from after them."""
        raise NotImplementedError

    def generator(self, purpose: str) -> torch.Generator:
        """Random numbers of each image, as of each step."""
        return super().generator(f"{purpose} image {self.number}" if self.number else purpose)
