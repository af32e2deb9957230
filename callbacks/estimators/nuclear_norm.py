"""NuclearNorm: accuracy from confidence and dispersion of predictions."""

from torch import Tensor

from ..functional.logit_norms import nuclear_norm
from .source_fit import LineFitted


class NuclearNorm(LineFitted):
    """The nuclear norm of a batch's probabilities (Deng et al. 2023), as accuracy by a line.

    It is large where predictions are certain and their classes many, so correlated labels lower it.
    """

    def score(self, logits: Tensor) -> float:
        return float(nuclear_norm(logits))
