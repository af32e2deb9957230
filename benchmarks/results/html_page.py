"""Write one self-contained HTML file from a template of this folder."""

from pathlib import Path
from typing import Any

import pandas as pd

from ... import HoldfastError
from ...files import unwritable, whole_file

TEMPLATES = Path(__file__).parent / "templates"


def check(file: Path) -> None:
    """Refuse, before any work, a path that cannot be written.

    Raises:
        HoldfastError: if the folder does not exist.
    """
    if file.is_dir() or not file.absolute().parent.is_dir():
        raise HoldfastError(
            f"Cannot write {file}. Pass --html a file in an existing, writable folder."
        )


def write(file: Path, template: str, **shown: Any) -> Path:
    """Render a template to a file; a data frame in it is a table whose columns can be sorted.

    Raises:
        HoldfastError: if the file cannot be written.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # deferred: slow import
    from markupsafe import Markup

    def table(frame: pd.DataFrame) -> Markup:
        with pd.option_context("display.max_colwidth", None):
            return Markup(frame.to_html(index=False, border=0, justify="left"))

    pages = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined
    )
    pages.trim_blocks = pages.lstrip_blocks = True
    pages.policies["json.dumps_kwargs"] = {"sort_keys": False}  # Bokeh's charts depend on the order
    pages.filters["table"] = table
    page = pages.get_template(template).render(**shown)
    try:
        with whole_file(file) as partial:
            partial.write_bytes(page.encode(errors="replace"))
    except OSError as error:
        raise unwritable(file, error, "or choose another file.") from None
    return file
