"""NuclearNorm: accuracy from confidence and dispersion of predictions."""

from torch import Tensor

from .functional.logit_norms import nuclear_norm
from .source_fit import LineFitted


class NuclearNorm(LineFitted):
    """Accuracy from the nuclear norm of a batch's probabilities, by a fitted line (Deng et al. 2023).

    The norm is large if predictions are certain and spread over many classes, so correlated labels lower
    it.
    """

    def score(self, logits: Tensor) -> float:
        return float(nuclear_norm(logits))
