"""How learning rates were chosen: the rule of the RDumb paper's hold-out."""

from ..rdumb.rates import table

__all__ = ["table"]
