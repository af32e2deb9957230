"""The data of the page's charts: curves, resets, alarms, corruptions, estimates."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np

from ..aggregate import apart, settings
from ..collapse import intervals
from ..corruptions import by_name, names_in
from ..curves import MOST, Curve, curve, mean_of
from ..pictures import method_styles
from ..run_alarms import alarms
from ..runs import Run
from ..text_table import natural
from .html_file import rounded

MOST_BANDS = 150  # maximum number of corruption bands; more would hide the curves
RASTER = 400  # number of distinct positions for marks along a stream

Methods = list[tuple[str, list[Run]]]


def panels_of(runs: list[Run]) -> dict[str, Methods]:
    """The runs of each setting by method, sorted by name."""
    found = sorted(settings(runs).items(), key=lambda item: natural(item[0]))
    return {name: apart(same) for name, same in found}


def styles(panels: dict[str, Methods]) -> list[dict[str, Any]]:
    """The name, colour and dashes of each method, the source model first."""
    methods = {label: runs[0] for found in panels.values() for label, runs in found}
    ordered = sorted(methods.items(), key=lambda item: (item[1].adapts, natural(item[0])))
    looks = method_styles((label, run.provenance["method"]) for label, run in ordered)
    return [
        {"method": name, "adapts": methods[name].adapts, **look._asdict()}
        for name, look in looks.items()
    ]


def panel(setting: str, methods: Methods) -> dict[str, Any]:
    """The chart of one setting: mean curves, single runs, marks below and bands behind them."""
    runs = [run for _, same in methods for run in same]
    places = list(dict.fromkeys(run.place for run in runs))
    longest: dict[str, Run] = {}
    for run in runs:
        if run.place not in longest or run.images > longest[run.place].images:
            longest[run.place] = run
    curves, marks = [], []
    for label, same in methods:
        own = {run.place: curve(run) for run in same if run.accuracy is not None}
        if own:
            curves.append(averaged(label, list(own.values())))
            each = {places.index(name): points(found) for name, found in own.items()}
            curves[-1]["each"] = [{"place": n, **found} for n, found in each.items()]
        for run in same:
            marks += [
                {"method": label, "place": places.index(run.place), "kind": kind, "images": at}
                for kind, at in marks_of(run)
            ]
    streams = [{"name": name, "bands": bands(longest[name])} for name in places]
    return {"setting": setting, "streams": streams, "curves": curves, "marks": marks}


def points(found: Curve) -> dict[str, list[float]]:
    """The windows of a curve that have a value."""
    known = ~np.isnan(found.values)
    return {"images": rounded(found.images[known]), "values": rounded(found.values[known])}


def averaged(label: str, curves: list[Curve]) -> dict[str, Any]:
    """A method's mean curve with its band and the number of runs."""
    images, values, sd = map(rounded, mean_of(curves))
    return {"method": label, "runs": len(curves), "images": images, "values": values, "sd": sd}


def marks_of(run: Run) -> Iterator[tuple[str, list[int]]]:
    """The image counts at which a run was reset, raised an alarm (by rule) or undid a step."""
    images = run.column("images")
    undone = np.array(["not_finite" in row for row in run.rows])
    kinds = {"reset": run.column("reset") > 0, "undone step": undone}
    for (name, rule), alarm in alarms(run).items():
        begin = [interval.first for interval in intervals(alarm)]
        kinds[f"alarm of {name}: {rule}"] = np.isin(np.arange(len(images)), begin)
    for kind, flags in kinds.items():
        _, first = np.unique((images[flags] * RASTER // images[-1]), return_index=True)
        if len(first):
            yield kind, [int(image) for image in images[flags][first]]


def bands(run: Run) -> list[list[Any]]:
    """The first and last image of each corruption, ignoring severities; [] if there are too many."""
    found: list[list[Any]] = []
    begin = 0
    for name, rows in groupby(run.rows, lambda row: " + ".join(names_in(row))):
        end = list(rows)[-1]["images"]
        found.append([begin, end, name])
        begin = end
    named = [band for band in found if band[2]]
    return named if 1 < len(named) <= MOST_BANDS else []


def corruptions(panels: dict[str, Methods]) -> list[dict[str, Any]]:
    """Each method's mean accuracy per corruption, over the batches of all settings."""
    runs: dict[str, list[Run]] = {}
    for methods in panels.values():
        for label, same in methods:
            runs.setdefault(label, []).extend(same)
    found: dict[str, list[dict[str, Any]]] = {}
    for label, same in runs.items():
        for name, (accuracy, batches) in by_name(same, "accuracy").items():
            entry = {"method": label, "accuracy": round(accuracy, 5), "batches": batches}
            found.setdefault(name, []).append(entry)
    return [{"corruption": name, "methods": found[name]} for name in sorted(found)]


def estimates(panels: dict[str, Methods]) -> list[dict[str, Any]]:
    """The estimators' curves: one chart per estimator and setting."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for setting, methods in panels.items():
        for label, same in methods:
            for name in dict.fromkeys(name for run in same for name in run.estimators):
                curves = [curve(run, name) for run in same if name in run.estimators]
                found.setdefault((setting, name), []).append(averaged(label, curves))
    charts = [{"setting": s, "estimator": n, "curves": c} for (s, n), c in found.items()]
    return charts[:MOST]


def data(runs: list[Run]) -> dict[str, Any]:
    """The data of all charts."""
    panels = panels_of(runs)
    return {
        "styles": styles(panels),
        "panels": [panel(name, methods) for name, methods in list(panels.items())[:MOST]],
        "panels_left_out": max(0, len(panels) - MOST),
        "corruptions": corruptions(panels),
        "estimates": estimates(panels),
    }
