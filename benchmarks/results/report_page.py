"""The page of `holdfast report FOLDER --html FILE`: the tables of the report, and charts by Bokeh."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ... import HoldfastError
from ...files import read_json
from ...run_folder import CELL, CONFIG
from . import html_page, report
from .batch_means import by_name, curve, mean_curve, names_in
from .collapse import intervals
from .estimate_quality import alarms
from .groups import Group, apart, groups, settings
from .palette import Style, method_styles
from .run_tables import details, matrix
from .runs import Run, with_results
from .text_table import first_of, natural, points

MOST = 24  # maximum number of settings with charts
MOST_BANDS = 150  # maximum number of corruption bands; more would hide the curves
STEP = 0.035  # distance between two rows of marks, in accuracy
MARKERS = {"reset": "dash", "undone step": "x"}  # alarms are triangles
SKIPPED = ("method", "stream_id", "started", "resumed", "ran_on", "device", "setting", "setting_id")
OVER_STREAM = (
    "Lines are means over runs in windows, bands one standard deviation, thin lines single runs. Below "
    "zero, in a row for each method: resets (-), alarms (triangles) and undone steps (x). Shades are "
    "corruptions. Click a name in the legend to mute a method."
)
ESTIMATED = "Accuracy estimated without labels (lines), and true accuracy (dots)."

Methods = list[tuple[str, list[Run]]]
Styles = Mapping[str, Style]


def write(title: str, everything: list[Run], file: Path, published: Mapping[Any, str]) -> Path:
    """Write the page of these runs; `published` are the papers' numbers by setting and method.

    Raises:
        HoldfastError: if bokeh is not installed, or the file cannot be written.
    """
    library = bokeh_library()
    runs, found = with_results(everything), groups(everything)
    panels = {
        name: apart(same)
        for name, same in sorted(settings(runs).items(), key=lambda item: natural(item[0]))
    }
    states = [run.state.name for run in everything]
    return html_page.write(
        file,
        "report.html",
        title=title,
        count=f"{len(states)} runs: "
        + ", ".join(f"{states.count(name)} {name}" for name in sorted(set(states))),
        commands=first_of(distinct(map(command, runs))),
        provenance=provenance(runs) if runs else None,
        missing=[*report.missing(everything), *report.remarks(runs)],
        notes=report.notes(found),
        tables=tables(found, panels, published) if runs else {},
        sections=sections(dict(list(panels.items())[:MOST])),
        library=library,
        data=report.as_json(everything),
    )


def bokeh_library() -> str:
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
    parts = Resources(mode="inline", components=["bokeh"], log_level="error").js_raw
    return "\n".join(parts).replace("</script", "<\\/script")


# ---- provenance and tables ---------------------------------------------------------------------------


def command(run: Run) -> str | None:
    """The command that repeats a run; None for a run started from Python."""
    config = run.folder / CONFIG
    alone = f"holdfast test --config {config}" if config.exists() else None
    return read_json(run.folder / CELL).get("command", alone)


def provenance(runs: list[Run]) -> pd.DataFrame:
    """The facts of each method's runs; one column, "all methods", for those that do not differ."""
    facts = pd.DataFrame([{k: words(v) for k, v in run.provenance.items()} for run in runs])
    facts["device"] = ["; ".join(distinct(f.get("device") for f in r.environments)) for r in runs]
    facts = facts.drop(columns=list(SKIPPED), errors="ignore").fillna("")
    by_method = facts.groupby([run.label for run in runs], sort=False).agg(
        lambda values: "; ".join(first_of(distinct(filter(None, values))))
    )
    same = by_method.nunique() == 1
    table = by_method.mask(same, "").T
    table.insert(0, "all methods", by_method.iloc[0].where(same, ""))
    return table[(table != "").any(axis=1)].reset_index(names="")


def words(content: Any) -> str:
    """A value as text, without what is unset.

    >>> words({"class": "SGD", "lr": 0.1, "nesterov": False})
    'SGD (lr 0.1)'
    """
    if isinstance(content, list):
        return ", ".join(map(words, content))
    if not isinstance(content, dict):
        return "" if content in (None, False) else str(content)
    texts = {key: words(value) for key, value in content.items() if key != "class"}
    inside = ", ".join(f"{key} {text}" for key, text in texts.items() if text)
    if not (name := content.get("class", "")):
        return inside
    return f"{name} ({inside})" if inside else name


def distinct(values: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(str(value) for value in values if value is not None))


def tables(
    found: list[Group], panels: Mapping[str, Methods], published: Mapping[Any, str]
) -> dict[str, pd.DataFrame]:
    """The tables of the report with published numbers if there are any, and accuracy by corruption."""
    of_groups = details(found)
    if published:
        of_groups["published"] = [published.get((g.setting, g.label), "-") for g in found]
    several = len({group.setting for group in found}) > 1
    shown = {"Mean accuracy by method and setting": matrix(found)} if several else {}
    shown["Each method in each setting"] = of_groups
    runs: dict[str, list[Run]] = {}
    for label, same in (own for methods in panels.values() for own in methods):
        runs.setdefault(label, []).extend(same)
    means = pd.DataFrame({label: by_name(same, "accuracy") for label, same in runs.items()})
    if len(means) > 1:
        caption = "Mean accuracy over all batches with a corruption, whatever its severity"
        texts = means.sort_index().map(points).replace("nan", "-")
        shown[caption] = texts.reset_index(names="corruption")
    return shown


