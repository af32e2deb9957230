"""The page of `holdfast report FOLDER --html FILE`: the tables of the report, and charts by Bokeh."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from ... import HoldfastError
from ...files import whole_file, written
from ...run_folder import CONFIG
from . import report
from .batch_means import by_name, curve, mean_curve, names_in
from .collapse import intervals
from .estimators import alarms
from .figure import Style, styles_of
from .groups import Methods, groups
from .runs import Run, with_results
from .tables import details, matrix, means, pairs
from .text_table import first_of, points

_SKIPPED = ["method", "stream_id", "started", "resumed", "ran_on", "setting", "setting_id"]

_MOST_BANDS = 150  # maximum number of corruption bands; more would hide the curves
_STEP = 0.035  # distance between two rows of marks, in accuracy
_NOTE = (
    "Lines are means over runs in windows, bands one standard deviation. Below zero, in a row for each "
    "method: resets (-) and alarms (triangles). Shades are corruptions. The charts of estimators show "
    "accuracy estimated without labels (lines), and true accuracy (dots). Click a name in the legend to "
    "mute a method."
)

_Styles = Mapping[str, Style]


def write_page(folder: Path, everything: list[Run], file: Path) -> Path:
    """Write the page of the runs of a folder.

    Raises HoldfastError if bokeh is not installed, or the file cannot be written.
    """
    if find_spec("bokeh") is None:
        raise HoldfastError(
            "--html needs bokeh, which is not installed. Run: pip install 'holdfast[html]'."
        )
    from bokeh.resources import Resources

    library = "\n".join(Resources(mode="inline", components=["bokeh"], log_level="error").js_raw)
    runs, by_setting = with_results(everything), groups(everything)
    table = means(by_setting)
    states = Counter(run.state.name for run in everything)
    page = _template().render(
        title=str(folder),
        count=f"{len(everything)} runs: {', '.join(f'{n} {s}' for s, n in sorted(states.items()))}",
        commands=first_of(_distinct(map(_command, runs))),
        missing=report.missing(everything),
        remarks=report.remarks(runs),
        notes=[*report.notes(table), *report.indistinct(pairs(by_setting))],
        tables=_tables(table, runs) if runs else {},
        charts=_charts(runs),
        explanation=_NOTE,
        library=library.replace("</script", "<\\/script"),
        provenance=_provenance(runs) if runs else None,
        data=report.as_json(everything),
    )
    with written(file, "or choose another file."), whole_file(file) as partial:
        partial.write_bytes(page.encode(errors="replace"))
    return file


def _template() -> Template:
    """The template of the page; a data frame in it is a table whose columns can be sorted."""

    def table(frame: pd.DataFrame) -> Markup:
        with pd.option_context("display.max_colwidth", None):
            return Markup(frame.to_html(index=False, border=0, justify="left"))

    loader = FileSystemLoader(Path(__file__).parent)
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    pages.trim_blocks = pages.lstrip_blocks = True
    pages.policies["json.dumps_kwargs"] = {"sort_keys": False}  # Bokeh's charts depend on the order
    pages.filters["table"] = table
    return pages.get_template("report.html")


def _tables(table: pd.DataFrame, runs: Sequence[Run]) -> dict[str, pd.DataFrame]:
    """The tables of the report, and accuracy by corruption."""
    shown = {}
    if table["setting"].nunique() > 1:
        shown["Mean accuracy by method and setting"] = matrix(table)
    shown["Each method in each setting"] = details(table)
    by_corruption = by_name(runs, "accuracy").sort_index()
    if len(by_corruption) > 1:
        caption = "Mean accuracy over all batches with a corruption, whatever its severity"
        shown[caption] = by_corruption.map(points).replace("nan", "-").reset_index()
    return shown


def _command(run: Run) -> str | None:
    """The command that repeats a run; None for a run started from Python."""
    config = run.folder / CONFIG
    return run.cell.get("command", f"holdfast test --config {config}" if config.exists() else None)


def _provenance(runs: Sequence[Run]) -> pd.DataFrame:
    """The facts of each method's runs; one column, "all methods", for those that do not differ."""
    facts = pd.DataFrame([run.provenance for run in runs]).drop(columns=_SKIPPED, errors="ignore")
    by_method = facts.groupby([run.label for run in runs], sort=False).agg(
        lambda values: "; ".join(first_of(_distinct(values.dropna())))
    )
    same = by_method.nunique() == 1
    table = by_method.mask(same, "").T
    table.insert(0, "all methods", by_method.iloc[0].where(same, ""))
    return table.loc[(table != "").any(axis=1), (table != "").any()].reset_index(names="")


def _distinct(values: Iterable[Any]) -> list[str]:
    """The different values as text, without empty ones."""
    return list(dict.fromkeys(str(value) for value in values if value))


