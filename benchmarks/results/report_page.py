"""The page of `holdfast report FOLDER --html FILE`: the tables of the report, and charts by Bokeh."""

from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from ... import HoldfastError
from ...files import whole_file, written
from ...run_folder import CONFIG
from . import report
from .batch_means import by_name
from .charts import NOTE, charts
from .groups import groups
from .runs import Run, with_results
from .tables import details, matrix, means, pairs
from .text_table import first_of, points

SKIPPED = ["method", "stream_id", "started", "resumed", "ran_on", "setting", "setting_id"]


def write(folder: Path, everything: list[Run], file: Path) -> Path:
    """Write the page of the runs of a folder.

    Raises:
        HoldfastError: if bokeh is not installed, or the file cannot be written.
    """
    if find_spec("bokeh") is None:
        raise HoldfastError(
            "--html needs bokeh, which is not installed. Run: pip install 'holdfast[html]'."
        )
    runs, by_setting = with_results(everything), groups(everything)
    found = means(by_setting)
    states = Counter(run.state.name for run in everything)
    page = template().render(
        title=str(folder),
        count=f"{len(everything)} runs: {', '.join(f'{n} {s}' for s, n in sorted(states.items()))}",
        commands=first_of(distinct(map(command, runs))),
        missing=[*report.missing(everything), *report.remarks(runs)],
        notes=[*report.notes(found), *report.indistinct(pairs(by_setting))],
        tables=tables(found, runs) if runs else {},
        charts=charts(runs),
        explanation=NOTE,
        library=bokeh_library(),
        provenance=provenance(runs) if runs else None,
        data=report.as_json(everything),
    )
    with written(file, "or choose another file."), whole_file(file) as partial:
        partial.write_bytes(page.encode(errors="replace"))
    return file


def template() -> Template:
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


def bokeh_library() -> str:
    """The JavaScript library of the charts."""
    from bokeh.resources import Resources

    parts = Resources(mode="inline", components=["bokeh"], log_level="error").js_raw
    return "\n".join(parts).replace("</script", "<\\/script")


def tables(found: pd.DataFrame, runs: Sequence[Run]) -> dict[str, pd.DataFrame]:
    """The tables of the report, and accuracy by corruption."""
    shown = {"Each method in each setting": details(found)}
    if found["setting"].nunique() > 1:
        shown = {"Mean accuracy by method and setting": matrix(found), **shown}
    means = by_name(runs, "accuracy").sort_index()
    if len(means) > 1:
        caption = "Mean accuracy over all batches with a corruption, whatever its severity"
        shown[caption] = means.map(points).replace("nan", "-").reset_index()
    return shown


def command(run: Run) -> str | None:
    """The command that repeats a run; None for a run started from Python."""
    config = run.folder / CONFIG
    return run.cell.get("command", f"holdfast test --config {config}" if config.exists() else None)


def provenance(runs: Sequence[Run]) -> pd.DataFrame:
    """The facts of each method's runs; one column, "all methods", for those that do not differ."""
    facts = pd.DataFrame([run.provenance for run in runs]).drop(columns=SKIPPED, errors="ignore")
    by_method = facts.groupby([run.label for run in runs], sort=False).agg(
        lambda values: "; ".join(first_of(distinct(values.dropna())))
    )
    same = by_method.nunique() == 1
    table = by_method.mask(same, "").T
    table.insert(0, "all methods", by_method.iloc[0].where(same, ""))
    return table[(table != "").any(axis=1)].reset_index(names="")


def distinct(values: Iterable[Any]) -> list[str]:
    """The different values as text, without empty ones."""
    return list(dict.fromkeys(str(value) for value in values if value))