# ---- charts ------------------------------------------------------------------------------------------


def sections(panels: Mapping[str, Methods]) -> list[tuple[str, str, list[Any]]]:
    """The title, the explanation and the charts (as JSON) of each section that has any."""
    from bokeh.core.types import ID
    from bokeh.embed import json_item

    methods = {label: same[0] for found in panels.values() for label, same in found}
    ordered = sorted(methods.items(), key=lambda item: (item[1].adapts, natural(item[0])))
    styles = method_styles((label, run.provenance["method"]) for label, run in ordered)
    accuracy = [stream_chart(name, found, styles) for name, found in panels.items()]
    estimates = [c for name, found in panels.items() for c in estimate_charts(name, found, styles)]
    found = {"Accuracy over the stream": accuracy, "Estimated accuracy": estimates}
    notes = (OVER_STREAM, ESTIMATED)
    return [
        (title, note, [json_item(chart, ID(f"{title} {n}")) for n, chart in enumerate(charts)])
        for (title, charts), note in zip(found.items(), notes, strict=True)
        if charts
    ]


def new_chart(title: str) -> Any:
    """A chart of accuracy over the images seen; a click on a method in its legend mutes it."""
    from bokeh.models import HoverTool, NumeralTickFormatter
    from bokeh.models.annotations import Legend
    from bokeh.plotting import figure

    hover = HoverTool(tooltips=[("", "$name"), ("images", "$x{0,0}"), ("accuracy", "$y{0.0%}")])
    tools: list[Any] = ["pan", "wheel_zoom", "box_zoom", "reset", hover]
    chart = figure(title=title, height=320, sizing_mode="stretch_width", tools=tools)
    chart.add_layout(Legend(click_policy="mute", label_text_font_size="11px"), "right")
    chart.toolbar.autohide = True
    chart.xaxis.formatter = NumeralTickFormatter(format="0.[0]a")
    chart.yaxis.formatter = NumeralTickFormatter(format="0%")
    return chart


def look(label: str, styles: Styles) -> dict[str, Any]:
    """What all glyphs of a method share."""
    colour = styles[label].colour
    return {"legend_label": label, "name": label, "color": colour, "muted_alpha": 0.03}


def stream_chart(setting: str, methods: Methods, styles: Styles) -> Any:
    """The chart of one setting: mean curves, single runs, marks below and corruptions behind them."""
    chart, row = new_chart(setting), 0
    runs = [run for _, same in methods for run in same]
    if len({run.place for run in runs}) == 1:
        shade_corruptions(chart, max(runs, key=lambda run: run.images))
    for label, same in methods:
        shared = look(label, styles)
        if curves := [curve(run) for run in same if run.accuracy is not None]:
            mean, sd = mean_curve(curves)["mean"], mean_curve(curves)["sd"]
            if len(curves) > 1:
                xs, ys = [list(c.index) for c in curves], [list(c) for c in curves]
                chart.multi_line(xs, ys, alpha=0.3, line_width=0.5, **shared)
                chart.varea(mean.index, mean - sd, mean + sd, alpha=0.12, **shared)
            dashes = list(styles[label].dashes)
            chart.line(mean.index, mean, line_width=2, line_dash=dashes, **shared)
        marks = [(kind, at) for run in same for kind, at in marks_of(run) if len(at)]
        row += bool(marks)
        for kind, images in marks:
            own = shared | {"name": f"{label}: {kind}", "marker": MARKERS.get(kind, "triangle")}
            chart.scatter(images, np.full(len(images), -STEP * row), size=7, **own)
    return chart


def marks_of(run: Run) -> Iterator[tuple[str, np.ndarray]]:
    """The image counts at which a run was reset, undid a step or raised an alarm (by rule)."""
    images = run.column("images")
    yield "reset", images[run.column("reset") > 0]
    yield "undone step", images[run.column("not_finite") > 0]
    for (name, rule), alarm in alarms(run).items():
        yield f"alarm of {name}: {rule}", images[[found.first for found in intervals(alarm)]]


def shade_corruptions(chart: Any, run: Run) -> None:
    """Shade the corruptions of a run's stream, ignoring severities, unless there are too many."""
    bands: list[dict[str, Any]] = []
    for name, rows in groupby(run.rows, lambda row: " + ".join(names_in(row))):
        start = bands[-1]["right"] if bands else 0
        shade = ("#777777", "#bbbbbb")[len(bands) % 2]
        bands.append(
            {"left": start, "right": list(rows)[-1]["images"], "color": shade, "name": name}
        )
    for band in bands if 1 < len(bands) <= MOST_BANDS else ():
        chart.quad(bottom=0, top=1, alpha=0.1, **band)


def estimate_charts(setting: str, methods: Methods, styles: Styles) -> Iterator[Any]:
    """One chart per estimator with the mean curves of its estimates and of the true accuracy."""
    for name in dict.fromkeys(n for _, same in methods for run in same for n in run.estimators):
        chart = new_chart(f"{name} ({setting})")
        for label, same in methods:
            if watched := [run for run in same if name in run.estimators]:
                estimate, truth = (
                    mean_curve([curve(run, column) for run in watched])["mean"]
                    for column in (name, "accuracy")
                )
                chart.line(estimate.index, estimate, line_width=2, **look(label, styles))
                chart.scatter(truth.index, truth, size=4, **look(label, styles))
        yield chart
