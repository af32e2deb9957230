"""The frozen source model."""

from collections.abc import Iterable

from torch import Tensor, nn

from .base import TTAMethod


class Source(TTAMethod):
    """The source model as it was trained: running statistics, no adaptation; the optimizer has no
    effect."""

    def prepare(self) -> None:
        """Leave the backbone as it is."""

    def adaptable_parameters(self) -> Iterable[nn.Parameter]:
        return ()

    def update(self, images: Tensor) -> Tensor:
        return self.predict(images)
