"""The page of `holdfast report FOLDER --html FILE`: the tables of the report, and charts by Bokeh."""

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from ... import HoldfastError
from ...files import read_json, unwritable, whole_file
from ...run_folder import CELL, CONFIG
from . import report
from .batch_means import by_name
from .charts import Methods, sections
from .groups import Group, apart, groups, settings
from .run_tables import details, matrix
from .runs import Run, with_results
from .text_table import first_of, natural, points

MOST = 24  # maximum number of settings with charts
SKIPPED = ("method", "stream_id", "started", "resumed", "ran_on", "device", "setting", "setting_id")


def check(file: Path) -> None:
    """Refuse, before any work, a page that cannot be written.

    Raises:
        HoldfastError: if its folder does not exist, or bokeh is not installed.
    """
    if file.is_dir() or not file.absolute().parent.is_dir():
        raise HoldfastError(
            f"Cannot write {file}. Pass --html a file in an existing, writable folder."
        )
    if find_spec("bokeh") is None:
        raise HoldfastError(
            "--html needs bokeh, which is not installed. Run: pip install 'holdfast[html]'."
        )


def write(title: str, everything: list[Run], file: Path, published: Mapping[Any, str]) -> Path:
    """Write the page of these runs; `published` are the papers' numbers by setting and method.

    Raises:
        HoldfastError: if the file cannot be written.
    """
    runs, found = with_results(everything), groups(everything)
    panels = {
        name: apart(same)
        for name, same in sorted(settings(runs).items(), key=lambda item: natural(item[0]))
    }
    page = template().render(
        title=title,
        count=counted(everything),
        commands=first_of(distinct(map(command, runs))),
        missing=[*report.missing(everything), *report.remarks(runs)],
        notes=report.notes(found),
        tables=tables(found, panels, published) if runs else {},
        sections=sections(dict(list(panels.items())[:MOST])),
        library=bokeh_library(),
        provenance=provenance(runs) if runs else None,
        data=report.as_json(everything),
    )
    try:
        with whole_file(file) as partial:
            partial.write_bytes(page.encode(errors="replace"))
    except OSError as error:
        raise unwritable(file, error, "or choose another file.") from None
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


def counted(everything: list[Run]) -> str:
    """The number of runs, and how many are in each state."""
    states = [run.state.name for run in everything]
    words = [f"{states.count(name)} {name}" for name in sorted(set(states))]
    return f"{len(states)} runs: {', '.join(words)}"


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
