"""The page of `holdfast paper NAME --html FILE`: tables, figures, published numbers and verdicts."""

from base64 import b64encode
from pathlib import Path
from typing import Any

from ..results.html import html_file
from .experiment import Experiment
from .page import NO_CLAIM, content


def write(file: Path, shown: list[tuple[Experiment, dict[str, Any], Path]]) -> Path:
    """Write the page of experiments with their results and figures."""
    sections = [section(*one) for one in shown]
    names = ", ".join(own.name for own, _, _ in shown)
    data = {own.name: results for own, results, _ in shown}
    return html_file.write(file, "paper.html", data, title=names, sections=sections, none=NO_CLAIM)


def section(own: Experiment, results: dict[str, Any], picture: Path) -> dict[str, Any]:
    """The section of the page on one experiment."""
    image = b64encode(picture.read_bytes()).decode() if picture.exists() else ""
    return {
        **{"name": own.name, "shows": own.shows},
        **content(own, results)._asdict(),
        "picture": f"data:image/png;base64,{image}" if image else "",
    }
