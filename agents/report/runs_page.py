"""Runs and trajectories as self-contained pages, readable without network or scripts."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...templates import environment
from ..costs import Prices, usd_of
from ..data import ASSETS, Dataset, Sample, new_file
from ..matching import THRESHOLD
from ..results import Key
from ..schema import Header, Record
from ..score import Scores, judge
from ..stats import Rate
from ..trajectory import KINDS, failure
from . import charts_svg as charts
from .beside import beside_published
from .figures import ACTIONS
from .show import READING, shortened, story

TEMPLATE = "citations.html"
Cell = tuple[str, str]  # the text, and the anchor that it links to ("" for none)
Table = tuple[list[str], list[Sequence[Cell]]]


@dataclass
class JudgedRun:
    """A run with its scores."""

    name: str
    header: Header
    dataset: Dataset
    records: Mapping[Key, Record]
    scores: Scores
    threshold: float = THRESHOLD
    prices: Prices | None = None


def page(title: str, **shown: Any) -> str:
    """The whole page."""
    own = environment(ASSETS)
    own.filters["n"] = "{:.1f}".format
    own.globals |= {"shortened": shortened, "reading": READING}
    own.globals |= {"width": charts.WIDTH, "height": charts.HEIGHT, "margin": charts.MARGIN}
    return own.get_template(TEMPLATE).render(title=title, **shown)


def trajectory_page(header: Header, record: Record, sample: Sample) -> str:
    """One sample's trajectory, with everything that the agent was shown."""
    title = f"{sample.id} by {header.agent.model_or_name}"
    return page(title, sample=story(record, sample))


def runs_page(runs: Sequence[JudgedRun]) -> str:
    """A page that compares runs; every count links to its samples, and these to their steps."""
    steps = [(run.scores.actions_by_step_correct, run.name) for run in runs]
    return page(
        "CiteME: runs side by side",
        sample=None,
        ours=any(run.dataset.name == "mini-cite" for run in runs),
        summary=summary(runs),
        outcomes=counted(runs, "outcome", [run.scores.outcomes for run in runs]),
        failures=counted(runs, "failure", [run.scores.failures for run in runs]),
        kinds=KINDS,
        steps=[charts.stacked(columns, ACTIONS, name) for columns, name in steps],
        costs=costs(runs),
        runs=[samples(k, run) for k, run in enumerate(runs)],
    )


def summary(runs: Sequence[JudgedRun]) -> Table:
    """The table of figures, one row per run, without empty columns."""
    columns: dict[str, list[Cell]] = {}
    for k, run in enumerate(runs):
        s, agent = run.scores, run.header.agent
        demonstration = " + demonstration" if agent.demonstration else ""
        spread, cut = s.per_repeat, s.by_cutoff or {"year": ""}
        cells = {
            "run": run.name,
            "model": agent.model_or_name,
            "setting": f"{agent.commands or ''}{demonstration}",
            "data": f"{run.dataset.name}, {run.dataset.split}, n = {s.n}",
            "accuracy, %": compact(s.accuracy),
            "repeats": f"{100 * spread['mean']:.1f} ± {100 * spread['sd']:.1f} %" if spread else "",
            "strict, %": compact(s.strict_accuracy),
            "found, %": compact(s.found_in_search),
            f"before {cut['year']}": compact(cut.get("before")),
            f"since {cut['year']}": compact(cut.get("since")),
            "USD": rounded(s.usd_per_sample["mean"]),
            "tokens": rounded(s.tokens_per_sample["mean"]),
            "seconds": rounded(s.seconds["mean"]),
        }
        leads = {"run": f"r{k}"}
        if s.accuracy.k:
            leads["accuracy, %"] = anchor(k, "outcome", "correct")
        for name, cell in cells.items():
            columns.setdefault(name, []).append((cell, leads.get(name, "")))
    shown = {name: column for name, column in columns.items() if any(cell for cell, _ in column)}
    return list(shown), list(zip(*shown.values(), strict=True))


def compact(rate: Rate | None) -> str:
    """A rate in percent with its interval; "" without samples."""
    if rate is None or rate.rate is None:
        return ""
    return f"{100 * rate.rate:.1f} [{100 * rate.low:.0f}, {100 * rate.high:.0f}]"


def rounded(value: float | None) -> str:
    """Three digits; "" for None."""
    return "" if value is None else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"


def counted(runs: Sequence[JudgedRun], what: str, counts: Sequence[Mapping[str, int]]) -> Table:
    """Counts and shares, one column per run; each count links to its samples."""
    rows: list[Sequence[Cell]] = []
    for kind in dict.fromkeys(kind for column in counts for kind in column):
        row: list[Cell] = [(kind.replace("_", " "), "")]
        for k, column in enumerate(counts):
            count, total = column.get(kind, 0), sum(column.values()) or 1
            shown = f"{count} ({100 * count / total:.1f} %)"
            row.append((shown, anchor(k, what, kind)) if count else ("0", ""))
        rows.append(row)
    return [what, *(run.name for run in runs)], rows


def costs(runs: Sequence[JudgedRun]) -> list[charts.Chart]:
    """Histograms of price and duration per sample, and accuracy against the mean of either."""
    drawn = []
    for run in runs:
        calls = [record.calls for record in run.records.values() if record.calls]
        usd = [value for c in calls if (value := usd_of(c, run.prices)) is not None]
        if usd:
            drawn.append(charts.histogram(usd, f"{run.name}: price", "USD"))
        seconds = [record.seconds for record in run.records.values()]
        drawn.append(charts.histogram(seconds, f"{run.name}: duration", "s"))
    for key, unit in (("usd_per_sample", "USD"), ("seconds", "s")):
        named = {}
        for run in runs:
            rate, cost = run.scores.accuracy, getattr(run.scores, key)["mean"]
            if cost is not None and rate.rate is not None:
                named[run.name] = (cost, rate.low, rate.rate, rate.high)
        if named:
            drawn.append(charts.points(named, f"accuracy against {unit} per sample", unit))
    return drawn


def samples(k: int, run: JudgedRun) -> dict[str, Any]:
    """A run's samples, listed by outcome, and their trajectories."""
    known = {s.id: s for s in run.dataset.samples}
    lists: dict[str, list[Any]] = {}
    shown = []
    for (name, repeat), record in run.records.items():
        if name not in known:
            continue
        row = judge(record, known[name], run.threshold)
        place = f"r{k}-{name}-{repeat}"
        groups = [("outcome", row.outcome)]
        if row.outcome == "wrong" and row.searched:
            groups.append(("failure", failure(record, known[name], run.threshold)))
        for group in groups:
            link = (f"{name} ({repeat})" if repeat else name, place)
            lists.setdefault(anchor(k, *group), [" ".join(group)]).append(link)
        shown.append({**story(record, known[name]), "place": place})
    beside = beside_published(run.header, run.dataset, run.scores)
    return {"name": run.name, "beside": beside, "lists": lists, "samples": shown}


def anchor(k: int, what: str, kind: str) -> str:
    """The anchor of the list of samples of a kind."""
    return f"r{k}-{what}-" + "".join(c if c.isalnum() else "-" for c in kind)


def write_page(path: Path, content: str) -> None:
    """Write a page atomically, and print its path."""
    with new_file(path, "--html") as partial:
        partial.write_text(content, encoding="utf-8")
    print(f"Wrote {path}", file=sys.stderr)
