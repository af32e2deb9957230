"""Agreement-on-the-line for finetuned models: Saxena et al. 2024."""

from . import tables  # noqa: F401
