"""Whether a method does anything: a warning if its first updates do not."""

from lightning.pytorch.utilities.rank_zero import rank_zero_warn

from ..callbacks.protocols import Adapting

# How many updates without effect cause a warning.
PATIENCE = 50


class Activity:
    """Counts a method's first updates, and the images that they selected."""

    def __init__(self) -> None:
        # The updates so far, PATIENCE at most, and the images that they selected, if the method selects.
        self.updates = 0
        self.selected: int | None = None
        # Whether a parameter was seen to differ from the source's.
        self.moved = False
        # Whether the last step only collected images, for a later update.
        self.waiting = False

    def count(self, method: Adapting) -> None:
        """Count a step; warns, once, if PATIENCE updates selected no image or changed no parameter."""
        trace = method.trace
        idle = method.optimizer is None or self.waiting or "not_finite" in trace
        if idle or self.updates >= PATIENCE:
            return
        self.updates += 1
        if "selected" in trace:
            self.selected = trace["selected"] + (self.selected or 0)
        if self.updates < PATIENCE:
            return
        name = type(method).__name__
        if self.selected == 0:
            rank_zero_warn(
                f"{name} selected no image in the first {PATIENCE} steps. Relax the limits by which it "
                "selects, such as entropy_factor or confidence, or use a backbone that is more certain of "
                "these images."
            )
        elif method.never_updated:
            rank_zero_warn(
                f"{name} changed no parameter in the first {PATIENCE} steps. Check the optimizer's "
                "learning rate and the loss."
            )
