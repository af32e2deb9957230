"""RDumb and CCC: Press et al. 2023, and chapter 2 of Ori Press's thesis."""

from . import tables, figures, walks  # noqa: F401, I001
