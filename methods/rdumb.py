"""RDumb: ETA with a periodic reset to the source model."""

from typing import Any, ClassVar

from torch import nn
from torch.optim import SGD

from .. import in_range
from ..callbacks.recovery import Recovery
from ..callbacks.resets import PeriodicReset
from .eta import ETA
from .optimizers import OptimizerCallable


class RDumb(ETA):
    """ETA with a PeriodicReset, nothing more (Press et al. 2023, section 3; thesis §2.3).

    Args:
        every: steps between two resets.
    """

    tunable: ClassVar = ("every", 2)  # table 2.4 of Press's thesis

    def __init__(
        self,
        backbone: str | nn.Module,
        optimizer: OptimizerCallable = lambda params: SGD(params, lr=2.5e-4, momentum=0.9),
        every: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, optimizer, **kwargs)
        in_range(1, every=every)
        self.period = every

    def paper_recovery(self) -> Recovery:
        return PeriodicReset(self.period)
