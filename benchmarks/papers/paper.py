"""`holdfast paper`: every table and figure of the papers, each from one command."""

import argparse
import json
from pathlib import Path
from typing import Any

from ... import HoldfastError
from ...endings import sigterm_as_ctrl_c
from ...files import write_json
from ..results.html import page as html_page
from ..results.text import aligned
from ..suites import suite
from ..suites.cell import Cell, check_same
from . import html
from .artefact import SCALES, Artefact, artefacts, chosen
from .claims import overview
from .comparison import differences, unfinished
from .page import command, page, results, verdict
from .places import PLACES, placed, strings

DOCS = Path(__file__).parents[2] / "docs" / "papers"


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="holdfast paper",
        description=__doc__,
        epilog="example: holdfast paper rdumb/T2.4 --show",
    )
    parser.add_argument(
        "names", nargs="*", help="rdumb/T2.4, or rdumb for all of a paper; none: list"
    )
    parser.add_argument("--json", action="store_true", help="the list, for programs")
    parser.add_argument("--scale", choices=SCALES, default="embedded")
    parser.add_argument("--show", action="store_true", help="run nothing: show what is there")
    parser.add_argument(
        "--keep", action="store_true", help="in the package and docs/papers as well (a clone only)"
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="one page for a browser as well, with all of these",
    )
    for place in PLACES:
        parser.add_argument(
            f"--{place.option}", metavar="PATH", help=f"{place.help}, for full scale"
        )
    suite.add_options(parser)
    return parser


def main(argv: list[str]) -> int:
    """List the artefacts, or run what is missing for some and show them."""
    args = parser().parse_args(argv)
    if not args.names:
        shown = [entry(artefact) for artefact in artefacts().values()]
        print(json.dumps(shown, indent=1) if args.json else listing())
        return 0
    if args.html is not None:
        html_page.check(args.html)
    status, several = 0, chosen(args.names)
    for artefact in several:
        status = max(status, show(artefact, args))
    if args.html is not None:
        places = [(artefact, folder_of(artefact, args)) for artefact in several]
        print(f"page: {html.write(args.html, places)}")
    return status


def entry(artefact: Artefact) -> dict[str, Any]:
    """An artefact for programs."""
    kept = artefact.kept
    return {
        **{"name": artefact.name, "paper": artefact.paper, "shows": artefact.shows},
        **{"scales": artefact.scales, "suites": {k: list(v) for k, v in artefact.suites.items()}},
        **{"done": bool(kept), "verdict": verdict(artefact, kept), "remark": artefact.remark},
    }


def listing() -> str:
    """A line for each artefact: what it shows, its suites at both scales, and what came out."""
    lines = [["name", "shows", "embedded suite", "full-scale suite", "results"]]
    for artefact in artefacts().values():
        named = [
            " + ".join(artefact.suites[scale]) or "(nothing runs)"
            if scale in artefact.suites
            else "-"
            for scale in SCALES
        ]
        kept = artefact.kept
        came = verdict(artefact, kept) or "yes" if kept else "no"
        if "embedded" not in artefact.suites:
            came = artefact.remark
        lines.append([artefact.name, artefact.shows, *named, came])
    return aligned(lines)


def show(artefact: Artefact, args: argparse.Namespace) -> int:
    """Run what is missing, then print the page, draw the figure and write both down."""
    if args.scale not in artefact.suites:
        raise HoldfastError(f"{artefact.name} has no {args.scale} scale: {artefact.remark}")
    replaced = {k: v for k in ("out", "seeds") if (v := getattr(args, k)) is not None}
    cells = artefact.cells(args.scale, **replaced)
    if not args.show:
        train_missing(artefact, cells)
    cells = placed(cells, args, check=not args.show)
    failed = elsewhere = 0
    for cell in cells if args.show else ():
        check_same(cell)
    if artefact.runs and not args.show:
        with sigterm_as_ctrl_c():
            args.command = command(artefact, args.scale)
            failed, elsewhere = suite.run_cells(cells, args)
    missing: list[str] = []
    if artefact.of_ensembles is not None:
        from .ensembles import of_ensembles  # here: it loads torch

        table, missing = of_ensembles(artefact, args)
    else:
        table = artefact.table(args.scale, cells)
    if not table.rows:
        raise HoldfastError(f"{artefact.name} has no finished runs yet: leave --show out.")
    theirs = artefact.cells("full") if "full" in artefact.suites else []
    facts = {
        "differences": [
            str(found) for found in differences(cells, theirs, () if artefact.runs else ("data",))
        ],
        "missing": missing + (unfinished(cells) if artefact.runs else []),
        "weights": weights(cells) if artefact.runs else [],
    }
    folder = folder_of(artefact, args)
    kept = results(artefact, args.scale, table, **facts)
    write(artefact, kept, folder, cells)
    print(page(artefact, kept, picture=str(folder / f"{artefact.file}.png")))
    if args.keep:
        keep(artefact, kept, cells)
    if failed or elsewhere:
        print(f"runs failed: {failed}; runs that other processes have: {elsewhere}")
    return 1 if failed else 0


def train_missing(artefact: Artefact, cells: list[Cell]) -> None:
    """Train the source models that the cells need and that are not there yet."""
    from ..train import source

    needed = {text for cell in cells for text in strings(cell.config)}
    for file, options in artefact.trains.items():
        if file in needed and not Path(file).exists():
            source.main([*options, "--out", file])


def folder_of(artefact: Artefact, args: argparse.Namespace) -> Path:
    """Where its results are written beside the runs."""
    suites_own = "runs/papers/" + artefact.paper + ("" if args.scale == "embedded" else "-full")
    return Path(suites_own if args.out is None else args.out) / "artefacts"


def weights(cells: list[Cell]) -> list[str]:
    """The hashes of the source models' weights."""
    from ..results.runs import Run

    found = {Run.load(cell.folder).weights for cell in cells if cell.folder.exists()}
    return sorted(name for name in found if name)


def write(artefact: Artefact, kept: dict[str, Any], folder: Path, cells: list[Cell]) -> None:
    """Numbers, picture and page of an artefact."""
    from .picture import draw
    from .table import Table

    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{artefact.file}.json", kept)
    table, path = Table(**kept["table"]), folder / f"{artefact.file}.png"
    if artefact.picture is None:
        draw(table, path)
    else:
        artefact.picture(table, cells, path)
    text = page(artefact, kept, "markdown", f"{artefact.file}.png")
    (folder / f"{artefact.file}.md").write_text(text)


def keep(artefact: Artefact, kept: dict[str, Any], cells: list[Cell]) -> None:
    """The numbers as the package's own results, page and picture in docs/papers."""
    if kept["scale"] != "embedded" or kept["missing"]:
        raise HoldfastError(
            f"{artefact.name}: only whole results of the embedded scale are kept; the same command without "
            "--keep writes what is there beside the runs."
        )
    folder = DOCS / artefact.paper
    write(artefact, kept, folder, cells)
    artefact.results.parent.mkdir(exist_ok=True)
    (folder / f"{artefact.file}.json").replace(artefact.results)
    (DOCS / "claims.md").write_text(overview(artefacts().values()))
