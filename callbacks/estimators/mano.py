"""MaNo: accuracy from the norm of normalised logits."""

from torch import Tensor

from ..functional.logit_norms import mano
from .source_fit import LineFitted


class MaNo(LineFitted):
    """The matrix norm of normalised logits (Xie et al. 2024, p = 4), as accuracy by a line."""

    def score(self, logits: Tensor) -> float:
        return float(mano(logits))
