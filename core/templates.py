"""Pages from templates: inserted values are escaped, and an undefined name is an error."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def environment(folder: Path) -> "Environment":
    """The templates of a folder; `inline(name)` inserts one of its files into a page without
    escaping."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    found = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals["inline"] = lambda name: Markup((folder / name).read_text(encoding="utf-8"))
    return found