def _charts(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The charts of each setting as JSON: accuracy over the stream, and each estimator's estimates."""
    from bokeh.core.types import ID
    from bokeh.embed import json_item

    settings, drawn = groups(runs), []
    styles = styles_of(settings)
    for setting, methods in settings.items():
        drawn.append(_stream_chart(setting, methods, styles))
        drawn += _estimate_charts(setting, methods, styles)
    return [dict(json_item(chart, ID(f"chart {n}"))) for n, chart in enumerate(drawn)]


def _new_chart(title: str) -> Any:
    """A chart of accuracy over the images seen; a click on a method in its legend mutes it."""
    from bokeh.models import HoverTool, NumeralTickFormatter
    from bokeh.models.annotations import Legend
    from bokeh.plotting import figure

    hover = HoverTool(tooltips=[("", "$name"), ("images", "$x{0,0}"), ("accuracy", "$y{0.0%}")])
    tools: list[Any] = ["pan", "wheel_zoom", "box_zoom", "reset", hover]
    chart = figure(title=title, height=360, sizing_mode="stretch_width", tools=tools)
    looks: dict[str, Any] = {"orientation": "horizontal", "ncols": 3, "border_line_color": None}
    chart.add_layout(Legend(click_policy="mute", label_text_font_size="11px", **looks), "below")
    chart.toolbar.autohide = True
    chart.xaxis.formatter = NumeralTickFormatter(format="0.[0]a")
    chart.yaxis.formatter = NumeralTickFormatter(format="0%")
    return chart


def _look(label: str, styles: _Styles) -> dict[str, Any]:
    """What all glyphs of a method share."""
    colour = styles[label].colour
    return {"legend_label": label, "name": label, "color": colour, "muted_alpha": 0.03}


def _stream_chart(setting: str, methods: Methods, styles: _Styles) -> Any:
    """The chart of one setting: mean curves, marks below and corruptions behind them."""
    chart, row = _new_chart(setting), 0
    runs = [run for same in methods.values() for run in same]
    if len({run.place for run in runs}) == 1:
        _shade_corruptions(chart, max(runs, key=lambda run: run.images))
    for label, same in methods.items():
        shared = _look(label, styles)
        if curves := [curve(run) for run in same if run.accuracy is not None]:
            band = mean_curve(curves)
            chart.varea(band.index, band["low"], band["high"], alpha=0.12, **shared)
            dashes = list(styles[label].dashes)
            chart.line(band.index, band["mean"], line_width=2, line_dash=dashes, **shared)
        marks = [(kind, at) for run in same for kind, at in _marks_of(run) if len(at)]
        row += bool(marks)
        for kind, images in marks:
            marker = "dash" if kind == "reset" else "triangle"
            looks = shared | {"name": f"{label}: {kind}", "marker": marker}
            chart.scatter(images, np.full(len(images), -_STEP * row), size=7, **looks)
    return chart


def _marks_of(run: Run) -> Iterator[tuple[str, np.ndarray]]:
    """The image counts at which a run was reset or raised an alarm (by rule)."""
    images = run.column("images")
    yield "reset", images[run.column("reset") > 0]
    for (name, rule), alarm in alarms(run).items():
        yield f"alarm of {name}: {rule}", images[[interval.first for interval in intervals(alarm)]]


def _shade_corruptions(chart: Any, run: Run) -> None:
    """Shade the corruptions of a run's stream, ignoring severities, unless there are too many."""
    bands = [
        (name, list(rows)[-1]["images"])
        for name, rows in groupby(run.rows, lambda row: " + ".join(names_in(row)))
    ]
    start = 0
    for n, (name, end) in enumerate(bands if 1 < len(bands) <= _MOST_BANDS else ()):
        shade = {"color": ("#777777", "#bbbbbb")[n % 2], "alpha": 0.1, "name": name}
        chart.quad(left=start, right=end, bottom=0, top=1, **shade)
        start = end


def _estimate_charts(setting: str, methods: Methods, styles: _Styles) -> Iterator[Any]:
    """One chart per estimator with the mean curves of its estimates and of the true accuracy."""
    runs = [run for same in methods.values() for run in same]
    for name in dict.fromkeys(name for run in runs for name in run.estimators):
        chart = _new_chart(f"{name} ({setting})")
        for label, same in methods.items():
            if estimated := [run for run in same if name in run.estimators]:
                estimate, truth = (
                    mean_curve([curve(run, column) for run in estimated])["mean"]
                    for column in (name, "accuracy")
                )
                chart.line(estimate.index, estimate, line_width=2, **_look(label, styles))
                chart.scatter(truth.index, truth, size=4, **_look(label, styles))
        yield chart
