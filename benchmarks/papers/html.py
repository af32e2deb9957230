"""The page of `holdfast paper NAME --html FILE`: tables, figures, published numbers and verdicts."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import pandas as pd

from ..results import html_page
from .experiment import Experiment
from .page import NO_CLAIM, content


def write(file: Path, shown: list[tuple[Experiment, dict[str, Any], Path]]) -> Path:
    """Write the page of experiments with their results and figures."""
    sections = [section(*one) for one in shown]
    names = ", ".join(own.name for own, _, _ in shown)
    data = {own.name: results for own, results, _ in shown}
    parts = {"title": names, "sections": sections, "none": NO_CLAIM}
    return html_page.write(file, "paper.html", data=data, **parts)


def section(own: Experiment, results: dict[str, Any], picture: Path) -> dict[str, Any]:
    """The section of the page on one experiment."""
    image = b64encode(picture.read_bytes()).decode() if picture.exists() else ""
    found = content(own, results)
    return {
        **{"name": own.name, "shows": own.shows},
        **found._asdict(),
        **{"ours": pd.DataFrame(found.ours[1:], columns=list(found.ours[0]))},
        "published": found.published
        and pd.DataFrame(found.published[1:], columns=list(found.published[0])),
        "picture": f"data:image/png;base64,{image}" if image else "",
    }
