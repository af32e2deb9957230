"""Write one self-contained HTML file with tables, data, charts and the charting library."""

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
MOST_BYTES = 5_000_000  # so that the file can be sent by mail
DIGITS = 5  # significant digits of numbers along curves


def check(file: Path) -> None:
    """Refuse, before any work, a path that cannot be written.

    Raises:
        HoldfastError: if the folder does not exist or is not writable.
    """
    if file.is_dir() or not file.absolute().parent.is_dir():
        raise HoldfastError(
            f"Cannot write {file}. Pass --html a file in an existing, writable folder."
        )


def library() -> str:
    """The JavaScript library of the charts.

    Raises:
        HoldfastError: if bokeh is not installed.
    """
    try:
        from bokeh.resources import Resources
    except ImportError:
        raise HoldfastError(
            "--html needs bokeh, which is not installed. Run: pip install 'holdfast[html]'."
        ) from None
    parts = Resources(mode="inline", components=["bokeh", "bokeh-api"], log_level="error").js_raw
    return "\n".join(parts).replace("</script", "<\\/script")


def write(file: Path, template: str, data: Mapping[str, Any], **shown: Any) -> Path:
    """Render a template of this folder to a file, with `data` embedded as JSON for the charts.

    Raises:
        HoldfastError: if the page exceeds MOST_BYTES or cannot be written.
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
            f"The page would have {len(content) / 1e6:.1f} MB; at most {MOST_BYTES / 1e6:g} MB are "
            "allowed. Choose a folder with fewer runs."
        )
    try:
        with whole_file(file) as partial:
            partial.write_bytes(content)
    except OSError as error:
        raise unwritable(file, error, "or choose another file.") from None
    return file


def numeric(lines: Lines) -> list[bool]:
    """Which columns of a table contain only numbers, "-" and "?"."""
    columns = list(zip(*lines[1:], strict=True)) or [()] * len(lines[0])
    return [any(cell.lstrip("+-")[:1].isdigit() for cell in column) for column in columns]


def as_json(content: Any) -> str:
    """JSON that is safe inside HTML, with null for non-finite numbers."""
    text = json.dumps(plain(content), ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def plain(content: Any) -> Any:
    """Convert tuples and arrays to lists for JSON."""
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
    """The numbers along a curve, rounded to DIGITS."""
    return [round(float(value), DIGITS) for value in values]
