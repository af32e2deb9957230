"""`holdfast report`: table and figure of the runs in a folder, finished or not."""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from .. import HoldfastError
from ..callbacks.record import PROVENANCE, ROWS, SUMMARY, read_rows
from .text import aligned

Run = dict[str, Any]
COLUMNS = ("stream", "seed", "method", "accuracy", "last eighth", "collapsed", "resets", "images/s")


def collect(folder: Path) -> list[Run]:
    """Every run below a folder, with its results and the rows of its record."""
    if not folder.is_dir():
        raise HoldfastError(f"{folder} is not a folder: give the folder of a run or of a suite.")
    runs = [load(path.parent) for path in sorted(folder.rglob(ROWS))]
    runs = [run for run in runs if run["rows"]]
    for run in runs:
        run["collapsed"] = collapsed(run, runs)
    return sorted(runs, key=lambda run: (run["stream"], run["seed"], run["started"]))


def load(folder: Path) -> Run:
    """One run; accuracies in [0,1], `accuracy` being the mean over batches."""
    facts = json.loads((folder / PROVENANCE).read_text())
    cell = folder / "cell.json"
    names = json.loads(cell.read_text())["names"] if cell.exists() else {}
    rows = read_rows(folder)
    accuracy = np.array([row["accuracy"] for row in rows])
    images = np.diff([0, *(row["images"] for row in rows)])
    return {
        "method": "-".join(filter(None, (names.get("method"), names.get("override"))))
        or facts["method"],
        "stream": names.get("stream", facts["stream"]),
        "stream_id": facts["stream_id"],
        "seed": facts.get("seed"),
        "adapts": facts["method"] != "Source",
        "started": facts["started"],
        "folder": str(folder),
        "finished": (folder / SUMMARY).exists(),
        "accuracy": float(accuracy.mean()) if rows else None,
        "accuracy_per_image": float((accuracy * images).sum() / images.sum()) if rows else None,
        "accuracy_last_eighth": float(last_eighth(accuracy).mean()) if rows else None,
        "images": rows[-1]["images"] if rows else 0,
        "images_per_second": rows[-1]["images"] / max(rows[-1]["seconds"], 1e-9) if rows else None,
        "resets": int(sum(row["reset"] for row in rows)),
        "rows": rows,
    }


def last_eighth(values: np.ndarray) -> np.ndarray:
    """The last eighth of the batches, at least one."""
    return values[-max(1, len(values) // 8) :]


def collapsed(run: Run, runs: list[Run]) -> bool | None:
    """Whether a run ends below the source model on the same images; None if that was not run."""
    source = next((r for r in runs if not r["adapts"] and r["stream_id"] == run["stream_id"]), None)
    if source is None or len(source["rows"]) < len(run["rows"]):
        return None
    reference = np.array([row["accuracy"] for row in source["rows"][: len(run["rows"])]])
    return bool(run["accuracy_last_eighth"] < last_eighth(reference).mean())


def table(runs: list[Run]) -> str:
    """The results as aligned text."""
    return aligned([COLUMNS, *(cells(run) for run in runs)])


def cells(run: Run) -> tuple[str, ...]:
    """One line of the table."""
    verdict = {True: "yes", False: "no", None: "?"}[run["collapsed"]] if run["adapts"] else "-"
    return (
        run["stream"],
        str(run["seed"]),
        run["method"] + ("" if run["finished"] else " (unfinished)"),
        f"{run['accuracy']:.1%}",
        f"{run['accuracy_last_eighth']:.1%}",
        verdict,
        str(run["resets"]),
        f"{run['images_per_second']:,.0f}",
    )


def publish(folder: Path) -> None:
    """Print the table, draw the figure, and say where things are."""
    runs = collect(folder)
    if not runs:
        print(f"{folder} holds no runs yet")
        return
    from .figure import draw

    print(table(runs))
    print(f"figure: {draw(runs, folder / 'accuracy.png')}")


def main(argv: list[str]) -> int:
    """Report on a folder as text and figure, or as JSON."""
    parser = argparse.ArgumentParser(prog="holdfast report", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of a run or of a suite")
    parser.add_argument("--json", action="store_true", help="print JSON, draw nothing")
    args = parser.parse_args(argv)
    if args.json:
        runs = [{k: v for k, v in run.items() if k != "rows"} for run in collect(args.folder)]
        print(json.dumps({"runs": runs}, indent=1))
    else:
        publish(args.folder)
    return 0
