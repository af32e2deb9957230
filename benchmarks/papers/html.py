"""The page of `holdfast paper NAME --html FILE`: tables, figures, published numbers and verdicts."""

from base64 import b64encode
from pathlib import Path
from typing import Any

from ...files import read_json
from ..results.html import page
from .artefact import Artefact
from .page import NO_CLAIM, content, missing_text
from .table import Table, judge


def write(file: Path, shown: list[tuple[Artefact, Path]]) -> Path:
    """The page of artefacts whose results and pictures lie in these folders."""
    sections = [section(artefact, folder) for artefact, folder in shown]
    names = ", ".join(artefact.name for artefact, _ in shown)
    data = {artefact.name: kept_in(artefact, folder) for artefact, folder in shown}
    return page.write(file, "paper.html", data, title=names, sections=sections, none=NO_CLAIM)


def kept_in(artefact: Artefact, folder: Path) -> dict[str, Any]:
    return read_json(folder / f"{artefact.file}.json")


def section(artefact: Artefact, folder: Path) -> dict[str, Any]:
    """What the page says of one artefact."""
    kept = kept_in(artefact, folder)
    picture = b64encode((folder / f"{artefact.file}.png").read_bytes()).decode()
    return {
        "name": artefact.name,
        "shows": artefact.shows,
        **content(artefact, kept)._asdict(),
        "missing": missing_text(kept),
        "weights": kept.get("weights", []),
        "verdicts": [judge(claim, Table(**kept["table"])) for claim in artefact.claims],
        "picture": f"data:image/png;base64,{picture}",
    }
