"""Methods that came after the papers, on streams that the papers do not have."""

from . import deadline, tables  # noqa: F401
