"""MaNo: accuracy from the norm of normalised logits."""

from torch import Tensor

from .functional.logit_norms import mano
from .source_fit import LineFitted


class MaNo(LineFitted):
    """Accuracy from the matrix norm of normalised logits, by a fitted line (Xie et al. 2024, p = 4)."""

    def score(self, logits: Tensor) -> float:
        return float(mano(logits))
