"""RDumb: ETA with a periodic reset to the source model."""

from typing import Any

from torch import nn

from ..callbacks.recovery import Recovery
from ..callbacks.resets import PeriodicReset
from .eta import ETA
from .optimizers import OptimizerFactory, sgd


class RDumb(ETA):
    """ETA with a PeriodicReset, nothing more (Press et al. 2023, section 3; thesis §2.3).

    Args:
        optimizer: for the parameters that adapt; default: SGD with learning rate 2.5e-4 and momentum 0.9.
        every: steps between two resets.
        **kwargs: see `ETA`.
    """

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerFactory = sgd,
        every: int = 1000,
        **kwargs: Any,
    ) -> None:
        self.period = every
        super().__init__(backbone, optimizer, **kwargs)

    def own_recovery(self) -> Recovery:
        return PeriodicReset(self.period)
