"""Pages from templates: what a template shows is escaped, and a name that is missing is an error."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def environment(folder: Path) -> "Environment":
    """The templates of a folder; `inline(name)` puts a file of it into a page as it is."""
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
