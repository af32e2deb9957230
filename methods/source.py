"""The frozen source model."""

from .base import TTAMethod


class Source(TTAMethod):
    """The source model as it was trained: running statistics, no adaptation; an optimizer has no effect."""

    adapts = "nothing"

    def prepare(self) -> None:
        """Leave the backbone as it is."""
