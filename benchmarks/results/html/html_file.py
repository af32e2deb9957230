"""One self-contained HTML file: tables, data, charts and the library that draws them."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .... import HoldfastError
from ....files import unwritable, whole_file
from ....templates import environment
from ..text_table import Lines

HERE = Path(__file__).parent
MOST_BYTES = 5_000_000  # the size limit of mail
DIGITS = 5  # of numbers along curves


def check(file: Path) -> None:
    """Refuse, before any work, to make a page where it cannot be written.

    Raises:
        HoldfastError: which says what to change.
    """
    if file.is_dir() or not file.absolute().parent.is_dir():
        raise HoldfastError(
            f"{file} cannot be written: give --html a file in a folder that exists."
        )


def library() -> str:
    """The charts' code.

    Raises:
        HoldfastError: if it is not installed.
    """
    try:
        from bokeh.resources import Resources
    except ImportError:
        raise HoldfastError(
            "--html draws its charts with bokeh, which is not installed: pip install 'holdfast[html]'."
        ) from None
    parts = Resources(mode="inline", components=["bokeh", "bokeh-api"], log_level="error").js_raw
    return "\n".join(parts).replace("</script", "<\\/script")


def write(file: Path, template: str, data: Mapping[str, Any], **shown: Any) -> Path:
    """Write the page of a template in this folder; `data` is in it as JSON, and what charts show.

    Raises:
        HoldfastError: if the page is too large for mail, or the disk full.
    """
    from markupsafe import Markup

    own = environment(HERE)
    own.globals["numeric"] = numeric
    page = own.get_template(template).render(
        data=Markup(as_json(data)), library=lambda: Markup(library()), **shown
    )
    content = page.encode(errors="replace")
    if len(content) > MOST_BYTES:
        raise HoldfastError(
            f"the page would have {len(content) / 1e6:.1f} MB, more than mail takes. "
            "Choose a folder with fewer runs."
        )
    try:
        with whole_file(file) as partial:
            partial.write_bytes(content)
    except OSError as error:
        raise unwritable(file, error, "or choose another file.") from None
    return file


def numeric(lines: Lines) -> list[bool]:
    """Which columns of a table hold numbers, beside "-" and "?"."""
    columns = list(zip(*lines[1:], strict=True)) or [()] * len(lines[0])
    return [any(cell.lstrip("+-")[:1].isdigit() for cell in column) for column in columns]


def as_json(content: Any) -> str:
    """JSON that is safe inside HTML, with null for numbers that are not finite."""
    text = json.dumps(plain(content), ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def plain(content: Any) -> Any:
    """The content for JSON: lists for tuples and arrays."""
    if isinstance(content, Mapping):
        return {str(key): plain(value) for key, value in content.items()}
    if isinstance(content, np.ndarray | np.generic):
        return plain(content.tolist())
    if isinstance(content, Sequence) and not isinstance(content, str):
        return [plain(value) for value in content]
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    return content if isinstance(content, str | int | bool | None) else str(content)


def rounded(values: np.ndarray) -> list[float]:
    """Numbers along a curve, rounded to what is visible."""
    return [round(float(value), DIGITS) for value in values]
