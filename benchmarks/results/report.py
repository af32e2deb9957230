"""`holdfast report`: table and figure of the runs in a folder, finished or not."""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from ...files import read_json, reason
from ...run_folder import CELL, PROVENANCE, ROWS, SUMMARY, damage, read_rows
from ..suites import status
from .text import aligned, percent

Run = dict[str, Any]
COLUMNS = ("stream", "seed", "method", "accuracy", "last eighth", "collapsed", "resets", "images/s")


def collect(folder: Path) -> list[Run]:
    """Every run below a folder that has rows in its record, with them and its results."""
    begun = [path for path in status.folders(folder) if (path / ROWS).exists()]
    runs = [run for run in (load(path) for path in begun if not damage(path)) if run["rows"]]
    for run in runs:
        run["collapsed"] = collapsed(run, runs)
    return sorted(runs, key=lambda run: (run["stream"], run["seed"], run["started"]))


def load(folder: Path) -> Run:
    """One run; accuracies in [0,1], `accuracy` being the mean over batches, None without labels."""
    facts, names = read_json(folder / PROVENANCE), names_of(folder)
    rows = read_rows(folder)
    accuracy = column({"rows": rows}, "accuracy")
    images = np.diff([0, *(row["images"] for row in rows)])
    return {
        "method": names["method"] or facts["method"],
        "stream": names["stream"] or facts["stream"],
        "stream_id": facts["stream_id"],
        "seed": facts.get("seed"),
        "adapts": facts["method"] != "Source",
        "started": facts["started"],
        "folder": str(folder),
        "finished": (folder / SUMMARY).exists(),
        "accuracy": mean(accuracy),
        "accuracy_per_image": mean(accuracy, images),
        "accuracy_last_eighth": mean(last_eighth(accuracy)),
        "images": rows[-1]["images"] if rows else 0,
        "images_per_second": rows[-1]["images"] / max(rows[-1]["seconds"], 1e-9) if rows else None,
        "resets": int(sum(row["reset"] for row in rows)),
        "rows": rows,
    }


def names_of(folder: Path) -> dict[str, Any]:
    """Method (with override), stream and seed of a suite's cell; None where it is none."""
    names = {} if damage(folder) else read_json(folder / CELL).get("names", {})
    method = "-".join(filter(None, (names.get("method"), names.get("override"))))
    return {"method": method or None, "stream": names.get("stream"), "seed": names.get("seed")}


def failures(folder: Path) -> list[Run]:
    """Every run below a folder that failed, with its error in one line."""
    states = {path: status.state(path) for path in status.folders(folder)}
    return [
        {**names_of(path), "folder": str(path), "error": state.note}
        for path, state in states.items()
        if state.name == "failed"
    ]


def column(run: Run, name: str) -> np.ndarray:
    """One value of each row of a record; NaN where it is missing."""
    return np.array([row.get(name, np.nan) for row in run["rows"]], dtype=float)


def mean(values: np.ndarray, weights: np.ndarray | None = None) -> float | None:
    """The mean of the values that are not NaN; None if all are."""
    known = ~np.isnan(values)
    if not known.any():
        return None
    return float(np.average(values[known], weights=None if weights is None else weights[known]))


def last_eighth(values: np.ndarray) -> np.ndarray:
    """The last eighth of the batches, at least one."""
    return values[-max(1, len(values) // 8) :]


def collapsed(run: Run, runs: list[Run]) -> bool | None:
    """Whether a run ends below the source model on the same images; None if that cannot be said."""
    source = next((r for r in runs if not r["adapts"] and r["stream_id"] == run["stream_id"]), None)
    if source is None or len(source["rows"]) < len(run["rows"]):
        return None
    reference = mean(last_eighth(column(source, "accuracy")[: len(run["rows"])]))
    if reference is None or run["accuracy_last_eighth"] is None:
        return None
    return run["accuracy_last_eighth"] < reference


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
        percent(run["accuracy"]),
        percent(run["accuracy_last_eighth"]),
        verdict,
        str(run["resets"]),
        f"{run['images_per_second']:,.0f}",
    )


def publish(folder: Path) -> None:
    """Print the table and what failed, draw the figure, and say where things are."""
    runs, failed = collect(folder), failures(folder)
    if runs:
        print(table(runs))
    for run in failed:
        named = f"{run['stream']}, seed {run['seed']}, {run['method']}: " if run["method"] else ""
        print(f"failed: {named}{run['error']}")
    if not runs:
        print(f"{folder} holds no runs with results yet")
        return
    from .figure import draw

    try:
        print(f"figure: {draw(runs, folder / 'accuracy.png')}")
    except OSError as error:
        print(f"no figure: {folder} cannot be written ({reason(error)})")


def main(argv: list[str]) -> int:
    """Report on a folder as text and figure, or as JSON."""
    parser = argparse.ArgumentParser(prog="holdfast report", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of a run or of a suite")
    parser.add_argument("--json", action="store_true", help="print JSON, draw nothing")
    args = parser.parse_args(argv)
    if args.json:
        runs = [{k: v for k, v in run.items() if k != "rows"} for run in collect(args.folder)]
        print(json.dumps({"runs": runs, "failed": failures(args.folder)}, indent=1))
    else:
        publish(args.folder)
    return 0
