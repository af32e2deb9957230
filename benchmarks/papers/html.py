"""The page of `holdfast paper NAME --html FILE`: tables, figures, published numbers and verdicts."""

from base64 import b64encode
from pathlib import Path
from typing import Any

from ...files import read_json
from ..results.html import page
from .artefact import Artefact
from .page import NO_CLAIM, content, missing_text, reason, verdicts


def write(file: Path, shown: list[tuple[Artefact, Path]]) -> Path:
    """The page of artefacts whose results and pictures lie in these folders."""
    kept = [read_json(folder / f"{artefact.file}.json") for artefact, folder in shown]
    sections = [section(*place, own) for place, own in zip(shown, kept, strict=True)]
    names = ", ".join(artefact.name for artefact, _ in shown)
    data = {artefact.name: own for (artefact, _), own in zip(shown, kept, strict=True)}
    return page.write(file, "paper.html", data, title=names, sections=sections, none=NO_CLAIM)


def section(artefact: Artefact, folder: Path, kept: dict[str, Any]) -> dict[str, Any]:
    """What the page says of one artefact."""
    judged = verdicts(artefact, kept)
    picture = b64encode((folder / f"{artefact.file}.png").read_bytes()).decode()
    return {
        "name": artefact.name,
        "shows": artefact.shows,
        **content(artefact, kept)._asdict(),
        "missing": missing_text(kept),
        "weights": kept.get("weights", []),
        "verdicts": judged,
        "why": reason(artefact, kept, judged),
        "picture": f"data:image/png;base64,{picture}",
    }
